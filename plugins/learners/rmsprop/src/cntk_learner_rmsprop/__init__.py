"""RmsProp as CNTK does it: with a step size of its own for each weight that follows the gradient's sign."""

from cntk_learner_rmsprop.rmsprop import RmsProp, RmsPropOptions

__all__ = ["RmsProp", "RmsPropOptions"]
