"""Writes the forward text of a loop."""

from __future__ import annotations

from collections import Counter

from cntk_core.api import Node, is_delay
from cntk_core.api.engines import (
    Loop,
    LoopGradient,
    Step,
    elements_of,
    forward_trees,
    is_elementwise,
    is_product,
    is_transposed,
    product_matrices,
    symbol,
)
from cntk_engine_cpu.loop_writer import LoopWriter, NotCompiled, is_vector
from cntk_engine_cpu.loops import shift_and_default
from cntk_engine_cpu.site import Array, Site
from cntk_engine_cpu.source import Result, part_of


class ForwardWriter(LoopWriter):
    """Writes the forward loop."""

    def __init__(self, site: Site, loop: Loop, *, few: bool = False) -> None:
        super().__init__(site, loop, few=few)
        self._needed = _materialised(site, loop)
        self._sums = _sums_of_products(site, loop)

    def add(self, step: Step) -> None:
        """Write a step of the body."""
        (node, *_) = step.nodes
        if node in self._sums.values():
            return
        if is_elementwise(step):
            self._elementwise(step)
        elif is_delay(node):
            shift, _ = shift_and_default(node)
            values = self.site.values
            self.text.delay(self._whole(node), self.matrix(values[node.inputs[0]], node.inputs[0]), shift)
        elif node in self.slices:
            if node in self._needed:
                source, kind = self.operand(node, "full")
                self.copy(source, kind, self._whole(node), "full", self._whole(node), accumulate=False)
        else:
            writers = (kernel.in_loop for kernel in self.site.op_kernels.of(node.op))
            write = next((each for each in writers if each is not None), None)
            if write is None:
                raise NotCompiled
            write(self, node)

    def _whole(self, node: Node) -> Array:
        return self.matrix(self.site.values[node], node)

    def _elementwise(self, step: Step) -> None:
        like = step.nodes[-1]
        arrays = {self.names.value(node): self.operand(node, self.kind(node, like)) for node in step.reads}
        trees = forward_trees(step, self.names)
        results = [Result(trees[node], "full") for node in step.writes]
        self.call(self._whole(step.writes[-1]), arrays, results, [self._whole(node) for node in step.writes])

    def product(self, node: Node) -> None:
        """Write a product with a matrix from outside."""
        left, right = node.inputs
        if left.framed or not right.framed:
            raise NotCompiled
        found = product_matrices(node, self.site.values[left], self.matrix(self.site.values[right], right))
        if found is None or found[1].shape[0] != self.frames:
            raise NotCompiled
        weights, rows = found
        transposed = is_transposed(node)
        total = self._sums.get(node)
        out = self._whole(total if total is not None else node)
        self.text.product(rows, weights, out, transposed=transposed, accumulate=total is not None)

    def diagonal_times(self, node: Node) -> None:
        """Write a product with a diagonal matrix from outside."""
        weights, name = self.diagonal(node)
        data = self.names.value(node.inputs[1])
        arrays = {name: (weights, "row"), data: self.operand(node.inputs[1], "full")}
        out = self._whole(node)
        self.call(out, arrays, [Result(symbol(name) * symbol(data), "full")], [out])

    def stack(self, node: Node) -> None:
        """Write vectors put together."""
        if not all(is_vector(child) and child.framed for child in [node, *node.inputs]):
            raise NotCompiled
        offset = 0
        for child in node.inputs:
            source, kind = self.operand(child, "full")
            like = self.matrix(self.site.values[child], child)
            self.copy(source, kind, self._whole(node), part_of(offset, elements_of(child)), like, accumulate=False)
            offset += elements_of(child)


def _sums_of_products(site: Site, loop: Loop) -> dict[Node, Node]:
    """Products that are only added to a value from before the loop, each with the sum.

    Where the sum lies in the place of that value, the product itself can add.
    """
    plan = site.plan
    readers: Counter[Node] = Counter(plan.roots)
    for step in plan.steps:
        readers.update(node for part in (step.steps if isinstance(step, Loop) else (step,)) for node in part.reads)
    readers.update(node for gradient in plan.gradients for node in gradient.reads)
    inside = set(loop.nodes)
    found = {}
    for step in loop.steps:
        (node, *others) = step.nodes
        if others or not node.op.traits.sums or node not in site.values:
            continue
        for product, other in (node.inputs, node.inputs[::-1]):
            alone = product in inside and is_product(product) and readers[product] == 1
            if alone and other not in inside and _same_place(site, node, other):
                found[product] = node
    return found


def _same_place(site: Site, node: Node, other: Node) -> bool:
    """Whether the values of two nodes are one array."""
    there = site.values.get(other)
    here = site.values[node]
    return there is not None and there.shape == here.shape and there.ctypes.data == here.ctypes.data


def _materialised(site: Site, loop: Loop) -> set[Node]:
    """Nodes of a loop whose values somebody reads who does not know about slices."""
    needed = set(site.plan.roots)
    for step in site.plan.steps:
        if step is not loop:
            needed.update(step.reads)
    for part in loop.steps:
        takes_parts = any(kernel.takes_parts for kernel in site.op_kernels.of(part.nodes[0].op))
        if not is_elementwise(part) and not takes_parts:
            needed.update(part.reads)
    for gradient in site.plan.gradients:
        if isinstance(gradient, LoopGradient):
            needed.update(node for item in gradient.steps if not is_elementwise(item.step) for node in item.reads)
        else:
            needed.update(gradient.reads)
    return needed
