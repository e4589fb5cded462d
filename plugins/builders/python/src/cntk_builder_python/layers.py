"""Composable layers: a layer is a function from term to term that makes its parameters when it is first applied.

``Sequential(Dense(256, sigmoid), Dense(10))(features)``
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from cntk_builder_python.blocks import layer
from cntk_builder_python.functions import Function, exp, log
from cntk_builder_python.graph import Graph, Init, Term, caller
from cntk_core.api import BuildError


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
    """Fully connected layer ``activation(x @ W + b)``; it takes all elements of tensors such as images.

    Args:
        units: width of the output, or its shape.
        activation: function applied to the result, None for none.
        input_rank: sum over so many last axes of the input only; the output keeps the others in front.
        map_rank: the same, by how many first axes are kept. At most one of the two can be given.
        bias: whether to add a learned bias.
        init, scale, seed: how the weights start; see :meth:`Graph.parameter`.
        init_bias: how the bias starts.
        name: stem of the parameter names ``name.W`` and ``name.b``.

    Raises:
        BuildError: both ranks are given.
    """

    stem = "dense"

    def __init__(
        self,
        units: int | Sequence[int],
        activation: Function | None = None,
        *,
        input_rank: int | None = None,
        map_rank: int | None = None,
        bias: bool = True,
        init: Init = "glorotUniform",
        scale: float = 1.0,
        seed: int | None = None,
        init_bias: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if input_rank is not None and map_rank is not None:
            raise BuildError("Dense takes either input_rank or map_rank, not both", where=caller())
        self.shape = (units,) if isinstance(units, int) else tuple(units)
        self.activation = activation
        self.inferred = (0,) * (1 if input_rank is None else input_rank)
        self.kept = -1 if input_rank is not None else map_rank or 0
        self.bias = bias
        self.how: dict[str, Any] = {"init": init, "scale": scale, "seed": seed}
        self.init_bias = init_bias

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        rank = len(self.shape)
        weights = self._own(x, "W", (*self.inferred, *self.shape), **self.how, output_rank=rank)
        y = x.graph.apply("Times", weights, x, output_rank=rank, infer_input_rank_to_map=self.kept)
        if self.bias:
            y = y + self._own(x, "b", self.shape, init=self.init_bias)
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

    @layer
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

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        first = round(float(np.log(np.expm1(self.steepness)) / self.steepness), 8)  # the digits that BrainScript gives
        param = self._own(x, "param", (1,), init=first)
        if param not in self._factors:
            self._factors = {param: log(1.0 + exp(self.steepness * param)) * (1.0 / self.steepness)}
        return self._factors[param] * x


class PReLU(Layer):
    """ReLU that learns its slope for negative numbers (He et al., arXiv:1502.01852).

    Args:
        spatial_rank: how many axes follow the channels, such as 2 for images: there is a slope for each channel. For
            vectors, 0 has one for each element.
        shared: one slope for all.
        init: how slopes start.
        name: stem of the parameter name ``name.slope``.
    """

    stem = "prelu"

    def __init__(
        self, spatial_rank: int = 0, *, shared: bool = False, init: float = 0.25, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.shape = (1,) if shared else (0, *(1,) * spatial_rank)
        self.init = init

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        return x.graph.apply("PReLU", self._own(x, "slope", self.shape, init=self.init), x)


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
    """Drops values while training.

    Args:
        dropout_rate: the share that is dropped; by default ``dropoutRate`` of the SGD block, or the trainer, says it.
        seed: keys the random numbers, alike in all nodes with it; by default each node has others.
    """

    def __init__(self, dropout_rate: float | None = None, *, seed: int | None = None) -> None:
        self._rate = -1.0 if dropout_rate is None else dropout_rate
        self._seed = -1 if seed is None else seed

    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        return x.graph.apply("Dropout", x, dropout_rate=self._rate, seed=self._seed)


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


class SequentialClique:
    """One function after the other, each of which gets the sum of the input and of all results before it.

    Args:
        functions: layers, activations, or any functions from term to term.
    """

    def __init__(self, *functions: Function) -> None:
        self.functions = functions

    def __call__(self, x: Term) -> Term:
        """Apply them all, and return the last result."""
        result = x
        for function in self.functions:
            result = function(x)
            x = x + result
        return result


def ResNetBlock(function: Function) -> Function:
    """Return ``function(x) + x``: a function with a connection around it (He et al., CVPR 2016)."""
    return lambda x: function(x) + x


def Activation(activation: Function, name: str = "") -> Function:
    """Return a function that applies an activation and names its result."""
    return (lambda x: activation(x).named(name)) if name else activation


def Label(name: str) -> Function:
    """Return a function that names what comes out of the layer before it, so that it can be written or looked at."""
    return lambda x: x.graph.apply("Pass", x, name=name)
