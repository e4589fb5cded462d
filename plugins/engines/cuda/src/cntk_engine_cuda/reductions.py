"""Sums of values by generated kernels: criteria that are sums, and reductions over an axis or a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cntk_core.api import Expr, GradientStep, Node, Step, TraceMath, symbol
from cntk_engine_cuda.elementwise import Operand, Space, map_calls, sum_calls
from cntk_engine_cuda.gpu import Array, Call
from cntk_engine_cuda.site import Site, elements_of
from cntk_engine_cuda.source import TOTAL, Result, Tree

_M = TraceMath()

SMALLEST = 1e-30

ALL: Mapping[str, Tree] = {
    "SumElements": symbol("x"),
    "MatrixL1Reg": _M.abs(symbol("x")),
    "MatrixL2Reg": symbol("x") * symbol("x"),
}
"""What criteria of one input sum over all samples."""


def _flat(array: Array) -> tuple[Space, Array]:
    return Space((array.size,), known=False), array.reshape(-1)


def bind_total(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of a criterion that is a sum over one input; None if nothing can be summed."""
    (node,) = step.nodes
    value = site.values.get(node.inputs[0])
    if value is None or not value.size:
        return None
    space, flat = _flat(value)
    finish = _M.sqrt(symbol(TOTAL)) if node.op.name == "MatrixL2Reg" else None
    result = Result(ALL[node.op.name], finish=finish)
    return sum_calls(
        site.gpu, space, {"x": Operand(flat, (True,))}, [result], [site.values[node]], (False,), site.workspace
    )


def bind_total_gradient(site: Site, step: GradientStep) -> list[Call]:
    """Return the calls of its gradient."""
    (node,) = step.step.nodes
    (target,) = step.targets
    space, out = _flat(site.gradients[target.node])
    operands = {"g": Operand(site.gradients[node], (False,))}
    tree: Tree = symbol("g")
    if node.op.name != "SumElements":
        operands["x"] = Operand(site.values[node.inputs[0]].reshape(-1), (True,))
    if node.op.name == "MatrixL1Reg":
        tree = symbol("g") * _M.sign(symbol("x"))
    elif node.op.name == "MatrixL2Reg":
        operands["y"] = Operand(site.values[node], (False,))
        tree = symbol("g") / (symbol("y") + SMALLEST) * symbol("x")
    return map_calls(site.gpu, space, operands, [Result(tree, target.accumulate)], [out])


# -- square error -------------------------------------------------------------------------------------------


def _pair(site: Site, node: Node) -> tuple[Space, dict[str, Operand]] | None:
    """The inputs of a square error as flat arrays of the same size."""
    left, right = node.inputs
    if left in site.sparse or right in site.sparse or left is right:
        return None
    arrays = site.values[left], site.values[right]
    if bool(left.framed) != bool(right.framed) or not arrays[0].size or arrays[0].size != arrays[1].size:
        return None
    operands = {name: Operand(array.reshape(-1), (True,)) for name, array in zip("ab", arrays, strict=True)}
    return Space((arrays[0].size,), known=False), operands


def bind_square_error(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of SquareError of two values of one kind; None for others."""
    (node,) = step.nodes
    found = _pair(site, node)
    if found is None:
        return None
    space, operands = found
    away = symbol("a") - symbol("b")
    result = Result(away * away)
    return sum_calls(site.gpu, space, operands, [result], [site.values[node]], (False,), site.workspace)


def bind_square_error_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of its gradient."""
    (node,) = step.step.nodes
    found = _pair(site, node)
    if found is None:
        return None
    space, operands = found
    operands["g"] = Operand(site.gradients[node], (False,))
    change = (2.0 * symbol("g")) * (symbol("a") - symbol("b"))
    results, outputs = [], []
    for target in step.targets:
        results.append(Result(change if target.node is node.inputs[0] else -change, target.accumulate))
        outputs.append(site.gradients[target.node].reshape(-1))
    return map_calls(site.gpu, space, operands, results, outputs)


# -- reductions over an axis or a sample --------------------------------------------------------------------


def _axes(site: Site, node: Node) -> tuple[Space, int] | None:
    """The input as ``(outer, reduced, inner)``, and how many elements are reduced to one."""
    (data,) = node.inputs
    shape = data.known_shape
    if node.op.name == "SumColumnElements":
        axis = 0
    elif node.attributes.operation in ("Sum", "Mean") and node.attributes.axis >= 0:
        axis = node.attributes.axis
    else:
        return None
    rows = site.rows(data)
    if axis == 0:
        sizes = (rows, elements_of(data), 1)
    else:
        place = len(shape) - axis
        sizes = (rows * math.prod(shape[:place]), shape[place], math.prod(shape[place + 1 :]))
    return (Space(sizes, known=False), sizes[1]) if math.prod(sizes) else None


def bind_reduction(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of a sum or mean over an axis or over samples; None for other reductions."""
    (node,) = step.nodes
    found = _axes(site, node)
    if found is None:
        return None
    space, count = found
    finish: Tree | None = Expr("div", (symbol(TOTAL), float(count))) if _is_mean(node) else None
    operands = {"x": Operand(site.values[node.inputs[0]].reshape(-1), (True, True, True))}
    result = Result(symbol("x"), finish=finish)
    kept = (True, False, True)
    return sum_calls(site.gpu, space, operands, [result], [site.values[node]], kept, site.workspace)


def _is_mean(node: Node) -> bool:
    return node.op.name == "ReduceElements" and node.attributes.operation == "Mean"


def bind_reduction_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of its gradient."""
    (node,) = step.step.nodes
    found = _axes(site, node)
    if found is None:
        return None
    space, count = found
    (target,) = step.targets
    operands = {"g": Operand(site.gradients[node].reshape(-1), (True, False, True))}
    tree: Tree = symbol("g") / float(count) if _is_mean(node) else symbol("g")
    out = site.gradients[target.node].reshape(-1)
    return map_calls(site.gpu, space, operands, [Result(tree, target.accumulate)], [out])


# -- the same elements in another shape ---------------------------------------------------------------------


def bind_reshape(site: Site, step: Step) -> list[Call]:
    """Return the calls of Reshape: the elements lie as they lay."""
    (node,) = step.nodes
    return site.gpu.copy(site.values[node], site.values[node.inputs[0]])


def bind_reshape_gradient(site: Site, step: GradientStep) -> list[Call]:
    """Return the calls of its gradient."""
    (node,) = step.step.nodes
    (target,) = step.targets
    given, out = site.gradients[node], site.gradients[target.node]
    if not target.accumulate:
        return site.gpu.copy(out, given)
    space, flat = _flat(out)
    return map_calls(
        site.gpu, space, {"g": Operand(given.reshape(-1), (True,))}, [Result(symbol("g"), accumulate=True)], [flat]
    )
