"""CntkRegressor: a network that says numbers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from cntk_builder_python import squared_error
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from cntk_sklearn.base import NetworkEstimator


class CntkRegressor(RegressorMixin, NetworkEstimator):  # type: ignore[misc]
    """A network that says one number of a row, or several; it minimises their squared errors.

    Arguments are those of :class:`~cntk_sklearn.base.NetworkEstimator`.

    Attributes:
        n_outputs_: numbers that it says of a row.
        estimator_: the :class:`cntk_fit.Estimator` that trains the network.
        network_: the network: its output is ``z``, its hidden layers are ``hidden1``, ``hidden2``, ...
        loss_curve_, validation_loss_curve_, n_iter_: the criterion of each epoch, and how many there were.
    """

    n_outputs_: int
    _flat: bool

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rows.

        Args:
            X: rows ``(rows, features)``: an array, a table or a sparse matrix.
            y: numbers ``(rows,)`` or ``(rows, outputs)``.
            sample_weight: of each row; how often it is there.

        Raises:
            ValueError: the data are not what scikit-learn allows, or a parameter makes no sense.
            CntkError: the criterion is not a number any more, or there is no such learner or engine.
        """
        return self._fit(X, y, sample_weight, goes_on=self._goes_on(), epochs=self.epochs)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rows for one epoch, going on with what was learned; arguments are those of :meth:`fit`."""
        return self._fit(X, y, sample_weight, goes_on=hasattr(self, "estimator_"), epochs=1)

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, goes_on: bool, epochs: int) -> Self:
        x, y, weights = self._given(X, y, sample_weight, reset=not goes_on, multi_output=True, y_numeric=True)
        columns = y.astype(x.dtype, copy=False).reshape(len(y), -1)
        if goes_on and columns.shape[1] != self.n_outputs_:
            raise ValueError(f"y has {columns.shape[1]} columns, and those before had {self.n_outputs_}")
        self.n_outputs_ = columns.shape[1]
        self._flat = y.ndim == 1
        return self._learn(
            x, columns, weights, outputs=self.n_outputs_, criterion=squared_error, goes_on=goes_on, epochs=epochs
        )

    def predict(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the numbers of rows, ``(rows,)`` or ``(rows, outputs)`` as ``y`` had them.

        Raises:
            NotFittedError: nothing was learned.
            ValueError: the rows are not what scikit-learn allows.
        """
        found = self._asked(X)
        return found[:, 0] if self._flat else found

    def __sklearn_tags__(self) -> Any:
        """Say that there may be several outputs."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
