"""Operators: what each of them means for which kinds of values (docs/original-rules.md#brainscript-operators)."""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from cntk_builder_brainscript.syntax import Infix, Unary
from cntk_builder_brainscript.trace import failure
from cntk_builder_brainscript.values import Array, Lambda, Path, RecipeObject, Record, Thunk, number_text
from cntk_core.api import BuildError

if TYPE_CHECKING:
    from cntk_builder_brainscript.evaluate import Evaluator

WORDS: Mapping[str, str] = {
    "with": "With",
    "*": "Times",
    "/": "Div",
    ".*": "ElementTimes",
    "**": "Pow",
    "%": "Mod",
    "+": "Plus",
    "-": "Minus",
    "<": "LT",
    "==": "Equal",
    ">": "GT",
    ">=": "GT",
    "!=": "NotEqual",
    "<=": "LE",
    "&&": "And",
    "||": "Or",
    ">>": "Before",
    "<<": "Shift",
}
"""The word that an operator adds to the paths of its operands: ``z.PlusArgs[0]``."""

SEGMENTS: Mapping[str, tuple[str, str]] = {key: (f"{word}Args[0]", f"{word}Args[1]") for key, word in WORDS.items()}

MAX_TEXT = 1_000_000
"""Characters of a text, at most: a few doublings would fill any memory."""


CHARACTERS_PER_STEP = 10
"""A new text counts as this many evaluations, so that the limit on steps bounds memory, too."""


def _divide(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def _remainder(a: float, b: float) -> float:
    return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)


def _power(a: float, b: float) -> float:
    # As C's pow, which knows no exceptions.
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and math.fmod(b, 2) in (1, -1) else math.inf
    except ValueError:
        if a == 0:
            return math.copysign(math.inf, a) if math.fmod(b, 2) in (1, -1) else math.inf
        return math.nan


Compute = Callable[[float, float], float]
Compare = Callable[[Any, Any], bool]

_NUMBERS: Mapping[str, Compute] = {
    "+": python.add,
    "-": python.sub,
    "*": python.mul,
    "/": _divide,
    "%": _remainder,
    "**": _power,
}
_COMPARISONS: Mapping[str, Compare] = {
    "<": python.lt,
    "<=": python.le,
    "==": python.eq,
    "!=": python.ne,
    ">": python.gt,
    ">=": python.ge,
}
_NODE_OPERATORS = frozenset({"*", "/", ".*", "**", "+", "-", "&&", "||", *_COMPARISONS})


def infix(machine: Evaluator, e: Infix, scope: Record | None, path: Path) -> object:
    """Evaluate an infix expression; ``&&`` and ``||`` leave the right side alone when the left one decides."""
    operator = e.operator
    first, second = SEGMENTS[operator]
    left = machine.evaluate(e.left, scope, (path, first))
    if type(left) is bool and ((operator == "&&" and not left) or (operator == "||" and left)):
        return left
    right = machine.evaluate(e.right, scope, (path, second))
    if type(left) is float and type(right) is float:
        compute = _NUMBERS.get(operator)
        if compute is not None:
            return compute(left, right)
    kind = type(left)
    if kind is type(right) and kind in (float, str, bool) and operator in _COMPARISONS:
        return _COMPARISONS[operator](left, right)
    if kind is bool and type(right) is bool and operator in ("&&", "||"):
        return right
    if operator == "+" and (kind is str or type(right) is str):
        joined = _joined_texts(left, right)
        if joined is not None:
            return _checked(machine, joined, e, scope)
    if operator in _NODE_OPERATORS and (machine.runtime.is_node(left) or machine.runtime.is_node(right)):
        return machine.operate(operator, [left, right], e, scope, path)
    return _other(machine, e, left, right, scope, path)


def _joined_texts(left: object, right: object) -> str | None:
    parts = [number_text(side) if type(side) is float else side for side in (left, right)]
    return "".join(parts) if all(type(part) is str for part in parts) else None  # type: ignore[arg-type]


