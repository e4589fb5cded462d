"""Random data that fit a network: numbers of classes where it looks some up, truths where it asks, else any numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, Network, Node
from cntk_core.api.builders import BATCH
from cntk_model_onnx.settings import ExportSettings

Array = NDArray[Any]

SEQUENCES, SHORTEST, LONGEST = 3, 2, 7
_OPEN = 32
"""Size of a dimension that each minibatch brings."""

_MOVING = {
    "Pass", "StopGradient", "Dropout", "Trace", "Reshape", "LegacyReshape", "Squeeze", "ExpandDims", "BroadcastLike",
    "TransposeDimensions", "Slice", "RowStack", "RowRepeat", "ReconcileDynamicAxis", "LabelsToGraph", "Cast",
    "UnpackSequence", "UnpackBatch", "ToBatch", "ToSequence", "ToSequenceLike", "PastValue", "FutureValue",
}  # fmt: skip
"""Operations whose elements are those of their first input (of all inputs, for a stack)."""

_RANDOM = {"RandomDistribution", "RandomSample"}


def is_random(node: Node) -> bool:
    """Whether the value of a node is drawn, or made of what is."""
    waiting, seen = [node], {node}
    while waiting:
        each = waiting.pop()
        if each.op.name in _RANDOM:
            return True
        new = set(each.inputs) - seen
        seen |= new
        waiting += new
    return False


def _asked(node: Node) -> Iterator[tuple[int, int]]:
    """Which inputs of a node have to be whole numbers, and below which number."""
    kind, inputs = node.op.name, node.inputs
    if kind == "Gather":
        yield 0, inputs[1].known_shape[0]
    elif kind == "OneHot":
        yield 0, node.attributes.num_class
    elif kind in ("Where", "If"):
        yield 0, 2
    elif kind == "GatherPacked":
        yield 0, SHORTEST
    elif kind == "ScatterPacked":
        yield 1, SHORTEST
    elif kind == "AttentionWeights" and len(inputs) > 2:
        yield 2, 2
    elif kind == "AdditiveAttentionWeights" and len(inputs) > 3:
        yield 3, 2


def _sources(node: Node) -> Iterator[Input]:
    """The inputs whose elements a node has, moved at most."""
    waiting, seen = [node], {node}
    while waiting:
        each = waiting.pop()
        if isinstance(each, Input):
            yield each
        elif each.op.name in _MOVING:
            new = set(each.inputs if each.op.name == "RowStack" else each.inputs[:1]) - seen
            seen |= new
            waiting += new


class RandomData:
    """Random samples or sequences for the inputs that nodes need.

    Attributes:
        ours: as :class:`~cntk_core.model.Model` takes them.
        lengths: of the sequences of each axis.
    """

    def __init__(
        self, network: Network, outputs: Sequence[Node], settings: ExportSettings, rng: np.random.Generator
    ) -> None:
        from cntk_model_onnx.export.exporter import looks_along

        self._rng, self._settings, self._dtype = rng, settings, network.dtype
        order = network.order(outputs, stop_at_constants=True)
        self._inputs = [node for node in order if isinstance(node, Input)]
        self._sequential = any(looks_along(node) for node in order)
        self._open: dict[str, int] = {}
        self._below: dict[Input, int] = {}
        self._regions: dict[Input, tuple[float, ...]] = {}
        self._lengths_of: dict[Input, int] = {}
        self._longest: dict[str, int] = {}
        for node in order:
            self._look_at(node)
        self.lengths: dict[str, list[int]] = {}
        self.ours: dict[str, Any] = {node.name: self._values(node) for node in self._inputs}

    def _look_at(self, node: Node) -> None:
        """Note what a node asks of the inputs behind it."""
        for place, below in _asked(node):
            for source in _sources(node.inputs[place]):
                self._below[source] = min(below, self._below.get(source, below))
        if node.op.name == "ROIPooling":
            ends = [size / node.attributes.spatial_scale for size in node.inputs[0].known_shape[:0:-1]]
            self._regions |= dict.fromkeys(_sources(node.inputs[1]), tuple(ends))
        elif node.op.name == "ToSequence" and len(node.inputs) > 1:
            size = self._size(node.inputs[0].known_shape[0])
            self._lengths_of |= dict.fromkeys(_sources(node.inputs[1]), size)
        elif node.op.name == "ToSequenceLike":
            axis, size = node.inputs[1].axis, self._size(node.inputs[0].known_shape[0])
            self._longest[axis] = min(size, self._longest.get(axis, size))

    def _values(self, node: Input) -> Any:
        shape = tuple(self._size(dim) for dim in node.known_shape)
        if not node.framed:
            return self._sample(node, shape, ())
        if not self._in_time(node):
            return self._sample(node, shape, (SEQUENCES,))
        if node.axis not in self.lengths:
            end = min(LONGEST, self._longest.get(node.axis, LONGEST) + 1)
            self.lengths[node.axis] = self._rng.integers(min(SHORTEST, end - 1), end, size=SEQUENCES).tolist()
        return [self._sample(node, shape, (length,)) for length in self.lengths[node.axis]]

    def _in_time(self, node: Input) -> bool:
        return self._sequential and node.framed is True and node.axis != BATCH

    def _size(self, dim: int) -> int:
        return int(dim) if dim >= 0 else self._open.setdefault(getattr(dim, "name", "") or str(dim), _OPEN)

    def _sample(self, node: Input, shape: tuple[int, ...], frames: tuple[int, ...]) -> Array:
        if node.sparse and len(shape) == 1:
            return self._rng.integers(shape[0], size=frames)
        whole = (*frames, *shape)
        if node in self._regions:
            return self._boxes(whole, self._regions[node])
        if node in self._lengths_of:
            return self._rng.integers(1, self._lengths_of[node] + 1, size=whole).astype(self._dtype)
        if node in self._below:
            found = self._rng.integers(self._below[node], size=whole).astype(self._dtype)
            if self._below[node] == 2 and frames:
                found[0] = 1.0  # a sequence of which nothing is chosen would be none
            return found
        return self._rng.normal(size=whole).astype(self._dtype)

    def _boxes(self, shape: tuple[int, ...], ends: Sequence[float]) -> Array:
        """Regions ``(..., 4)``: two places along each axis, the smaller ones first."""
        found = np.sort(self._rng.random((*shape[:-1], 2, 2)) * np.asarray(ends), axis=-2)
        return found.reshape(shape).astype(self._dtype)

    def theirs(self, ranks: Mapping[str, int]) -> list[dict[str, Array]]:
        """Return the same for a file whose inputs have these ranks; one for each run."""
        if self._sequential and self._settings.sequences == "one":
            return [{name: self._one(name, number) for name in ranks} for number in range(SEQUENCES)]
        return [{name: self._padded(name) for name in ranks}]

    def _node(self, name: str) -> Input | None:
        return next((node for node in self._inputs if node.name == name), None)

    def _hot(self, node: Input, value: Array) -> Array:
        if self._settings.sparse == "index" or not node.sparse or len(node.known_shape) != 1:
            return value
        return np.eye(node.known_shape[0], dtype=self._dtype)[value]

    def _one(self, name: str, number: int) -> Array:
        node = self._node(name)
        assert node is not None, "one sequence has its length by itself"
        value = self.ours[name]
        return self._hot(node, value[number] if node.framed else value)

    def _padded(self, name: str) -> Array:
        node = self._node(name)
        if node is None:
            axis = name.removesuffix("lengths").removesuffix("_")
            return np.asarray(self.lengths[axis if axis in self.lengths else next(iter(self.lengths))], np.int64)
        value = self.ours[name]
        if not isinstance(value, list):
            return self._hot(node, value)
        whole = [self._hot(node, one) for one in value]
        longest = max(map(len, whole))
        padded = np.zeros((len(whole), longest, *whole[0].shape[1:]), whole[0].dtype)
        for row, one in zip(padded, whole, strict=True):
            row[: len(one)] = one
        return padded
