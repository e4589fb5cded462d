"""Compiles recurrent loops: delays, products, element-wise groups, and vectors cut apart and put together.

A slice of a vector is not copied: what reads it reads the columns of the whole vector, and its gradient is written
there. A loop with any other op is left to :mod:`loops`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Expr, GradientStep, Loop, LoopGradient, Node, Step, delay_rows, is_delay, symbol
from cntk_engine_cpu import products
from cntk_engine_cpu.elementwise import is_elementwise, operand_kind
from cntk_engine_cpu.kernels import Kernel, compile_file, compile_text
from cntk_engine_cpu.libraries import load_permanently
from cntk_engine_cpu.loop_source import LoopText
from cntk_engine_cpu.loops import finish_delays, layout_of, prepare_delays, shift_and_default
from cntk_engine_cpu.site import Array, Call, Site, elements_of
from cntk_engine_cpu.source import Result, is_matrix, part_of, spec_of
from cntk_engine_cpu.trees import Names, Tree, forward_trees, gradient_trees

STACKS = ("RowStack", "Splice")

TRANSPOSED_STEPS = 24
TRANSPOSED_ROWS = 6
"""Time steps, and rows in the first of them, from which weights are transposed once, so that products back in time read
them as they lie. For fewer rows, products with the transpose are as fast."""


class _NotCompiled(Exception):
    """Something in the loop has no compiled form."""


def bind_forward(site: Site, loop: Loop) -> Call | None:
    """Return the call that computes a loop; None if it or its gradients cannot be compiled."""
    if not site.kernels.compiled:
        return None
    try:
        writer = _Forward(site, loop)
        for step in loop.steps:
            writer.add(step)
        for gradient in site.plan.gradients:
            if isinstance(gradient, LoopGradient) and gradient.loop is loop:
                _backward(site, gradient)
    except _NotCompiled:
        return None
    site.interpreted.update(loop.delays)  # their sequences are looked at for each minibatch
    site.compiled_loops.add(loop)
    run = _bind(site, loop, writer.text, loop.direction)

    def compute() -> None:
        prepare_delays(site, loop)
        run()
        finish_delays(site, loop)

    return Call(compute)


def _backward(site: Site, step: LoopGradient, *, transposed: bool = False) -> _Backward:
    writer = _Backward(site, step, transposed=transposed)
    for part in step.steps:
        writer.add(part)
    return writer


def bind_gradient(site: Site, step: LoopGradient) -> Call | None:
    """Return the call that computes the gradients of a loop; None if the loop was not compiled."""
    if step.loop not in site.compiled_loops:
        return None
    bound: dict[bool, Callable[[], None]] = {}

    def compute() -> None:
        layout = layout_of(site, step.loop)
        transposed = layout.steps >= TRANSPOSED_STEPS and layout.slots >= TRANSPOSED_ROWS
        if transposed not in bound:
            bound[transposed] = _bind_backward(site, step, transposed=transposed)
        bound[transposed]()

    return Call(compute)


def _bind_backward(site: Site, step: LoopGradient, *, transposed: bool) -> Callable[[], None]:
    writer = _backward(site, step, transposed=transposed)
    run = _bind(site, step.loop, writer.text, -step.loop.direction)
    clear = [site.gradients[node] for node in step.cleared if node not in writer.slices] + writer.clear
    transpose = transposing_kernel(site) if writer.transposed else None

    def compute() -> None:
        for array in clear:
            array.fill(0)
        if transpose is not None:
            for source, target in writer.transposed:
                transpose(source, target)
        run()

    return compute


def _bind(site: Site, loop: Loop, text: LoopText, direction: int) -> Callable[[], None]:
    """Return the compiled loop, bound to its arrays; it asks for the sequences of the minibatch when it runs."""
    kernel: Kernel = compile_text(text.source(), "run", text.signature())
    arguments = list(text.arrays)
    for place, array in enumerate(arguments):
        site.ports.follow_view(array, _set_item(arguments, place))
    work = max((array.shape[1] for array in arguments if array.ndim == 2), default=1) ** 2

    def run() -> None:
        layout = layout_of(site, loop)
        sources = [delay_rows(layout, shift).source for shift in text.shifts]
        starts, counts = np.array(layout.start[::direction]), np.array(layout.alive[::direction])
        site.gemm.set_threads(work * layout.slots)
        kernel(starts, counts, *sources, *arguments)

    return run


def _set_item(arguments: list[Any], place: int) -> Callable[[Array], None]:
    return lambda view: arguments.__setitem__(place, view)


@attrs.frozen
class _Part:
    """A slice of a vector: some columns of another node's value."""

    whole: Node
    offset: int


def _slices(loop: Loop, site: Site) -> dict[Node, _Part]:
    """The slices of vectors in a loop."""
    found = {}
    for step in loop.steps:
        (node, *_) = step.nodes
        if node.op.name == "Slice" and _flat(node) and _flat(node.inputs[0]) and node.inputs[0].framed:
            begin = node.attributes.begin[0]
            length = elements_of(node.inputs[0])
            found[node] = _Part(node.inputs[0], begin + length if begin < 0 else begin)
    return found


