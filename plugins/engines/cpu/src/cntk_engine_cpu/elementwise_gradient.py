"""Binds the gradients of fused element-wise steps, and what their neighbours would do in passes of their own.

Passes over images cost what they read and write. So a step that makes the gradient of a normalized value also takes
the sums that the normalization's gradient begins with; it leaves the making of that gradient to the normalization,
where that reads no more; and it adds what the step before has left to be added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from cntk_core.api import Input, Node
from cntk_core.api.engines import (
    Expr,
    GradientStep,
    Names,
    Target,
    Tree,
    forward_trees,
    gradient_trees,
    is_elementwise,
    reaches_open,
    symbol,
)
from cntk_engine_cpu.elementwise import Space, space_of, step_calls, value_of
from cntk_engine_cpu.images import last_channels
from cntk_engine_cpu.site import Affine, Array, Call, Formula, Site
from cntk_engine_cpu.source import Result

Operands = dict[str, tuple[Array, str]]

QUICK = frozenset({"symbol", "add", "sub", "mul", "neg", "where", "minimum", "maximum", "abs", "sign"} | {
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
})  # fmt: skip
"""Operations that take less time than reading a number from memory."""


@attrs.frozen(eq=False)
class _Kernel:
    """The kernel of a gradient step in the making.

    Attributes:
        arrays: its operands.
        results, outputs: what it writes, and where.
    """

    arrays: Operands = attrs.field(factory=dict)
    results: list[Result] = attrs.field(factory=list)
    outputs: list[Array] = attrs.field(factory=list)

    def add(self, result: Result, output: Array) -> None:
        """Have a result written."""
        self.results.append(result)
        self.outputs.append(output)


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls that compute all gradients of a step, None if a pattern does not fit the kernels."""
    space = _space(site, step)
    if space is None:
        return None
    names = Names(site.numbers)
    calls: list[Call] = []
    after: list[Call] = []
    kernel = _Kernel()
    summed = {
        target.node: site.normalized[target.node].affine for target in step.targets if _is_summed(site, space, target)
    }
    waiting = [target for target in step.targets if target.node in summed and _can_wait(site, step, target.node)]
    at_once = [target for target in step.targets if target not in waiting]
    given = _computed(site, step, names, summed, kernel, at_once)
    for node in step.reads:
        if node not in given:
            kernel.arrays[names.value(node)] = (value_of(site, space, node, calls), space.kinds[node])
    sources = {node: _source(site, space, names, node, kernel, calls) for node in step.sources}
    trees = gradient_trees(step, names, site.path, sources, given)
    for node in summed:
        _sum(site, node, trees.get(node, 0.0), kernel)
    # Those that might not be written come last: what is written of the same tree will do for them, too.
    for target in at_once + waiting:
        tree = trees.get(target.node, 0.0)
        formula = _formula(site, target.node, tree, kernel, at_once) if target in waiting else None
        if formula is not None:
            site.passing.formulas[target.node] = formula
        else:
            _write(site, space, target, tree, kernel, after)
    made = step_calls(site, space, kernel.arrays, kernel.results, kernel.outputs) if kernel.results else []
    return [*calls, *made, *after]


def _space(site: Site, step: GradientStep) -> Space | None:
    return space_of(site, step.step, [target.node for target in step.targets])


def _symbols(tree: Tree) -> Sequence[str]:
    return sorted(tree.symbols()) if isinstance(tree, Expr) else ()


# What comes in


def _source(site: Site, space: Space, names: Names, node: Node, kernel: _Kernel, calls: list[Call]) -> Tree:
    """The tree of a gradient that comes in."""
    name = names.gradient(node)
    array = site.gradients[node]
    if space.channels_last:
        assert site.images is not None
        array = site.images.gradient(site, node, calls)
    kernel.arrays[name] = array, "full"
    addend = site.passing.addends.pop(node, None)
    if addend is None:
        return symbol(name)
    kernel.arrays[f"{name}more"] = addend, "full"
    return symbol(name) + symbol(f"{name}more")


def adds_up(site: Site, step: GradientStep | None, node: Node) -> bool:
    """Whether a step adds what is left for it to the gradient of a node, which it reads channels last."""
    if step is None or node not in step.sources or node in site.plan.by:
        return False
    if not is_elementwise(step.step) or reaches_open(step.step):
        return False
    space = _space(site, step)
    return space is not None and space.channels_last and last_channels(site.gradients[node]).flags.c_contiguous


