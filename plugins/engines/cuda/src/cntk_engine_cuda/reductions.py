"""Sums of values by generated kernels: criteria that are sums, and reductions over an axis or a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cntk_core.api import Node
from cntk_core.api.engines import Expr, GradientStep, Step, TraceMath, symbol
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


# -- reductions over an axis or a sample --------------------------------------------------------------------


def _axes(site: Site, node: Node) -> tuple[Space, int] | None:
    """The input as ``(outer, reduced, inner)``, and how many elements are reduced to one."""
    (data,) = node.inputs
    shape = data.known_shape
    axis = 0 if node.op.name == "SumColumnElements" else node.attributes.axis
    if axis < 0:
        return None
    rows = site.rows(data)
    if axis == 0:
        sizes = (rows, elements_of(data), 1)
    else:
        place = len(shape) - axis
        sizes = (rows * math.prod(shape[:place]), shape[place], math.prod(shape[place + 1 :]))
    return (Space(sizes, known=False), sizes[1]) if math.prod(sizes) else None


ONE_FOLD = {"Sum": "sum", "Mean": "sum", "Max": "largest", "Min": "smallest", "Prod": "product"}
"""Reductions that are one fold."""

KEPT = (True, False, True)


def _operation(node: Node) -> str:
    return "Sum" if node.op.name == "SumColumnElements" else str(node.attributes.operation)


def bind_reduction(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of a reduction over an axis or over samples; None for those that look for places."""
    (node,) = step.nodes
    found, operation = _axes(site, node), _operation(node)
    if found is None:
        return None
    space, count = found
    operands = {"x": Operand(site.values[node.inputs[0]].reshape(-1), (True, True, True))}
    out = site.values[node]
    if operation == "LogSum":
        return _log_sum(site, node, space, operands, out.reshape(-1))
    if operation not in ONE_FOLD:
        return None
    finish: Tree | None = Expr("div", (symbol(TOTAL), float(count))) if operation == "Mean" else None
    result = Result(symbol("x"), finish=finish, fold=ONE_FOLD[operation])
    return sum_calls(site.gpu, space, operands, [result], [out], KEPT, site.workspace)


def _log_sum(site: Site, node: Node, space: Space, operands: dict[str, Operand], out: Array) -> list[Call]:
    """The logarithm of the sum of exponentials, after the largest value was taken away."""
    most = site.scratch(node, "largest", elements_of(node))
    calls = sum_calls(site.gpu, space, operands, [Result(symbol("x"), fold="largest")], [most], KEPT, site.workspace)
    m = symbol("m")
    shift = _M.where(_M.equal(m - m, 0.0), m, 0.0)  # infinities and NaN are left to the sum
    operands = operands | {"m": Operand(most, KEPT)}
    calls += sum_calls(site.gpu, space, operands, [Result(_M.exp(symbol("x") - shift))], [out], KEPT, site.workspace)
    both = {"m": Operand(most, (True,)), "t": Operand(out, (True,))}
    total = Result(_M.log(symbol("t")) + shift)
    return [*calls, *map_calls(site.gpu, Space((out.size,), known=False), both, [total], [out])]


def bind_reduction_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of its gradient."""
    (node,) = step.step.nodes
    found, operation = _axes(site, node), _operation(node)
    if found is None:
        return None
    space, count = found
    (target,) = step.targets
    out = site.gradients[target.node].reshape(-1)
    operands = {"g": Operand(site.gradients[node].reshape(-1), KEPT)}
    if operation not in ("Sum", "Mean"):
        operands["x"] = Operand(site.values[node.inputs[0]].reshape(-1), (True, True, True))
        operands["y"] = Operand(site.values[node].reshape(-1), KEPT)
    tree = _slope(operation, count)
    return map_calls(site.gpu, space, operands, [Result(tree, target.accumulate)], [out])


def _slope(operation: str, count: int) -> Any:
    """The gradient over the incoming one ``g``, the value ``y`` and the input ``x``."""
    g, x, y = symbol("g"), symbol("x"), symbol("y")
    if operation == "Sum":
        return g
    if operation == "Mean":
        return g / float(count)
    if operation == "LogSum":
        return g * _M.exp(x - y)
    if operation in ("Max", "Min"):
        return _M.where(_M.equal(x, y), g, 0.0)
    if operation == "Prod":
        floor = _M.where(_M.greater(x, 0.0), SMALLEST, -SMALLEST)
        return g * (y / _M.where(_M.less(_M.abs(x), SMALLEST), floor, x))
    return 0.0  # a place has no slope


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
