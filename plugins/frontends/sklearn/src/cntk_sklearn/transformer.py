"""CntkTransformer: rows become the values of a layer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from cntk_sklearn.base import FLOATS, NetworkEstimator, hidden_name
from cntk_sklearn.regressor import CntkRegressor
from cntk_sklearn.training import seed_of


class CntkTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Rows become the values of a layer of a network.

    Args:
        estimator: a :class:`~cntk_sklearn.CntkClassifier` or a :class:`~cntk_sklearn.CntkRegressor`, a copy of which
            learns ``y``; without ``y`` a regressor learns to say the row itself. None is an autoencoder, a regressor
            with one hidden layer, which says the row itself whatever ``y`` is.
        layer: the number of a hidden layer, negative from the last; or the name of a node. None is the last hidden
            layer, of what says the row itself the middle one.
        n_components: units of the hidden layer if there is no estimator.
        random_state: of the autoencoder; and of the estimator, unless it is None.

    Attributes:
        estimator_: what was learned.
        layer_: the name of the layer's node.
    """

    estimator_: NetworkEstimator
    layer_: str

    def __init__(
        self, estimator: Any = None, *, layer: Any = None, n_components: int = 16, random_state: Any = None
    ) -> None:
        self.estimator = estimator
        self.layer = layer
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn rows.

        Args:
            X: rows ``(rows, features)``: an array, a table or a sparse matrix.
            y: what the estimator learns.
            sample_weight: of each row; how often it is there.

        Raises:
            ValueError: the data are not what scikit-learn allows, there is no such layer, or ``y`` is missing.
        """
        x = validate_data(self, X, accept_sparse="csr", dtype=FLOATS)
        itself = self.estimator is None or (y is None and isinstance(self.estimator, CntkRegressor))
        if y is None and not itself:
            raise ValueError(f"{type(self.estimator).__name__} requires y to be passed, but the target y is None")
        made = CntkRegressor((self.n_components,), "tanh") if self.estimator is None else clone(self.estimator)
        if self.random_state is not None:
            made.set_params(random_state=seed_of(self.random_state))
        target = (x.toarray() if hasattr(x, "toarray") else x) if itself else y
        self.estimator_ = made.fit(x, target, sample_weight)
        self.layer_ = self._found_layer(middle=itself)
        self._n_features_out = int(np.prod(self.estimator_.network_[self.layer_].known_shape))
        return self

    def _found_layer(self, *, middle: bool) -> str:
        """Return the name of the layer's node.

        Raises:
            ValueError: there is none.
        """
        network = self.estimator_.network_
        layers = 0
        while hidden_name(layers) in network:
            layers += 1
        number = self.layer
        if number is None:
            number = (layers - 1) // 2 if middle else layers - 1
        if isinstance(number, str) and number in network:
            return number
        if isinstance(number, int | np.integer) and -layers <= number < layers and layers:
            return hidden_name(int(number) % layers)
        raise ValueError(f"there is no layer {self.layer!r}; the network has {layers} hidden layers, from 0")

    def transform(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the values of the layer, ``(rows, units)``.

        Raises:
            NotFittedError: nothing was learned.
            ValueError: the rows are not what scikit-learn allows.
        """
        check_is_fitted(self)
        x = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return self.estimator_.values_of(x, self.layer_)

    def __sklearn_tags__(self) -> Any:
        """Say that rows may be sparse, and whether ``y`` is needed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.target_tags.required = self.estimator is not None and not isinstance(self.estimator, CntkRegressor)
        return tags
