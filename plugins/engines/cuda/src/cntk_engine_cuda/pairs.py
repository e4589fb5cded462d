"""Criteria that compare two values element by element: SquareError, CrossEntropy, Logistic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from cntk_core.api import Node
from cntk_core.api.engines import SMALLEST_DIVISOR, Expr, GradientStep, Step, TraceMath, clipped_log, symbol
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


def _pairs() -> Mapping[str, Pair]:
    a, b = symbol("a"), symbol("b")
    away = a - b
    logarithm = clipped_log(_M, b)
    correct = 2.0 * a * b + 1.0 - a - b  # the probability of what the label says
    return {
        "SquareError": Pair(away * away, (2.0 * away, -(2.0 * away))),
        "CrossEntropy": Pair(-(a * logarithm), (-logarithm, -(a / _guarded(b)))),
        "Logistic": Pair(-clipped_log(_M, correct), (None, -((2.0 * a - 1.0) / _guarded(correct)))),
    }


PAIRS = _pairs()


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


def bind_forward(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of such a criterion; None for inputs of different kinds."""
    (node,) = step.nodes
    found = _operands(site, node)
    if found is None:
        return None
    space, operands = found
    result = Result(PAIRS[node.op.name].value)
    return sum_calls(site.gpu, space, operands, [result], [site.values[node]], (False,), site.workspace)


def bind_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of its gradients."""
    (node,) = step.step.nodes
    found = _operands(site, node)
    if found is None:
        return None
    space, operands = found
    operands["g"] = Operand(site.gradients[node], (False,))
    results, outputs = [], []
    for target in step.targets:
        slope = PAIRS[node.op.name].slopes[node.inputs.index(target.node)]
        if slope is None:
            return None
        results.append(Result(symbol("g") * slope, target.accumulate))
        outputs.append(site.gradients[target.node].reshape(-1))
    return map_calls(site.gpu, space, operands, results, outputs)
