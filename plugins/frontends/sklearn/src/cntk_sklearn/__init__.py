"""Networks as estimators of scikit-learn."""

from cntk_sklearn.classifier import CntkClassifier
from cntk_sklearn.regressor import CntkRegressor

__all__ = ["CntkClassifier", "CntkRegressor"]
