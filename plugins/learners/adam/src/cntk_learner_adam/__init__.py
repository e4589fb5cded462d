"""Adam, AdaMax, AdaDelta and AdamW."""

from cntk_learner_adam.adadelta import AdaDelta, AdaDeltaOptions
from cntk_learner_adam.adam import Adam, AdaMax, AdamOptions, AdamW, AdamWOptions

__all__ = ["AdaDelta", "AdaDeltaOptions", "AdaMax", "Adam", "AdamOptions", "AdamW", "AdamWOptions"]
