"""What the writers of a loop's two texts share: arrays of nodes as matrices, and slices as columns of a whole."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_core.api import Node
from cntk_core.api.engines import Loop, Names, elements_of, symbol
from cntk_engine_cpu.elementwise import operand_kind
from cntk_engine_cpu.loop_source import LoopText
from cntk_engine_cpu.site import Array, Site
from cntk_engine_cpu.source import Result, is_matrix, part_of, spec_of


class NotCompiled(Exception):
    """Something in the loop has no compiled form."""


@attrs.frozen
class Part:
    """A slice of a vector: some columns of another node's value."""

    whole: Node
    offset: int


def slices_of(loop: Loop, site: Site) -> dict[Node, Part]:
    """The slices of vectors in a loop."""
    found = {}
    for step in loop.steps:
        (node, *_) = step.nodes
        if node.op.traits.part is None or not (is_vector(node) and is_vector(node.inputs[0]) and node.inputs[0].framed):
            continue
        shape = node.inputs[0].known_shape
        ranges = node.op.traits.part(shape, node.attributes)
        if set(ranges) == {len(shape) - 1}:
            found[node] = Part(node.inputs[0], ranges[len(shape) - 1][0])
    return found


def is_vector(node: Node) -> bool:
    """Whether samples are vectors, or matrices of one column as recipes often have them."""
    return node.known_shape[-1:] == (elements_of(node),)


class LoopWriter:
    """What both directions share: the arrays of nodes as matrices.

    Args:
        site: the arrays.
        loop: what to write.
        few: time steps have few rows.
    """

    def __init__(self, site: Site, loop: Loop, *, few: bool = False) -> None:
        self.site = site
        self.loop = loop
        self.axis = loop.nodes[0].axis
        self.frames = site.frames[self.axis]
        self.text = LoopText(site.dtype, site.gemm.team, onednn=site.gemm.takes_bands(site.dtype), few=few)
        self.slices = slices_of(loop, site)
        self.names = Names(site.numbers)

    def matrix(self, array: Array, node: Node, kind: str = "full") -> Array:
        """A value or gradient as the kernels see it."""
        if kind == "row":
            return array.reshape(-1)
        if kind in ("col", "scalar"):
            return array.reshape(-1)
        if node.axis != self.axis:
            raise NotCompiled
        return array.reshape(self.frames, elements_of(node))

    def operand(self, node: Node, kind: str) -> tuple[Array, str]:
        """The value of a node and its kind; slices are columns of the whole."""
        part = self.slices.get(node)
        if part is not None and kind == "full":
            return self.matrix(self.site.values[part.whole], part.whole), part_of(part.offset, elements_of(node))
        if node not in self.site.values:
            raise NotCompiled
        return self.matrix(self.site.values[node], node, kind), kind

    def call(
        self,
        like: Array,
        arrays: dict[str, tuple[Array, str]],
        results: Sequence[Result],
        outputs: Sequence[Array],
    ) -> None:
        """Add a kernel; the places of results are among ``outputs``."""
        lying = {(array.ctypes.data, kind): name for name, (array, kind) in arrays.items() if is_matrix(kind)}
        placed = [
            attrs.evolve(result, into=lying.get((output.ctypes.data, result.kind), ""))
            for result, output in zip(results, outputs, strict=True)
        ]
        spec, order = spec_of({name: kind for name, (_, kind) in arrays.items()}, (), placed)
        self.text.kernel(spec, like, [arrays[name][0] for name in order], [outputs[index] for index in spec.outputs])

    def diagonal(self, node: Node) -> tuple[Array, str]:
        """The diagonal of a DiagTimes, which must have one number for each element of its other input, and its name."""
        diagonal, data = node.inputs
        if diagonal.framed or not data.framed or elements_of(diagonal) != elements_of(data):
            raise NotCompiled
        return self.matrix(self.site.values[diagonal], diagonal, "row"), self.names.value(diagonal)

    def copy(self, source: Array, kind: str, target: Array, target_kind: str, like: Array, *, accumulate: bool) -> None:
        """Copy or add columns."""
        self.call(like, {"x": (source, kind)}, [Result(symbol("x"), target_kind, accumulate)], [target])

    def kind(self, node: Node, like: Node) -> str:
        """How a value meets the nodes of a group."""
        found = operand_kind(node, like)
        if found is None or (node.framed and node.axis != self.axis):
            raise NotCompiled
        return found
