"""Arrays are data: fit, evaluate and predict for networks, models and the functions of CNTK 2's Python."""

from cntk_fit.callbacks import Callback, Fitting
from cntk_fit.estimator import Estimator
from cntk_fit.history import History
from cntk_fit.stopping import EarlyStopping

__all__ = ["Callback", "EarlyStopping", "Estimator", "Fitting", "History"]
