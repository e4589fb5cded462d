"""What the estimators of rows have in common: a network with hidden layers, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import cntk_builder_python as builder
import numpy as np
from cntk_builder_python import Dense, Dropout, Graph, Term
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from cntk_sklearn.training import Trained, seed_of, weights_of

INPUT, LABEL, CRITERION, OUTPUT = "x", "y", "loss", "z"
FLOATS = (np.float64, np.float32)

Criterion = Callable[[Term, Term], Term]
"""Of the output and the label."""


def hidden_name(number: int) -> str:
    """Return what the output of a hidden layer is called, from 0."""
    return f"hidden{number + 1}"


class NetworkEstimator(Trained, BaseEstimator):  # type: ignore[misc]
    """Trains a network with hidden layers. Numbers are double if those of the first ``X`` are, otherwise single.

    Args:
        hidden: units of the hidden layers; or a function of the input's term that returns the last hidden layer, made
            of the layers of ``cntk_builder_python``.
        activation: of the hidden layers, the name of a function of ``cntk_builder_python``.
        dropout: share of the units of each hidden layer that are left out in training.
        learner: the name of a learner plugin.
        learning_rate: for the mean gradient of a minibatch.
        l2: weight of L2 regularisation.
        epochs: how often to go through the data, at most.
        minibatch_size: rows of a minibatch; ``auto`` is 200, or all if there are fewer.
        shuffle: learn rows in another order in each epoch.
        early_stopping: hold a share of the rows out, and end where the criterion gets no better on them, with the best
            parameters.
        validation_fraction: that share.
        patience: epochs without an improvement after which it ends.
        warm_start: another call of ``fit`` goes on with what was learned.
        random_state: of the parameters' first values, the order of the rows and what is held out.
        engine: the name of an engine plugin; ``auto`` is the best one here.
        verbose: show a bar.
    """

    def __init__(
        self,
        hidden: Any = (100,),
        activation: str = "relu",
        *,
        dropout: float = 0.0,
        learner: str = "adam",
        learning_rate: float = 0.005,
        l2: float = 0.0,
        epochs: int = 200,
        minibatch_size: Any = "auto",
        shuffle: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        warm_start: bool = False,
        random_state: Any = None,
        engine: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout
        self.learner = learner
        self.learning_rate = learning_rate
        self.l2 = l2
        self.epochs = epochs
        self.minibatch_size = minibatch_size
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.warm_start = warm_start
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    # -- the network --------------------------------------------------------------------------------------

    def _layers(self, graph: Graph, x: Term) -> Term:
        """Return the last hidden layer over an input; each is an output of the network."""
        if callable(self.hidden):
            return graph.output(self.hidden(x), hidden_name(0))
        function = getattr(builder, self.activation, None) if isinstance(self.activation, str) else None
        if not callable(function):
            raise ValueError(f"activation is {self.activation!r}; give the name of a function such as 'relu' or 'tanh'")
        sizes = (self.hidden,) if isinstance(self.hidden, int | np.integer) else tuple(self.hidden)
        if not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
            raise ValueError(f"hidden is {self.hidden!r}; give the units of the hidden layers, or a function")
        for number, size in enumerate(sizes):
            x = graph.output(Dense(int(size), function)(x), hidden_name(number))
            if self.dropout:
                x = Dropout(self.dropout)(x)
        return x

    def _build(self, inputs: int, labels: int, criterion: Criterion, dtype: Any, *, sparse: bool) -> None:
        """Make the network and what trains it.

        Args:
            inputs, labels: sizes of the input and of the label.
            criterion: what is minimised.
            dtype: of all numbers.
            sparse: rows of the input are.
        """
        seed = seed_of(self.random_state)
        graph = Graph(dtype, seed=seed)
        output = Dense(labels)(self._layers(graph, graph.input(INPUT, inputs, sparse=sparse)))
        graph.criterion(criterion(output, graph.label(LABEL, labels)), CRITERION)
        graph.output(output, OUTPUT)
        self._make_trainable(graph.finish(), seed)

    # -- learning -----------------------------------------------------------------------------------------

    def _given(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        reset: bool,
        **how: Any,
    ) -> tuple[Any, Any, NDArray[np.float64] | None]:
        """Return checked rows, labels and weights, without those rows whose weight is 0.

        Raises:
            ValueError: they are not what scikit-learn allows, or weights are negative or all 0.
        """
        x, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS, reset=reset, **how)
        weights = weights_of(sample_weight, x.shape[0])
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            x, y, weights = x[kept], y[kept], weights[kept]
        return x, y, weights

    def _learn(
        self,
        x: Any,
        y: NDArray[Any],
        weights: NDArray[np.float64] | None,
        *,
        outputs: int,
        criterion: Criterion,
        goes_on: bool,
        epochs: int,
    ) -> Self:
        """Learn checked data, with the network that is there or with a new one."""
        if not goes_on:
            self._sparse = _is_sparse(x)
            self._build(x.shape[1], outputs, criterion, x.dtype, sparse=self._sparse)
        self._train(self._as_trained(x), y, weights, epochs, reset=not goes_on)
        return self

    def _goes_on(self) -> bool:
        """Whether ``fit`` goes on with what was learned."""
        return bool(self.warm_start) and hasattr(self, "estimator_")

    # -- asking -------------------------------------------------------------------------------------------

    def _asked(self, X: Any) -> NDArray[Any]:
        """Return what the network says of rows, ``(rows, size)``."""
        check_is_fitted(self)
        return self.values_of(validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False), OUTPUT)

    def values_of(self, x: Any, output: str) -> NDArray[Any]:
        """Return the values of a node for checked rows, ``(rows, size)``, in the rows' precision."""
        found = np.asarray(self.estimator_.predict(self._as_trained(x), output))
        return found.reshape(len(found), -1).astype(x.dtype, copy=False)

    def _as_trained(self, x: Any) -> Any:
        """Return rows as the network takes them: sparse ones only if those were that it was made for."""
        return x.toarray() if _is_sparse(x) and not self._sparse else x

    def __sklearn_tags__(self) -> Any:
        """Say that rows may be sparse."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _is_sparse(x: Any) -> bool:
    return hasattr(x, "toarray")
