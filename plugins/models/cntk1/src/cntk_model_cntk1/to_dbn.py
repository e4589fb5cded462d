"""DBN files of networks: feed-forward networks of sigmoid and linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, Network, NetworkError, Node, Parameter
from cntk_model_cntk1.dbn_file import FIRST_LAYER, LAST_LAYER, LINEAR_LAYER, MIDDLE_LAYER, Dbn, DbnLayer, Values

_HINT = "A DBN file holds layers W * x + B, with or without Sigmoid, above normalized features."
_LONGEST_CONTEXT = 51


def dbn_of(network: Network) -> Dbn:
    """Return what a DBN file says of a network.

    The output is what the classification error judges, or the only output or criterion. A product of two matrices, as
    the action SVD makes them, becomes two layers. If the statistics of the features repeat themselves for an odd number
    of frames, one frame is kept, as in the original.

    Raises:
        NetworkError: the network is not of that form; names the node.
    """
    found: list[_Layer] = []
    value = _output(network)
    while not _is_input(value):
        value = _below(value, found)
    if not found:
        raise NetworkError("the network has no layer that a DBN file could hold", hint=_HINT)
    found.reverse()
    mean, inverse = _statistics(value)
    frames = _repetitions(inverse)
    size = len(mean) // frames
    layers = [layer.written(_kind(layer, number, len(found))) for number, layer in enumerate(found)]
    return Dbn(_single(mean[:size]), _single(1 / inverse[:size]), layers, _prior(network))


@attrs.frozen(eq=False)
class _Layer:
    """A layer: its matrix in CNTK's order ``(outputs, inputs)``, its biases and whether a sigmoid is behind it."""

    weights: NDArray[Any]
    bias: NDArray[Any] | None
    sigmoid: bool

    def written(self, kind: str) -> DbnLayer:
        bias = np.zeros(len(self.weights)) if self.bias is None else self.bias.reshape(-1)
        return DbnLayer(kind, _single(self.weights), _single(bias))


def _kind(layer: _Layer, number: int, count: int) -> str:
    if number == count - 1:
        return LAST_LAYER
    if not layer.sigmoid:
        return LINEAR_LAYER
    return MIDDLE_LAYER if number else FIRST_LAYER


def _single(values: NDArray[Any]) -> Values:
    return np.ascontiguousarray(values, np.float32)


# -- finding the layers ----------------------------------------------------------------------------------------------


def _output(network: Network) -> Node:
    counts = [node for node in network if node.op.name == "ClassificationError"]
    for judge in [*counts, *network.roots["criterion"]]:
        for node in judge.inputs:
            if not isinstance(node, Input):
                return node
    if len(network.roots["output"]) == 1:
        return network.roots["output"][0]
    raise NetworkError("the network has no criterion that shows which node is its output", hint=_HINT)


def _is_input(node: Node) -> bool:
    return isinstance(node, Input) or node.op.name == "PerDimMeanVarNormalization"


def _below(value: Node, found: list[_Layer]) -> Node:
    """Add the layer of a node to those found, and return the node below it."""
    while value.op.name == "Dropout":
        value = value.inputs[0]
    if _is_input(value):
        return value
    sigmoid = value.op.name == "Sigmoid"
    if sigmoid:
        value = value.inputs[0]
        if not found:
            raise _misfit(value, "the output layer must be linear")
    bias = None
    if value.op.name == "Plus":
        biases = [node for node in value.inputs if isinstance(node, Parameter)]
        if len(biases) != 1:
            raise _misfit(value, "one of its inputs must be a bias")
        bias = _matrix(biases[0])
        value = next(node for node in value.inputs if node is not biases[0])
    if value.op.name != "Times" or len(value.inputs) != 2:
        raise _misfit(value, "it is no product of a matrix and a vector")
    matrix, below = value.inputs
    if matrix.op.name == "Times" and all(isinstance(node, Parameter) for node in matrix.inputs):
        left, right = matrix.inputs
        found.append(_layer(value, left, bias, sigmoid))
        found.append(_layer(value, right, None, sigmoid=False))
    else:
        found.append(_layer(value, matrix, bias, sigmoid))
    return below


def _layer(product: Node, matrix: Node, bias: NDArray[Any] | None, sigmoid: bool) -> _Layer:
    if not isinstance(matrix, Parameter):
        raise _misfit(product, "its first input must be a parameter")
    weights = _matrix(matrix)
    if weights.ndim != 2 or (bias is not None and bias.size != len(weights)):
        raise _misfit(product, "the dimensions of its matrix and its bias are not those of a layer")
    return _Layer(weights, bias, sigmoid)


def _matrix(parameter: Parameter) -> NDArray[Any]:
    """Return the values in CNTK's order."""
    if parameter.value is None:
        raise NetworkError(f"the parameter '{parameter.name}' has no value", where=parameter.where)
    return parameter.value.T


def _misfit(node: Node, reason: str) -> NetworkError:
    return NetworkError(
        f"{node.op.name} '{node.name}' cannot be written to a DBN file: {reason}", where=node.where, hint=_HINT
    )


# -- statistics ------------------------------------------------------------------------------------------------------


def _statistics(value: Node) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and inverse deviation of the input; of features that are not normalized, 0 and 1."""
    if isinstance(value, Input):
        size = int(np.prod(value.known_shape))
        return np.zeros(size), np.ones(size)
    features, *statistics = value.inputs
    if not isinstance(features, Input):
        raise _misfit(value, "its first input must be an input of the network")
    missing = [node.name for node in statistics if node.value is None]
    if missing:
        raise NetworkError(
            f"the statistics {' and '.join(missing)} are not computed yet", where=value.where, hint="Train it first."
        )
    mean, inverse = (np.asarray(node.value, np.float64).reshape(-1) for node in statistics)
    return mean, inverse


def _repetitions(values: NDArray[np.float64]) -> int:
    """Return the largest odd number of times (up to 51) that the values repeat, 1 if they do not."""
    for times in range(_LONGEST_CONTEXT, 1, -2):
        if len(values) % times == 0:
            rows = values.reshape(times, -1)
            if np.array_equal(rows, np.broadcast_to(rows[0], rows.shape)):
                return times
    return 1


def _prior(network: Network) -> Values | None:
    """Return the values of the one node that is called prior and has some."""
    named: Sequence[Node] = [
        node
        for node in network
        if "prior" in node.name.lower() and node.value is not None and node.op.role in ("parameter", "precompute")
    ]
    if len(named) != 1 or named[0].value is None:
        return None
    return _single(named[0].value.reshape(-1))
