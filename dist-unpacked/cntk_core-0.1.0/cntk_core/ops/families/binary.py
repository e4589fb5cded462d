"""Element-wise ops of two and three inputs, with broadcasting: arithmetic, comparisons, choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from cntk_core.ops.language.define import elementwise_op
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.traits import BY_ELEMENTS, Traits


def power(m: Any, base: Any, exponent: Any) -> Any:
    """Power as CNTK computes it: anything to the 0 is 1, and 0 to anything else is 0."""
    of_zero = m.where(m.equal(exponent, 0.0), 1.0, 0.0)
    return m.where(m.equal(base, 0.0), of_zero, m.power(base, exponent))


def _binary(
    name: str,
    doc: str,
    forward: Callable[[Any, Any, Any], Any],
    gradient: Callable[..., Sequence[Any]] | None,
    traits: Traits = BY_ELEMENTS,
    **aliases: tuple[str, ...],
) -> Op:
    """Make an op without attributes from ``forward(m, a, b)`` and ``gradient(m, g, y, a, b)``."""
    back = None if gradient is None else (lambda m, attributes, g, y, a, b: gradient(m, g, y, a, b))
    decorate = elementwise_op(name, gradient=back, aliases=aliases, traits=traits, doc=doc)
    return decorate(lambda m, attributes, a, b: forward(m, a, b))


_SUM = attrs.evolve(BY_ELEMENTS, sums=True)
PLUS = _binary("Plus", "a + b.", lambda m, a, b: a + b, lambda m, g, y, a, b: (g, g), _SUM)
MINUS = _binary("Minus", "a - b.", lambda m, a, b: a - b, lambda m, g, y, a, b: (g, -g))
ELEMENT_TIMES = _binary(
    "ElementTimes",
    "a * b, element by element.",
    lambda m, a, b: a * b,
    lambda m, g, y, a, b: (g * b, g * a),
    ndl=("Scale", "RowElementTimes", "ColumnElementTimes"),
    brainscript=("Scale", "RowElementTimes", "ColumnElementTimes"),
    model=("Scale", "RowElementTimes", "ColumnElementTimes"),
)
LOG_PLUS = _binary(
    "LogPlus",
    "log(exp(a) + exp(b)).",
    lambda m, a, b: m.logaddexp(a, b),
    lambda m, g, y, a, b: (g * m.sigmoid(a - b), g * m.sigmoid(b - a)),
)
POW = _binary(
    "Pow",
    "a to the power of b.",
    power,
    lambda m, g, y, a, b: (
        g * (b * power(m, a, b - 1.0)),
        m.where(m.greater(a, 0.0), g * (y * m.log(a)), 0.0),
    ),
)
LESS = _binary("Less", "1 where a < b, else 0.", lambda m, a, b: m.less(a, b), None)
LESS_EQUAL = _binary("LessEqual", "1 where a <= b, else 0.", lambda m, a, b: m.less_equal(a, b), None)
EQUAL = _binary("Equal", "1 where a = b, else 0.", lambda m, a, b: m.equal(a, b), None)
NOT_EQUAL = _binary("NotEqual", "1 where a differs from b, else 0.", lambda m, a, b: m.not_equal(a, b), None)
GREATER = _binary("Greater", "1 where a > b, else 0.", lambda m, a, b: m.greater(a, b), None)
GREATER_EQUAL = _binary("GreaterEqual", "1 where a >= b, else 0.", lambda m, a, b: m.greater_equal(a, b), None)


@elementwise_op(
    "If",
    gradient=lambda m, attributes, g, y, condition, a, b: (
        None,
        m.where(condition, g, 0.0),
        m.where(condition, 0.0, g),
    ),
    differentiable=(False, True, True),
)
def IF(m: Any, attributes: Any, condition: Any, a: Any, b: Any) -> Any:
    """The second input where the first is not 0, else the third."""
    return m.where(condition, a, b)


OPS = (
    PLUS,
    MINUS,
    ELEMENT_TIMES,
    LOG_PLUS,
    POW,
    LESS,
    LESS_EQUAL,
    EQUAL,
    NOT_EQUAL,
    GREATER,
    GREATER_EQUAL,
    IF,
)
