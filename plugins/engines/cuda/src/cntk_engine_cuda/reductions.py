"""Sums of values by generated kernels: criteria that are sums, and reductions over an axis or a sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from cntk_core.api import Kernel, Node
from cntk_core.api.engines import Expr, GradientStep, Step, TraceMath, elements_of, kernels, symbol
from cntk_engine_cuda.elementwise import Operand, Space, map_calls, sum_calls
from cntk_engine_cuda.gpu import Array, Call
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.source import TOTAL, Result, Tree

_M = TraceMath()

SMALLEST = 1e-30


@attrs.frozen
class Total:
    """A criterion that is a sum over one input ``x``.

    Attributes:
        value: what is summed.
        slope: the gradient, over ``x``, the incoming gradient ``g`` and, with ``finish``, the value ``y``.
        finish: what is done with the sum.
    """

    value: Tree
    slope: Tree
    finish: Tree | None = None


_X, _Y, _G = symbol("x"), symbol("y"), symbol("g")
SUM = Total(_X, _G)
ABSOLUTE = Total(_M.abs(_X), _G * _M.sign(_X))
ROOT = Total(_X * _X, _G / (_Y + SMALLEST) * _X, _M.sqrt(symbol(TOTAL)))


def _flat(array: Array) -> tuple[Space, Array]:
    return Space((array.size,), known=False), array.reshape(-1)


def bind_total(total: Total, site: Site, step: Step) -> list[Call] | None:
    """Return the calls of a criterion that is a sum over one input; None if nothing can be summed."""
    (node,) = step.nodes
    value = site.values.get(node.inputs[0])
    if value is None or not value.size:
        return None
    space, flat = _flat(value)
    result = Result(total.value, finish=total.finish)
    return sum_calls(
        site.gpu, space, {"x": Operand(flat, (True,))}, [result], [site.values[node]], (False,), site.workspace
    )


def bind_total_gradient(total: Total, site: Site, step: GradientStep) -> list[Call]:
    """Return the calls of its gradient."""
    (node,) = step.step.nodes
    (target,) = step.targets
    space, out = _flat(site.gradients[target.node])
    operands = {"g": Operand(site.gradients[node], (False,))}
    if total is not SUM:
        operands["x"] = Operand(site.values[node.inputs[0]].reshape(-1), (True,))
    if total.finish is not None:
        operands["y"] = Operand(site.values[node], (False,))
    return map_calls(site.gpu, space, operands, [Result(total.slope, target.accumulate)], [out])


# -- reductions over an axis or a sample --------------------------------------------------------------------


Reduction = tuple[int, str]
"""The axis, 0 for whole samples, and the operation."""


def _of_attributes(node: Node) -> Reduction:
    return node.attributes.axis, str(node.attributes.operation)


def _sum_of_sample(node: Node) -> Reduction:
    return 0, "Sum"


def _axes(site: Site, node: Node, axis: int) -> tuple[Space, int] | None:
    """The input as ``(outer, reduced, inner)``, and how many elements are reduced to one."""
    (data,) = node.inputs
    shape = data.known_shape
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


def bind_reduction(read: Callable[[Node], Reduction], site: Site, step: Step) -> list[Call] | None:
    """Return the calls of a reduction over an axis or over samples; None for those that look for places."""
    (node,) = step.nodes
    axis, operation = read(node)
    found = _axes(site, node, axis)
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


def bind_reduction_gradient(read: Callable[[Node], Reduction], site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of its gradient."""
    (node,) = step.step.nodes
    axis, operation = read(node)
    found = _axes(site, node, axis)
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


def _total(name: str, total: Total) -> tuple[Kernel, ...]:
    return kernels("cuda", [name], partial(bind_total, total), partial(bind_total_gradient, total))


def _reduction(name: str, read: Callable[[Node], Reduction]) -> tuple[Kernel, ...]:
    return kernels("cuda", [name], partial(bind_reduction, read), partial(bind_reduction_gradient, read))


KERNELS = (
    *_total("SumElements", SUM),
    *_total("MatrixL1Reg", ABSOLUTE),
    *_total("MatrixL2Reg", ROOT),
    *_reduction("ReduceElements", _of_attributes),
    *_reduction("SumColumnElements", _sum_of_sample),
    *kernels("cuda", ["LegacyReshape", "Reshape"], bind_reshape, bind_reshape_gradient),
)
