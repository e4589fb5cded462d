"""Classes that are drawn by their weights, in the order in which the original draws them on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from cntk_model_cntk2.values import SizeT
from numpy.typing import NDArray

from cntk._graph.draws import OFFSET, stream_of
from cntk._graph.errors import GraphError
from cntk._graph.primitive import FREQUENCY, Primitive
from cntk_core.api import Node
from cntk_core.api.builders import UserFunction, infer_node, op_of

_EXPERIMENTS = 10
"""So often the original draws to estimate how many draws it takes."""


def sample_as_there(primitive: Primitive, node: Node) -> None:
    """Let a node that draws classes, or says how often they are drawn, go on in the stream of its function."""
    infer_node(node)
    shape = node.known_shape
    count, again = int(primitive.attributes["numSamples"]), bool(primitive.attributes["allowDuplicates"])

    class _Sampled(UserFunction):
        def infer_outputs(self, *shapes: Any) -> Any:
            return shape

        def forward(self, context: Any, weights: Any) -> Any:
            sums = _sums(weights, 1 if again else count)
            if primitive.number == FREQUENCY:
                return _frequency(primitive, sums, count, again).astype(weights.dtype).reshape(shape)
            classes, _ = _drawn(primitive, sums, count, again)
            found = np.zeros((count, sums.size), weights.dtype)
            found[np.arange(count), classes] = 1.0
            return found

        def backward(self, context: Any, gradient: Any) -> Any:
            return None

    _Sampled.__name__ = _Sampled.__qualname__ = primitive.uid
    node.op, node.attributes = op_of(_Sampled), _Sampled()


def _sums(weights: Any, least: int) -> NDArray[np.float64]:
    """Return the sums of weights up to each class.

    Raises:
        GraphError: a weight is negative, or too few are positive.
    """
    values = np.asarray(weights, np.float64).reshape(-1)
    if (values < 0).any():
        raise GraphError(f"the weight of a class to be sampled is negative: {values.min():g}")
    if np.count_nonzero(values) < least:
        raise GraphError(f"{least} classes are to be sampled, but only {np.count_nonzero(values)} have a weight")
    return np.cumsum(values)


def _drawn(primitive: Primitive, sums: NDArray[np.float64], count: int, again: bool) -> tuple[list[int], int]:
    """Return so many classes, and how many draws it took; without ``again`` a class comes once."""
    stream = stream_of(primitive)
    found: list[int] = []
    seen: set[int] = set()
    tries = 0
    while len(found) < count:
        numbers = stream.uniform(count - len(found), np.float64, 0.0, float(sums[-1]))
        for each in np.searchsorted(sums, numbers).tolist():
            tries += 1
            if again or each not in seen:
                found.append(each)
                seen.add(each)
    primitive.attributes[OFFSET] = SizeT(stream.used)
    return found, tries


def _frequency(primitive: Primitive, sums: NDArray[np.float64], count: int, again: bool) -> NDArray[np.float64]:
    """Return how often each class is expected; where it comes once, of an estimate of how many draws it takes."""
    tries = sum(_drawn(primitive, sums, count, again)[1] for _ in range(_EXPERIMENTS)) / _EXPERIMENTS
    chances: NDArray[np.float64] = np.diff(sums, prepend=0.0) / sums[-1]
    if again:
        return chances * count
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(tries * np.log1p(-chances)))


def csr_of(rows: Any) -> Any:
    """Return samples as the original gives them, in a sparse matrix."""
    from scipy.sparse import csr_matrix

    return csr_matrix(rows)