def _flat(node: Node) -> bool:
    """Whether samples are vectors."""
    return len(node.known_shape) == 1


class _Writer:
    """What both directions share: the arrays of nodes as matrices."""

    def __init__(self, site: Site, loop: Loop) -> None:
        self.site = site
        self.loop = loop
        self.axis = loop.nodes[0].axis
        self.frames = site.frames[self.axis]
        onednn = site.gemm.takes_bands(site.dtype)
        if onednn:
            load_permanently()
        self.text = LoopText(site.dtype, onednn=onednn)
        self.slices = _slices(loop, site)
        self.names = Names(site.numbers)

    def matrix(self, array: Array, node: Node, kind: str = "full") -> Array:
        """A value or gradient as the kernels see it."""
        if kind == "row":
            return array.reshape(-1)
        if kind in ("col", "scalar"):
            return array.reshape(-1)
        if node.axis != self.axis:
            raise _NotCompiled
        return array.reshape(self.frames, elements_of(node))

    def operand(self, node: Node, kind: str) -> tuple[Array, str]:
        """The value of a node and its kind; slices are columns of the whole."""
        part = self.slices.get(node)
        if part is not None and kind == "full":
            return self.matrix(self.site.values[part.whole], part.whole), part_of(part.offset)
        if node not in self.site.values:
            raise _NotCompiled
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

    def copy(self, source: Array, kind: str, target: Array, target_kind: str, like: Array, *, accumulate: bool) -> None:
        """Copy or add columns."""
        self.call(like, {"x": (source, kind)}, [Result(symbol("x"), target_kind, accumulate)], [target])

    def kind(self, node: Node, like: Node) -> str:
        """How a value meets the nodes of a group."""
        found = operand_kind(node, like)
        if found is None or (node.framed and node.axis != self.axis):
            raise _NotCompiled
        return found


class _Forward(_Writer):
    """Writes the forward loop."""

    def __init__(self, site: Site, loop: Loop) -> None:
        super().__init__(site, loop)
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
        elif node.op.name in products.NAMES:
            self._product(node)
        elif node in self.slices:
            if node in self._needed:
                source, kind = self.operand(node, "full")
                self.copy(source, kind, self._whole(node), "full", self._whole(node), accumulate=False)
        elif node.op.name in STACKS and all(_flat(child) and child.framed for child in [node, *node.inputs]):
            self._stack(node)
        else:
            raise _NotCompiled

    def _whole(self, node: Node) -> Array:
        return self.matrix(self.site.values[node], node)

    def _elementwise(self, step: Step) -> None:
        like = step.nodes[-1]
        arrays = {self.names.value(node): self.operand(node, self.kind(node, like)) for node in step.reads}
        trees = forward_trees(step, self.names)
        results = [Result(trees[node], "full") for node in step.writes]
        self.call(self._whole(step.writes[-1]), arrays, results, [self._whole(node) for node in step.writes])

    def _product(self, node: Node) -> None:
        left, right = node.inputs
        if left.framed or not right.framed:
            raise _NotCompiled
        found = products.matrices(self.site, node, self.site.values[left], self.matrix(self.site.values[right], right))
        if found is None or found[1].shape[0] != self.frames:
            raise _NotCompiled
        weights, rows = found
        transposed = node.op.name == "TransposeTimes"
        total = self._sums.get(node)
        out = self._whole(total if total is not None else node)
        self.text.product(rows, weights, out, transposed=transposed, accumulate=total is not None)

    def _stack(self, node: Node) -> None:
        offset = 0
        for child in node.inputs:
            source, kind = self.operand(child, "full")
            like = self.matrix(self.site.values[child], child)
            self.copy(source, kind, self._whole(node), part_of(offset), like, accumulate=False)
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
        if others or node.op.name != "Plus" or node not in site.values:
            continue
        for product, other in (node.inputs, node.inputs[::-1]):
            alone = product in inside and product.op.name in products.NAMES and readers[product] == 1
            if alone and other not in inside and _same_place(site, node, other):
                found[product] = node
    return found


def _same_place(site: Site, node: Node, other: Node) -> bool:
    """Whether the values of two nodes are one array."""
    there = site.values.get(other)
    here = site.values[node]
    return there is not None and there.shape == here.shape and there.ctypes.data == here.ctypes.data


def transposing_kernel(site: Site) -> Kernel:
    """Return the function that writes the transpose of a matrix into another."""
    matrix = f"{site.dtype.name}[:, ::1]"
    return compile_file(
        Path(__file__).with_name("loop_functions.py"), "transpose", site.dtype.name, f"void({matrix}, {matrix})"
    )


