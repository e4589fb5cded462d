"""Composable layers: a layer is a function from term to term that makes its parameters when it is first applied.

``Sequential(Dense(256, sigmoid), Dense(10))(features)``
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cntk_builder_python.functions import Function, exp, log
from cntk_builder_python.graph import Graph, Init, Term


class Layer:
    """Base of the layers with parameters. Applied again in a graph, a layer uses the same parameters.

    Args:
        name: stem of the names of its parameters; without one, ``stem`` and a number.
    """

    stem = "layer"

    def __init__(self, name: str | None = None) -> None:
        self.given = name
        self.name = name or self.stem
        self._graph: Graph | None = None
        self._parameters: dict[str, Term] = {}

    def _enter(self, x: Term) -> str:
        """Make the layer one of the graph of ``x``, and return its name there."""
        if self._graph is not x.graph:
            self._graph = x.graph
            self._parameters = {}
            self.name = self.given or x.graph.unique_layer(self.stem)
        return self.name

    def _own(self, x: Term, key: str, shape: tuple[int, ...], **how: Any) -> Term:
        """Return the layer's parameter ``key``, made at the first call."""
        name = self._enter(x)
        if key not in self._parameters:
            self._parameters[key] = x.graph.parameter(shape, name=f"{name}.{key}", **how)
        return self._parameters[key]


class Dense(Layer):
    """Fully connected layer ``activation(x @ W + b)``.

    Args:
        units: width of the output.
        activation: function applied to the result, None for none.
        bias: whether to add a learned bias.
        init, scale, seed: how the weights start; see :meth:`Graph.parameter`.
        init_bias: how the bias starts.
        name: stem of the parameter names ``name.W`` and ``name.b``.
    """

    stem = "dense"

    def __init__(
        self,
        units: int,
        activation: Function | None = None,
        *,
        bias: bool = True,
        init: Init = "glorotUniform",
        scale: float = 1.0,
        seed: int | None = None,
        init_bias: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.units = units
        self.activation = activation
        self.bias = bias
        self.how = {"init": init, "scale": scale, "seed": seed}
        self.init_bias = init_bias

    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        y = x @ self._own(x, "W", (0, self.units), **self.how)
        if self.bias:
            y = y + self._own(x, "b", (self.units,), init=self.init_bias)
        return self.activation(y) if self.activation is not None else y


class Embedding(Layer):
    """Look-up of rows: ``x @ E`` for one-hot ``x``, such as a sparse input of words.

    Args:
        units: width of a vector; may be left out if there are ``weights``.
        init, scale, seed: how the vectors start; see :meth:`Graph.parameter`.
        weights: given vectors ``(words, units)``, which are not learned.
        name: stem of the parameter name ``name.E``.
    """

    stem = "embedding"

    def __init__(
        self,
        units: int = 0,
        *,
        init: Init = "glorotUniform",
        scale: float = 1.0,
        seed: int | None = None,
        weights: np.ndarray | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if not units and weights is None:
            raise TypeError("Embedding needs either units or weights")
        self.units = units
        self.how: dict[str, Any] = {"init": init, "scale": scale, "seed": seed}
        if weights is not None:
            self.how = {"init": weights, "learning_rate_multiplier": 0.0}

    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        return x @ self._own(x, "E", (0, self.units), **self.how)


class Stabilizer(Layer):
    """Times one learned factor ``log(1 + exp(k p)) / k``, which stays above 0 and starts at 1.

    Ghahremani and Droppo, "Self-stabilized deep neural network", ICASSP 2016.

    Args:
        steepness: k.
        name: stem of the parameter name ``name.param``.
    """

    stem = "stabilizer"

    def __init__(self, steepness: float = 4.0, *, name: str | None = None) -> None:
        super().__init__(name)
        self.steepness = steepness
        self._factors: dict[Term, Term] = {}

    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        first = round(float(np.log(np.expm1(self.steepness)) / self.steepness), 8)  # the digits that BrainScript gives
        param = self._own(x, "param", (1,), init=first)
        if param not in self._factors:
            self._factors = {param: log(1.0 + exp(self.steepness * param)) * (1.0 / self.steepness)}
        return self._factors[param] * x


class StabilizedLayer(Layer):
    """Base of the layers that may put a :class:`Stabilizer` at several places.

    Args:
        enable_self_stabilization: whether they do.
        name: stem of the names of its parameters.
    """

    def __init__(self, enable_self_stabilization: bool, name: str | None) -> None:
        super().__init__(name)
        self.enable_self_stabilization = enable_self_stabilization
        self._stabilizers: dict[str, Stabilizer] = {}

    def _stabilized(self, x: Term, key: str) -> Term:
        """Return ``x``, perhaps times the learned factor ``key`` of this layer."""
        if not self.enable_self_stabilization:
            return x
        name = f"{self._enter(x)}.{key}"
        if key not in self._stabilizers or self._stabilizers[key].given != name:
            self._stabilizers[key] = Stabilizer(name=name)
        return self._stabilizers[key](x)


class Dropout:
    """Drops values while training; the rate is set by ``dropoutRate`` of the SGD block."""

    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        return x.graph.apply("Dropout", x)


class Sequential:
    """One function after the other.

    Args:
        functions: layers, activations, or any functions from term to term.
    """

    def __init__(self, *functions: Function) -> None:
        self.functions = functions

    def __call__(self, x: Term) -> Term:
        """Apply them all."""
        for function in self.functions:
            x = function(x)
        return x


def For(numbers: Iterable[int], constructor: Callable[[int], Function]) -> Sequential:
    """Return layers one after the other, each made of its number: ``For(range(3), lambda i: Dense(64))``."""
    return Sequential(*(constructor(number) for number in numbers))
