"""Criteria that compare two values element by element: SquareError, CrossEntropy, Logistic."""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs

from cntk_core.api import Kernel, Node
from cntk_core.api.engines import SMALLEST_DIVISOR, Expr, GradientStep, Step, TraceMath, clipped_log, kernels, symbol
from cntk_engine_cuda.elementwise import Operand, Space, map_calls, sum_calls
from cntk_engine_cuda.gpu import Call
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.source import Result

_M = TraceMath()


@attrs.frozen
class Pair:
    """A criterion over its inputs ``a`` and ``b``.

    Attributes:
        value: what is summed.
        slopes: its derivatives by both; None for an input that never gets a gradient.
    """

    value: Expr
    slopes: tuple[Expr | None, Expr]


def _guarded(divisor: Any) -> Any:
    """Moved away from 0, as CNTK does."""
    floor = _M.where(_M.greater(divisor, 0.0), SMALLEST_DIVISOR, -SMALLEST_DIVISOR)
    return _M.where(_M.less(_M.abs(divisor), SMALLEST_DIVISOR), floor, divisor)


A, B = symbol("a"), symbol("b")
_LOGARITHM = clipped_log(_M, B)
_CORRECT = 2.0 * A * B + 1.0 - A - B  # the probability of what the label says

SQUARE_ERROR = Pair((A - B) * (A - B), (2.0 * (A - B), -(2.0 * (A - B))))
CROSS_ENTROPY = Pair(-(A * _LOGARITHM), (-_LOGARITHM, -(A / _guarded(B))))
LOGISTIC = Pair(-clipped_log(_M, _CORRECT), (None, -((2.0 * A - 1.0) / _guarded(_CORRECT))))


def _operands(site: Site, node: Node) -> tuple[Space, dict[str, Operand]] | None:
    """Both inputs as flat arrays of the same size; None for others."""
    if len(node.inputs) != 2 or node.inputs[0] is node.inputs[1] or any(each in site.sparse for each in node.inputs):
        return None
    left, right = node.inputs
    arrays = site.values[left], site.values[right]
    if bool(left.framed) != bool(right.framed) or not arrays[0].size or arrays[0].size != arrays[1].size:
        return None
    operands = {name: Operand(array.reshape(-1), (True,)) for name, array in zip("ab", arrays, strict=True)}
    return Space((arrays[0].size,), known=False), operands


def bind_forward(pair: Pair, site: Site, step: Step) -> list[Call] | None:
    """Return the calls of such a criterion; None for inputs of different kinds."""
    (node,) = step.nodes
    found = _operands(site, node)
    if found is None:
        return None
    space, operands = found
    result = Result(pair.value)
    return sum_calls(site.gpu, space, operands, [result], [site.values[node]], (False,), site.workspace)


def bind_gradient(pair: Pair, site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of its gradients."""
    (node,) = step.step.nodes
    found = _operands(site, node)
    if found is None:
        return None
    space, operands = found
    operands["g"] = Operand(site.gradients[node], (False,))
    results, outputs = [], []
    for target in step.targets:
        slope = pair.slopes[node.inputs.index(target.node)]
        if slope is None:
            return None
        results.append(Result(symbol("g") * slope, target.accumulate))
        outputs.append(site.gradients[target.node].reshape(-1))
    return map_calls(site.gpu, space, operands, results, outputs)


def _kernels(name: str, pair: Pair) -> tuple[Kernel, ...]:
    return kernels("cuda", [name], partial(bind_forward, pair), partial(bind_gradient, pair))


KERNELS = (
    *_kernels("SquareError", SQUARE_ERROR),
    *_kernels("CrossEntropy", CROSS_ENTROPY),
    *_kernels("Logistic", LOGISTIC),
)