# Normalized values


def _is_summed(site: Site, space: Space, target: Target) -> bool:
    """Whether the sums over a gradient are taken where it is made: it is a normalized value's, and made here alone."""
    numbers = site.normalized.get(target.node)
    if numbers is None or target.accumulate or not target.last or isinstance(target.node.inputs[0], Input):
        return False
    affine = numbers.affine
    alike = space.channels_last and affine.channels_last and space.columns == affine.centre.size
    return alike and space.kinds[target.node] == "full"


def _computed(
    site: Site,
    step: GradientStep,
    names: Names,
    summed: Mapping[Node, Affine],
    kernel: _Kernel,
    written: Sequence[Target],
) -> dict[Node, Tree]:
    """Trees of the values that a step computes again, of data that the sums read anyway, instead of reading them.

    A value in whose place a gradient is written is read: memory is fetched in either case.
    """
    given: dict[Node, Tree] = {}
    for node, affine in summed.items():
        given[node], operands = affine.tree(names.value(node))
        kernel.arrays.update(operands)
    places = {site.gradients[target.node].ctypes.data for target in written}
    return {
        node: tree
        for node, tree in forward_trees(step.step, names, given).items()
        if _is_quick(tree) and {*_symbols(tree)} <= {*kernel.arrays} and site.values[node].ctypes.data not in places
    }


def _is_quick(tree: Tree | str) -> bool:
    return not isinstance(tree, Expr) or (tree.operation in QUICK and all(map(_is_quick, tree.args)))


def _sum(site: Site, node: Node, tree: Tree, kernel: _Kernel) -> None:
    """Have the sums over the gradient of a normalized value taken."""
    affine = site.normalized[node].affine
    sums = np.zeros_like(affine.centre), np.zeros_like(affine.centre)
    kernel.add(Result(tree, "row"), sums[0])
    kernel.add(Result(affine.centred(Names(site.numbers).value(node)) * tree, "row"), sums[1])
    site.passing.sums[node] = sums


def _can_wait(site: Site, step: GradientStep, node: Node) -> bool:
    """Whether the gradient of a node is wanted by the next step alone."""
    following = site.next_gradient(step)
    return following is not None and following.step.nodes == (node,) and node not in site.plan.by


def _formula(site: Site, node: Node, tree: Tree, kernel: _Kernel, written: Sequence[Target]) -> Formula | None:
    """The gradient of a normalized value as the next step can compute it, if making it costs no less.

    What it reads must still be there by then: nothing of it may lie where one of the ``written`` gradients goes, be it
    by a conversion after the kernel.
    """
    for result, output in zip(kernel.results, kernel.outputs, strict=True):
        if result.kind == "full" and result.expression == tree and not result.accumulate:
            return Formula(symbol("made"), {"made": (output, "full")})
    operands = {name: kernel.arrays[name] for name in _symbols(tree)}
    data = site.normalized[node].affine.data
    read = [array for array, kind in operands.values() if kind == "full" and array is not data]
    places = [*kernel.outputs, *(site.gradients[target.node] for target in written)]
    if (
        len(read) > 2
        or not _is_quick(tree)
        or any(np.may_share_memory(array, place) for array, _ in operands.values() for place in places)
    ):
        return None
    return Formula(tree, operands) if isinstance(tree, Expr) else None


# What goes out


def _write(site: Site, space: Space, target: Target, tree: Tree, kernel: _Kernel, after: list[Call]) -> None:
    """Have a gradient written, unless it is passed on unchanged and lies where it should already."""
    kind = space.kinds[target.node]
    output, accumulate = site.gradients[target.node], target.accumulate
    if space.channels_last and kind == "full" and target.node.framed:
        assert site.images is not None
        output, accumulate = site.images.gradient_out(site, target.node, after, accumulate=accumulate)
    if kind == "full" and not accumulate and _is_there(tree, output, kernel.arrays):
        return
    kernel.add(Result(tree, kind, accumulate), output)


def _is_there(tree: Tree, output: Array, arrays: Mapping[str, tuple[Array, str]]) -> bool:
    if not isinstance(tree, Expr) or tree.operation != "symbol":
        return False
    source, _ = arrays[str(tree.args[0])]
    return source.ctypes.data == output.ctypes.data
