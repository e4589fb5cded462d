"""Writes the text of a loop's gradients."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from cntk_core.api import Node, is_delay
from cntk_core.api.engines import (
    Expr,
    GradientStep,
    LoopGradient,
    Tree,
    elements_of,
    gradient_trees,
    is_elementwise,
    is_transposed,
    product_matrices,
    symbol,
)
from cntk_engine_cpu.loop_writer import LoopWriter, NotCompiled, Part
from cntk_engine_cpu.loops import shift_and_default
from cntk_engine_cpu.site import Array, Site
from cntk_engine_cpu.source import Result, part_of


class BackwardWriter(LoopWriter):
    """Writes the loop of gradients.

    Args:
        site: the arrays.
        step: what to compute.
        transposed: products read copies of the weights that are transposed before the loop.
        few: time steps have few rows.
    """

    def __init__(self, site: Site, step: LoopGradient, *, transposed: bool = False, few: bool = False) -> None:
        super().__init__(site, step.loop, few=few)
        self.step = step
        self._transposes = transposed
        self.clear: list[Array] = []
        self.transposed: list[tuple[Array, Array]] = []
        self._values = dict(self.slices)
        self.slices = self._direct_slices()

    def _direct_slices(self) -> dict[Node, Part]:
        """Slices whose gradients can be written into that of the whole vector where they belong.

        Nothing else may send a gradient to the whole, and the slices may not overlap.
        """
        wholes: dict[Node, list[Node]] = {}
        for part in self.step.steps:
            for target in part.targets:
                wholes.setdefault(target.node, []).append(part.step.nodes[0])
        direct: dict[Node, Part] = {}
        for whole, senders in wholes.items():
            if whole in self.step.sources or not all(node in self._values for node in senders):
                continue
            spans = sorted((self._values[node].offset, elements_of(node)) for node in senders)
            apart = all(first[0] + first[1] <= second[0] for first, second in pairwise(spans))
            alone = all(self._is_elementwise_target(node) for node in senders)
            if apart and alone:
                direct |= {node: self._values[node] for node in senders}
                if sum(span[1] for span in spans) < elements_of(whole):
                    self.clear.append(self.site.gradients[whole])
        return direct

    def _is_elementwise_target(self, node: Node) -> bool:
        """Whether only element-wise steps of the loop send a gradient to a node."""
        if node in self.step.sources or node in self.step.cleared or node in self.site.plan.by:
            return False
        senders = [part for part in self.step.steps if any(target.node is node for target in part.targets)]
        return all(is_elementwise(part.step) for part in senders)

    def add(self, part: GradientStep) -> None:
        """Write the gradients of a step of the body."""
        (node, *_) = part.step.nodes
        if is_elementwise(part.step):
            self._elementwise(part)
        elif is_delay(node):
            shift, _ = shift_and_default(node)
            self.text.delay_gradient(self._whole(node), self._whole(node.inputs[0]), shift)
        elif node in self._values:
            if node not in self.slices:
                self._slice(part)
        else:
            writers = (kernel.in_loop_gradient for kernel in self.site.op_kernels.of(node.op))
            write = next((each for each in writers if each is not None), None)
            if write is None:
                raise NotCompiled
            write(self, part)

    def _whole(self, node: Node) -> Array:
        return self.matrix(self.site.gradients[node], node)

    def _place(self, node: Node) -> tuple[Array, str]:
        """Where the gradient of a node is."""
        part = self.slices.get(node)
        if part is not None:
            return self._whole(part.whole), part_of(part.offset, elements_of(node))
        return self._whole(node), "full"

    def _elementwise(self, part: GradientStep) -> None:
        like = part.step.nodes[-1]
        arrays: dict[str, tuple[Array, str]] = {}
        inside = set(part.step.nodes)
        for node in part.reads:
            arrays[self.names.value(node)] = self._value(node, "full" if node in inside else self.kind(node, like))
        for node in part.sources:
            arrays[self.names.gradient(node)] = self._place(node)
        trees = gradient_trees(part, self.names, self.site.path)
        results: list[Result] = []
        outputs: list[Array] = []
        for target in part.targets:
            kind = self.kind(target.node, like)
            if kind == "full":
                array, kind = self._place(target.node)
            else:
                array = self.matrix(self.site.gradients[target.node], target.node, kind)
            tree = trees.get(target.node, 0.0)
            if not target.accumulate and _is_there(tree, array, kind, arrays):
                continue
            results.append(Result(tree, kind, target.accumulate))
            outputs.append(array)
        if any(result.kind in ("row", "scalar") for result in results):
            raise NotCompiled
        if results:
            self.call(self._like(like), arrays, results, outputs)

    def _like(self, node: Node) -> Array:
        """An array with as many columns as a node has elements."""
        for arrays in (self.site.values, self.site.gradients):
            if node in arrays:
                return self.matrix(arrays[node], node)
        raise NotCompiled

    def _value(self, node: Node, kind: str) -> tuple[Array, str]:
        part = self._values.get(node)
        if part is not None and kind == "full":
            return self.matrix(self.site.values[part.whole], part.whole), part_of(part.offset, elements_of(node))
        if node not in self.site.values:
            raise NotCompiled
        return self.matrix(self.site.values[node], node, kind), kind

    def product(self, part: GradientStep) -> None:
        """Write the gradient of a product by what it multiplies."""
        (node,) = part.step.nodes
        left, right = node.inputs
        for target in part.targets:
            if target.node is not right or left is right or left.framed:
                raise NotCompiled
            out = self.matrix(self.site.gradients[right], right)
            found = product_matrices(node, self.site.values[left], out)
            if found is None or found[1].shape[0] != self.frames:
                raise NotCompiled
            weights, rows = found
            forward_transposed = is_transposed(node)
            if self._transposes and not forward_transposed:
                copied = np.empty((weights.shape[1], weights.shape[0]), weights.dtype)
                self.transposed.append((weights, copied))
                self.text.product(self._whole(node), copied, rows, transposed=False, accumulate=target.accumulate)
            else:
                self.text.product(
                    self._whole(node), weights, rows, transposed=not forward_transposed, accumulate=target.accumulate
                )

    def diagonal_times(self, part: GradientStep) -> None:
        """Write the gradient of a product with a diagonal matrix by what it multiplies."""
        (node,) = part.step.nodes
        weights, name = self.diagonal(node)
        incoming = self.names.gradient(node)
        for target in part.targets:
            if target.node is not node.inputs[1]:
                raise NotCompiled
            array, kind = self._place(target.node)
            arrays = {name: (weights, "row"), incoming: (self._whole(node), "full")}
            result = Result(symbol(name) * symbol(incoming), kind, target.accumulate)
            self.call(self._whole(node), arrays, [result], [array])

    def _slice(self, part: GradientStep) -> None:
        (target,) = part.targets
        (node,) = part.step.nodes
        whole = self._whole(target.node)
        if not target.accumulate:
            self.call(whole, {}, [Result(0.0, "full")], [whole])
        self.copy(
            self._whole(node),
            "full",
            whole,
            part_of(self._values[node].offset, elements_of(node)),
            self._whole(node),
            accumulate=True,
        )

    def stack(self, part: GradientStep) -> None:
        """Write the gradients of vectors that were put together."""
        (node,) = part.step.nodes
        offset = 0
        offsets = {}
        for child in node.inputs:
            if child in offsets:
                raise NotCompiled
            offsets[child] = offset
            offset += elements_of(child)
        for target in part.targets:
            array, kind = self._place(target.node)
            like = self.matrix(self.site.values[target.node], target.node)
            self.copy(
                self._whole(node),
                part_of(offsets[target.node], elements_of(target.node)),
                array,
                kind,
                like,
                accumulate=target.accumulate,
            )


def _is_there(tree: Tree, output: Array, kind: str, arrays: Mapping[str, tuple[Array, str]]) -> bool:
    """Whether a gradient that is passed on unchanged lies where it should already."""
    if not isinstance(tree, Expr) or tree.operation != "symbol":
        return False
    source, source_kind = arrays[str(tree.args[0])]
    return source_kind == kind and source.ctypes.data == output.ctypes.data
