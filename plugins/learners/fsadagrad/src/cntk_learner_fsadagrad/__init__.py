"""FSAdaGrad: CNTK's adaptive rule that remembers variances over time."""

from cntk_learner_fsadagrad.fsadagrad import FSAdaGrad, FSAdaGradOptions

__all__ = ["FSAdaGrad", "FSAdaGradOptions"]
