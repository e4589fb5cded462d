"""Composable layers: a layer is a function from term to term that makes its parameters when it is first applied.

``Sequential(Dense(256, sigmoid), Dense(10))(features)``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cntk_builder_python.graph import Operand, Term

Function = Callable[[Term], Term]


def _unary(operation: str) -> Function:
    def apply(x: Term) -> Term:
        return x.graph.apply(operation, x)

    apply.__name__ = apply.__qualname__ = operation
    apply.__doc__ = f"Apply {operation} to a term."
    return apply


sigmoid = _unary("Sigmoid")
tanh = _unary("Tanh")
relu = _unary("RectifiedLinear")
exp = _unary("Exp")
log = _unary("Log")
sqrt = _unary("Sqrt")
absolute = _unary("Abs")
softmax = _unary("Softmax")
log_softmax = _unary("LogSoftmax")


def cross_entropy_with_softmax(z: Term, labels: Operand) -> Term:
    """Sum over the samples of ``-labels . log softmax(z)``; the output first, as in CNTK's Python interface."""
    return z.graph.apply("CrossEntropyWithSoftmax", labels, z)


def classification_error(z: Term, labels: Operand) -> Term:
    """Count of samples whose largest output is not the label's."""
    return z.graph.apply("ClassificationError", labels, z)


def squared_error(z: Term, targets: Operand) -> Term:
    """Sum over the samples of the squared differences."""
    return z.graph.apply("SquareError", targets, z)


class Layer:
    """Base of the layers with parameters. Applied again, a layer uses the same parameters.

    Args:
        name: stem of the node names; made unique in the graph.
    """

    stem = "layer"

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self._parameters: dict[str, Term] = {}

    def _own(self, x: Term, key: str, shape: tuple[int, ...], **how: Any) -> Term:
        """Return the layer's parameter ``key``, made at the first call."""
        if self.name is None:
            number = 1
            self.name = self.stem
            while f"{self.name}.{key}" in x.graph.network:
                number += 1
                self.name = f"{self.stem}{number}"
        if key not in self._parameters:
            self._parameters[key] = x.graph.parameter(shape, name=f"{self.name}.{key}", **how)
        return self._parameters[key]


class Dense(Layer):
    """Fully connected layer ``activation(x @ W + b)``.

    Args:
        units: width of the output.
        activation: function applied to the result, None for none.
        bias: whether to add a learned bias, zero at first.
        init, scale: how the weights start, in CNTK's words.
        name: stem of the parameter names ``name.W`` and ``name.b``.
    """

    stem = "dense"

    def __init__(
        self,
        units: int,
        activation: Function | None = None,
        *,
        bias: bool = True,
        init: str = "glorotUniform",
        scale: float = 1.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.units = units
        self.activation = activation
        self.bias = bias
        self.init = init
        self.scale = scale

    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        y = x @ self._own(x, "W", (0, self.units), init=self.init, scale=self.scale)
        if self.bias:
            y = y + self._own(x, "b", (self.units,), init="fixedValue", scale=0.0)
        return self.activation(y) if self.activation is not None else y


class Embedding(Layer):
    """Look-up of rows: ``x @ E`` for one-hot ``x``."""

    stem = "embedding"

    def __init__(self, units: int, *, init: str = "glorotUniform", scale: float = 1.0, name: str | None = None) -> None:
        super().__init__(name)
        self.units = units
        self.init = init
        self.scale = scale

    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        return x @ self._own(x, "E", (0, self.units), init=self.init, scale=self.scale)


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
