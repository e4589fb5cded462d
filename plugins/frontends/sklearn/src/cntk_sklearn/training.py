"""What all estimators here have in common: settings of a training, seeds and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from cntk_fit import EarlyStopping, Estimator, History
from numpy.typing import NDArray
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from cntk_core.api import Network
from cntk_core.api.training import LearnerSettings

SEEDS = 2**31 - 1
FULL = 200
"""Rows of a minibatch with ``minibatch_size="auto"``, if there are so many."""


def seed_of(random_state: Any) -> int:
    """Return a seed drawn from what scikit-learn calls a random state."""
    return int(check_random_state(random_state).randint(SEEDS))


def weights_of(given: Any, rows: int) -> NDArray[np.float64] | None:
    """Return the weights of rows; None if nobody gave any.

    Raises:
        ValueError: there is not one number for each row, or numbers are negative, not finite or all 0.
    """
    if given is None:
        return None
    if np.isscalar(given):
        given = np.full(rows, given)
    weights = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has the shape {weights.shape}; one number is needed for each of {rows} rows")
    if (weights < 0).any():
        raise ValueError("Negative values in sample_weight: a weight must not be negative")
    if not weights.any():
        raise ValueError("all weights in sample_weight are zero: there is nothing to learn")
    return np.asarray(weights)


class Trained:
    """An estimator that has a network, and the parameters that say how it is trained.

    Attributes:
        estimator_: trains the network, and computes what it says.
        loss_curve_: the criterion of each epoch.
        validation_loss_curve_: that of the rows held out; empty without early stopping.
        n_iter_: epochs learned.
    """

    learner: str
    learning_rate: float
    l2: float
    minibatch_size: Any
    shuffle: bool
    early_stopping: bool
    validation_fraction: float
    patience: int
    engine: str
    verbose: bool

    estimator_: Estimator
    loss_curve_: list[float]
    validation_loss_curve_: list[float]
    n_iter_: int

    def _make_trainable(self, network: Network, seed: int) -> None:
        learner = LearnerSettings(self.learner, self.learning_rate, mean=True, l2=self.l2)
        self.estimator_ = Estimator(network, learner=learner, engine=self.engine, seed=seed)

    def _train(self, x: Any, y: Any, weights: NDArray[np.float64] | None, epochs: int, *, reset: bool) -> None:
        """Learn rows, and remember how it went.

        Weights are scaled so that their mean is 1: then a weight is how often a row is there.
        """
        rows = len(y)
        size = self._size(rows)
        if weights is not None:
            weights = weights * (rows / weights.sum())
        stopping = EarlyStopping(patience=self.patience) if self.early_stopping else None
        history: History = self.estimator_.fit(
            x,
            y,
            epochs=epochs,
            minibatch_size=size,
            sample_weight=weights,
            shuffle=self.shuffle and (size < rows or stopping is not None),
            validation=float(self.validation_fraction) if stopping is not None else None,
            early_stopping=stopping,
            progress=bool(self.verbose),
        )
        if reset:
            self.loss_curve_, self.validation_loss_curve_ = [], []
        self.loss_curve_ = self.loss_curve_ + history.loss
        self.validation_loss_curve_ = self.validation_loss_curve_ + history.validation_loss
        self.n_iter_ = len(self.loss_curve_)

    def _size(self, rows: int) -> int:
        """Return the rows of a minibatch."""
        if not isinstance(self.minibatch_size, str):
            return int(self.minibatch_size)
        if self.minibatch_size != "auto":
            raise ValueError(f"minibatch_size is {self.minibatch_size!r}; give a number, or 'auto'")
        return min(FULL, rows)

    @property
    def network_(self) -> Network:
        """The network that was trained."""
        check_is_fitted(self)
        return self.estimator_.network
