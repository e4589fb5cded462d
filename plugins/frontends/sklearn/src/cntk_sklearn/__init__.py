"""Networks as estimators of scikit-learn."""

from cntk_sklearn.classifier import CntkClassifier
from cntk_sklearn.regressor import CntkRegressor
from cntk_sklearn.tagger import SequenceTagger
from cntk_sklearn.transformer import CntkTransformer

__all__ = ["CntkClassifier", "CntkRegressor", "CntkTransformer", "SequenceTagger"]