def _materialised(site: Site, loop: Loop) -> set[Node]:
    """Nodes of a loop whose values somebody reads who does not know about slices."""
    needed = set(site.plan.roots)
    for step in site.plan.steps:
        if step is not loop:
            needed.update(step.reads)
    for part in loop.steps:
        if not is_elementwise(part) and part.nodes[0].op.name not in STACKS:
            needed.update(part.reads)
    for gradient in site.plan.gradients:
        if isinstance(gradient, LoopGradient):
            needed.update(node for item in gradient.steps if not is_elementwise(item.step) for node in item.reads)
        else:
            needed.update(gradient.reads)
    return needed


def _is_there(tree: Tree, output: Array, kind: str, arrays: Mapping[str, tuple[Array, str]]) -> bool:
    """Whether a gradient that is passed on unchanged lies where it should already."""
    if not isinstance(tree, Expr) or tree.operation != "symbol":
        return False
    source, source_kind = arrays[str(tree.args[0])]
    return source_kind == kind and source.ctypes.data == output.ctypes.data


class _Backward(_Writer):
    """Writes the loop of gradients.

    Args:
        site: the arrays.
        step: what to compute.
        transposed: products read copies of the weights that are transposed before the loop.
    """

    def __init__(self, site: Site, step: LoopGradient, *, transposed: bool) -> None:
        super().__init__(site, step.loop)
        self.step = step
        self._transposes = transposed
        self.clear: list[Array] = []
        self.transposed: list[tuple[Array, Array]] = []
        self._values = dict(self.slices)
        self.slices = self._direct_slices()

    def _direct_slices(self) -> dict[Node, _Part]:
        """Slices whose gradients can be written into that of the whole vector where they belong.

        Nothing else may send a gradient to the whole, and the slices may not overlap.
        """
        wholes: dict[Node, list[Node]] = {}
        for part in self.step.steps:
            for target in part.targets:
                wholes.setdefault(target.node, []).append(part.step.nodes[0])
        direct: dict[Node, _Part] = {}
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
        if node in self.step.sources or node in self.step.cleared:
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
        elif node.op.name in products.NAMES:
            self._product(part)
        elif node in self._values:
            if node not in self.slices:
                self._slice(part)
        elif node.op.name in STACKS:
            self._stack(part)
        else:
            raise _NotCompiled

    def _whole(self, node: Node) -> Array:
        return self.matrix(self.site.gradients[node], node)

    def _place(self, node: Node) -> tuple[Array, str]:
        """Where the gradient of a node is."""
        part = self.slices.get(node)
        if part is not None:
            return self._whole(part.whole), part_of(part.offset)
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
            raise _NotCompiled
        if results:
            self.call(self._like(like), arrays, results, outputs)

    def _like(self, node: Node) -> Array:
        """An array with as many columns as a node has elements."""
        for arrays in (self.site.values, self.site.gradients):
            if node in arrays:
                return self.matrix(arrays[node], node)
        raise _NotCompiled

    def _value(self, node: Node, kind: str) -> tuple[Array, str]:
        part = self._values.get(node)
        if part is not None and kind == "full":
            return self.matrix(self.site.values[part.whole], part.whole), part_of(part.offset)
        if node not in self.site.values:
            raise _NotCompiled
        return self.matrix(self.site.values[node], node, kind), kind

    def _product(self, part: GradientStep) -> None:
        (node,) = part.step.nodes
        left, right = node.inputs
        for target in part.targets:
            if target.node is not right or left is right or left.framed:
                raise _NotCompiled
            out = self.matrix(self.site.gradients[right], right)
            found = products.matrices(self.site, node, self.site.values[left], out)
            if found is None or found[1].shape[0] != self.frames:
                raise _NotCompiled
            weights, rows = found
            forward_transposed = node.op.name == "TransposeTimes"
            if self._transposes and not forward_transposed:
                copied = np.empty((weights.shape[1], weights.shape[0]), weights.dtype)
                self.transposed.append((weights, copied))
                self.text.product(self._whole(node), copied, rows, transposed=False, accumulate=target.accumulate)
            else:
                self.text.product(
                    self._whole(node), weights, rows, transposed=not forward_transposed, accumulate=target.accumulate
                )

    def _slice(self, part: GradientStep) -> None:
        (target,) = part.targets
        (node,) = part.step.nodes
        whole = self._whole(target.node)
        if not target.accumulate:
            self.call(whole, {}, [Result(0.0, "full")], [whole])
        self.copy(
            self._whole(node), "full", whole, part_of(self._values[node].offset), self._whole(node), accumulate=True
        )

    def _stack(self, part: GradientStep) -> None:
        (node,) = part.step.nodes
        offset = 0
        offsets = {}
        for child in node.inputs:
            if child in offsets:
                raise _NotCompiled
            offsets[child] = offset
            offset += elements_of(child)
        for target in part.targets:
            array, kind = self._place(target.node)
            like = self.matrix(self.site.values[target.node], target.node)
            self.copy(self._whole(node), part_of(offsets[target.node]), array, kind, like, accumulate=target.accumulate)
