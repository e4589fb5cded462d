"""Kinds of objects that the language itself makes: ``new StringFunction [...]`` and the like.

Rules of the original: docs/original-rules.md#brainscript-objects.

The library wraps them into functions such as ``Format`` and ``Length``. Where ``args`` holds two values of which one
may be an array, it has to be written ``[| a ; b |]``: ``a : b`` would join them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cntk_builder_brainscript.infix import CHARACTERS_PER_STEP, MAX_TEXT
from cntk_builder_brainscript.values import FREE_DIMENSION, Array, BoolVector, Record, TensorShape, number_text
from cntk_core.api import BuildError, did_you_mean

if TYPE_CHECKING:
    from cntk_builder_brainscript.evaluate import Evaluator

_FORMAT = re.compile(r"(?P<flags>[-+ 0#]*)(?P<width>\d{0,3})(?P<precision>\.\d{0,3})?(?P<type>[diouxXeEfFgGcs]?)")
_MAX_NESTING = 50


def string_function(machine: Evaluator, arguments: Record) -> object:
    """``what`` is Format (arg, how), Chr (arg), Substr (arg, pos, chars) or Replace (arg, replacewhat, withwhat)."""
    text = _string_function(machine, arguments, arguments.text("what"))
    machine.spend(len(text) // CHARACTERS_PER_STEP)
    return text


def _string_function(machine: Evaluator, arguments: Record, what: str) -> str:
    match what:
        case "Format":
            how = arguments.text("how")
            form = _FORMAT.fullmatch(how)
            if form is None:
                hint = "A format is what stands between % and the end of a printf format, such as '.2' or '05d'."
                raise BuildError(f"'{how[:40]}' is not a format", where=arguments.where_of("how"), hint=hint)
            try:
                return format_value(machine, arguments.get("arg"), form)
            except _Unprintable as error:
                raise BuildError(str(error), where=arguments.where_of("arg")) from None
        case "Chr":
            code = arguments.integer("arg")
            if not 0 <= code < 0x110000:
                raise arguments.wrong("arg", "the number of a character", float(code))
            return chr(code)
        case "Substr":
            return _part(arguments.text("arg"), arguments.integer("pos"), arguments.integer("chars"))
        case "Replace":
            return _replaced(arguments)
        case _:
            raise _unknown(arguments, what, ("Format", "Chr", "Substr", "Replace"))


def _part(text: str, begin: int, count: int) -> str:
    begin = min(max(begin + len(text), 0) if begin < 0 else begin, len(text))
    return text[begin:] if count < 0 else text[begin : begin + count]


def _replaced(arguments: Record) -> str:
    text, old, new = arguments.text("arg"), arguments.text("replacewhat"), arguments.text("withwhat")
    if not old:
        return text
    if len(text) + text.count(old) * (len(new) - len(old)) > MAX_TEXT:
        raise BuildError(f"this text has more than {MAX_TEXT} characters", where=arguments.where_of("withwhat"))
    return text.replace(old, new)


def numeric_function(machine: Evaluator, arguments: Record) -> object:
    """``what`` is Floor or Length of ``arg``, Mod or IntDiv of the two ``args``, as in C."""
    what = arguments.text("what")
    if what == "Floor":
        number = arguments.number("arg")
        return float(math.floor(number)) if math.isfinite(number) else number
    if what == "Length":
        value = arguments.get("arg")
        if type(value) is Array:
            return float(value.size())
        if type(value) is str:
            return float(len(value))
        raise arguments.wrong("arg", "a text or an array", value)
    if what not in ("Mod", "IntDiv"):
        raise _unknown(arguments, what, ("Floor", "Length", "Mod", "IntDiv"))
    first, second = _two(arguments, what)
    for value in (first, second):
        if type(value) is not float or not value.is_integer():
            raise arguments.wrong("args", "two whole numbers", value)
    assert isinstance(first, float)
    assert isinstance(second, float)
    if second == 0:
        raise BuildError(f"{what} by zero", where=arguments.where_of("args"))
    return math.fmod(first, second) if what == "Mod" else float(math.trunc(first / second))


def compare_function(machine: Evaluator, arguments: Record) -> object:
    """``what`` is IsSameObject of the two ``args``, or IsArray, IsDouble or IsBool of ``args``."""
    what = arguments.text("what")
    match what:
        case "IsSameObject":
            first, second = _two(arguments, what)
            return first is second
        case "IsArray":
            return type(arguments.get("args")) is Array
        case "IsDouble":
            return type(arguments.get("args")) is float
        case "IsBool":
            return type(arguments.get("args")) is bool
        case _:
            raise _unknown(arguments, what, ("IsSameObject", "IsArray", "IsDouble", "IsBool"))


def _two(arguments: Record, what: str) -> list[object]:
    args = arguments.get("args")
    if type(args) is not Array or args.size() != 2:
        raise BuildError(f"{what} needs an array of two arguments", where=arguments.where_of("args"))
    return args.values()


def _unknown(arguments: Record, what: str, known: tuple[str, ...]) -> BuildError:
    hint = f"Accepted: {', '.join(known)}."
    return BuildError(
        f"'what' cannot be '{what[:40]}'{did_you_mean(what, known)}", where=arguments.where_of("what"), hint=hint
    )


def print_action(machine: Evaluator, arguments: Record) -> object:
    """Print ``what``; the value is ``what``, too."""
    value = arguments.get("what")
    machine.runtime.say(show(machine, value))
    return value


def fail_action(machine: Evaluator, arguments: Record) -> object:
    """Stop with the message ``what``."""
    raise BuildError(show(machine, arguments.get("what")), where=arguments.where_of("what"))


def debug(machine: Evaluator, arguments: Record) -> object:
    """Print ``say`` and ``value`` if ``enabled``; the value is ``value``."""
    value = arguments.get("value")
    if arguments.boolean("enabled"):
        say = arguments.text("say")
        if say:
            machine.runtime.say(say)
        machine.runtime.say(show(machine, value))
    return value


def tensor_shape(machine: Evaluator, arguments: Record) -> object:
    """Dimensions ``dims``, a number or an array; of inputs, -3 is a free one."""
    dims = arguments.integers("dims")
    for dim in dims:
        if dim < 0 and dim != FREE_DIMENSION:
            raise arguments.wrong("dims", "dimensions", float(dim))
    return TensorShape(dims)


def bool_vector(machine: Evaluator, arguments: Record) -> object:
    """Truth values ``items``, one or an array."""
    return BoolVector(arguments.booleans("items"))


KINDS: Mapping[str, Callable[[Evaluator, Record], object]] = {
    "StringFunction": string_function,
    "NumericFunction": numeric_function,
    "CompareFunction": compare_function,
    "PrintAction": print_action,
    "FailAction": fail_action,
    "Debug": debug,
    "TensorShape": tensor_shape,
    "BoolVector": bool_vector,
}
"""Kind to function; each gets the record of arguments."""


class _Unprintable(Exception):
    """A value and a format do not fit."""


def show(machine: Evaluator, value: object) -> str:
    """Return a text as it is, anything else as ``Print`` shows it."""
    return value if type(value) is str else format_value(machine, value, _ANY)


_PLAIN = _FORMAT.fullmatch("")
assert _PLAIN is not None
_ANY: re.Match[str] = _PLAIN


def format_value(machine: Evaluator, value: object, form: re.Match[str]) -> str:
    """Return a value as text: whole numbers as ``%d``, others as ``%f``, arrays and records an element per line."""
    return _Formatter(machine, form).text(value)


class _Formatter:
    """Formats nested values up to a depth and a length."""

    def __init__(self, machine: Evaluator, form: re.Match[str]) -> None:
        self.machine = machine
        self.form = form
        self.left = MAX_TEXT
        self.depth = 0

    def text(self, value: object) -> str:
        if self.depth > _MAX_NESTING or self.left < 0:
            return "..."
        self.depth += 1
        text = self._text(value)
        self.depth -= 1
        self.left -= len(text)
        return text

    def _text(self, value: object) -> str:
        kind = type(value)
        if kind is float:
            assert isinstance(value, float)
            return self._number(value)
        if kind is str:
            if self.form["type"] not in ("", "s"):
                raise _Unprintable(f"a text cannot be written as '{self.form['type']}'")
            return f"%{self._layout()}s" % value
        if kind is bool:
            return "true" if value else "false"
        if isinstance(value, Record):
            lines = [f"{name} = {self.text(value.own(name))}" for name in value.names()]
            return "[\n" + _indented("\n".join(lines)) + "\n]"
        if isinstance(value, Array):
            return "(" + _indented("\n".join(map(self.text, value.values())))[1:] + " )"
        if isinstance(value, TensorShape):
            return " x ".join(map(str, value.dims))
        return self.machine.describe(value)

    def _layout(self) -> str:
        return self.form["flags"] + self.form["width"] + (self.form["precision"] or "")

    def _number(self, value: float) -> str:
        how = self.form["type"] or ("d" if value.is_integer() else "f")
        if how == "s":
            return f"%{self._layout()}s" % number_text(value)
        if how in "eEfFgG" or not math.isfinite(value):
            return f"%{self._layout()}{how if how in 'eEfFgG' else 'f'}" % value
        if how == "c" and not 0 <= value < 0x110000:
            raise _Unprintable(f"{number_text(value)} is not the number of a character")
        return f"%{self._layout()}{how}" % int(value)


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))