def _checked(machine: Evaluator, text: str, e: Infix, scope: Record | None) -> str:
    if len(text) > MAX_TEXT:
        raise failure(f"this text has more than {MAX_TEXT} characters", e, scope)
    machine.spend(len(text) // CHARACTERS_PER_STEP, e, scope)
    return text


def _other(machine: Evaluator, e: Infix, left: object, right: object, scope: Record | None, path: Path) -> object:
    if e.operator == ">>" and type(right) is Lambda:
        return before(machine, e, left, right, scope, path)
    if e.operator == "<<" and type(left) is Array and type(right) is float:
        return _shifted(e, left, right, scope)
    if e.operator == "with" and type(left) is Record and type(right) is Record:
        return override(machine, left, right, path)
    if e.operator == "with" and isinstance(left, RecipeObject) and type(right) is Record:
        return attrs.evolve(left, arguments=override(machine, left.arguments, right, path))
    raise does_not_fit(machine, e, left, right, scope)


def does_not_fit(
    machine: Evaluator, e: Infix, left: object, right: object, scope: Record | None, hint: str | None = None
) -> BuildError:
    """Return the error for an operator whose operands are of the wrong kinds."""
    kinds = f"{machine.describe(left)} and {machine.describe(right)}"
    return failure(f"'{e.operator}' cannot be applied to {kinds}", e, scope, hint)


def before(machine: Evaluator, e: Infix, left: object, right: Lambda, scope: Record | None, path: Path) -> object:
    """Return ``F >> G``, the function that applies F, then G; or, if ``left`` is no function, ``G (left)``."""
    if type(left) is not Lambda:
        return machine.apply(right, [left], {}, path, e, scope)
    first = left

    def both(arguments: list[object], named: dict[str, object], path: Path) -> object:
        between = machine.apply(first, arguments, named, (path, "arg"), e, scope)
        return machine.apply(right, [between], {}, path, e, scope)

    name = f"{first.name or 'a function'} >> {right.name or 'a function'}"
    return Lambda(first.parameters, first.optional, name=name if len(name) < 60 else "", native=both)


def _shifted(e: Infix, array: Array, count: float, scope: Record | None) -> Array:
    if not count.is_integer() or count < 0:
        raise failure(f"'<<' needs a whole number from 0 on, not {number_text(count)}", e.right, scope)
    return array.without(int(count))


def override(machine: Evaluator, left: Record, right: Record, path: Path) -> Record:
    """Return ``left with right``: the members of ``left``, where all that use an overridden member see the new one.

    Members of ``right`` are evaluated where they are written, at most once. ``left`` itself stays as it is.
    """
    members: dict[str, object] = {}
    kept = {name: text for name, text in left.texts.items() if name not in right.members}
    texts = {**kept, **right.texts}
    record = Record(members, left.parent, literal=left.literal, path=path, call=left.call, texts=texts)
    defined = left.literal.members if left.literal is not None else {}
    for name, value in left.members.items():
        if name in right.members:
            members[name] = right.members[name]
        elif type(value) is Thunk and name in defined and defined[name].value is value.expression:
            members[name] = Thunk(machine, value.expression, record, (path, name))
        else:
            members[name] = value
    for name, value in right.members.items():
        members.setdefault(name, value)
    return record


def unary(machine: Evaluator, e: Unary, scope: Record | None, path: Path) -> object:
    """Evaluate ``+x``, ``-x`` or ``!x``."""
    segment = {"+": None, "-": "_negate", "!": "_not"}[e.operator]
    value = machine.evaluate(e.operand, scope, path if segment is None else (path, segment))
    if type(value) is float and e.operator != "!":
        return -value if e.operator == "-" else value
    if type(value) is bool and e.operator == "!":
        return not value
    if machine.runtime.is_node(value):
        return value if e.operator == "+" else machine.operate(e.operator, [value], e, scope, path)
    raise failure(f"'{e.operator}' cannot be applied to {machine.describe(value)}", e, scope)
