"""Binds fused element-wise steps to kernels over rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from cntk_core.api import Expr, GradientStep, Node, Step
from cntk_engine_cpu.site import Array, Call, Site, elements_of, form_of
from cntk_engine_cpu.source import Result, spec_of
from cntk_engine_cpu.trees import Names, Tree, forward_trees, gradient_trees


def is_elementwise(step: Step) -> bool:
    """Whether all nodes of a step are scalar expressions."""
    return all(node.op.elementwise is not None for node in step.nodes)


def operand_kind(node: Node, like: Node) -> str | None:
    """How a value meets one of the shape of ``like``, None if no kind of the kernels fits."""
    if elements_of(node) == elements_of(like) and form_of(node) == form_of(like):
        if bool(node.framed) == bool(like.framed):
            return "full"
        return "row" if like.framed else None
    if elements_of(node) == 1:
        return "col" if node.framed else "scalar"
    return None


def bind_forward(site: Site, step: Step) -> Call | None:
    """Return the call that computes a step, None if a broadcast pattern does not fit the kernels."""
    like = step.nodes[-1]
    kinds = {node: operand_kind(node, like) for node in step.reads}
    if None in kinds.values():
        return None
    names = Names(site.numbers)
    trees = forward_trees(step, names)
    results = [Result(trees[node], "full") for node in step.writes]
    arrays = {names.value(node): (site.values[node], str(kind)) for node, kind in kinds.items()}
    return _call(site, like, arrays, results, [site.values[node] for node in step.writes])


def bind_gradient(site: Site, step: GradientStep) -> Call | None:
    """Return the call that computes all gradients of a step, None if a pattern does not fit the kernels."""
    like = step.step.nodes[-1]
    inside = set(step.step.nodes)
    names = Names(site.numbers)
    arrays: dict[str, tuple[Array, str]] = {}
    for node in step.reads:
        kind = "full" if node in inside else operand_kind(node, like)
        if kind is None:
            return None
        arrays[names.value(node)] = (site.values[node], kind)
    for node in step.sources:
        arrays[names.gradient(node)] = (site.gradients[node], "full")
    trees = gradient_trees(step, names, site.path)
    results: list[Result] = []
    outputs: list[Array] = []
    for target in step.targets:
        kind = operand_kind(target.node, like)
        if kind is None:
            return None
        output = site.gradients[target.node]
        tree = trees.get(target.node, 0.0)
        if kind == "full" and not target.accumulate and _is_there(tree, output, arrays):
            continue
        results.append(Result(tree, kind, target.accumulate))
        outputs.append(output)
    if not results:
        return Call(_nothing)
    return _call(site, like, arrays, results, outputs)


def _is_there(tree: Tree, output: Array, arrays: Mapping[str, tuple[Array, str]]) -> bool:
    """Whether a gradient that is passed on unchanged lies where it should already."""
    if not isinstance(tree, Expr) or tree.operation != "symbol":
        return False
    source, _ = arrays[str(tree.args[0])]
    return source.ctypes.data == output.ctypes.data


def _call(
    site: Site,
    like: Node,
    arrays: Mapping[str, tuple[Array, str]],
    results: Sequence[Result],
    outputs: Sequence[Array],
) -> Call:
    lying = {array.ctypes.data: name for name, (array, kind) in arrays.items() if kind == "full"}
    placed = [
        attrs.evolve(result, into=lying.get(output.ctypes.data, "")) if result.kind == "full" else result
        for result, output in zip(results, outputs, strict=True)
    ]
    spec, order = spec_of({name: kind for name, (_, kind) in arrays.items()}, (), placed)
    rows, columns = site.rows(like), elements_of(like)
    operands = [_seen(*arrays[name], rows, columns) for name in order]
    targets = [_seen(outputs[index], results[index].kind, rows, columns) for index in spec.outputs]
    return Call(site.kernels.get(spec, site.dtype), (rows, columns, *operands, *targets))


def _seen(array: Array, kind: str, rows: int, columns: int) -> Array:
    shape = {"full": (rows, columns), "row": (columns,), "col": (rows,), "scalar": (1,)}[kind]
    return array.reshape(shape)


def _nothing() -> None:
    """The gradient is there already."""
