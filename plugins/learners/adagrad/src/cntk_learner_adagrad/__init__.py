"""AdaGrad as CNTK does it: rates per sample, steps normalised by their average multiplier."""

from cntk_learner_adagrad.adagrad import AdaGrad, AdaGradOptions

__all__ = ["AdaGrad", "AdaGradOptions"]
