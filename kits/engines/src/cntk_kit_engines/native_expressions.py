"""Lines of a native function for the expressions of Python's text."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cntk_kit_engines.native_numbers import INTRINSICS, LIBRARY, Lines
from cntk_kit_engines.native_types import (
    NAMES,
    SIZES,
    NotNative,
    Number,
    Several,
    Value,
    View,
    common_type,
    is_float,
    literal,
)

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_CONSTANTS = {"inf": math.inf, "nan": math.nan, "pi": math.pi}


class Others(Protocol):
    """What an expression may name beside its function's variables."""

    def constant(self, name: str) -> Any:
        """A number, or the name of a type, None if there is no such constant."""

    def call(self, name: str, arguments: Sequence[Value]) -> tuple[str, str] | None:
        """Symbol and result type of a function for such arguments, None if there is no such function."""


class Expressions(Lines):
    """Writes expressions.

    Args:
        others: constants and functions that they may name.
    """

    def __init__(self, others: Others) -> None:
        super().__init__()
        self.others = others

    def variable(self, name: str) -> Value | None:
        """The value of a variable, None if there is none of the name."""
        raise NotImplementedError

    def block(self, name: str) -> str:
        """A name for a block of lines that nothing else has."""
        return f"{name}{self.register()[2:]}"

    def begin(self, block: str) -> None:
        """Begin a block."""
        self.lines.append(f"{block}:")

    # Values

    def value(self, node: ast.expr) -> Value:
        """Write an expression."""
        writers: dict[type, Callable[[Any], Value]] = {
            ast.Constant: lambda node: literal(node.value),
            ast.Name: self._name,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.Compare: self._compare,
            ast.BoolOp: self._logical,
            ast.IfExp: lambda node: self._either(node.test, node.body, node.orelse),
            ast.Subscript: self._subscript,
            ast.Attribute: self._attribute,
            ast.Tuple: lambda node: Several(tuple(self._single(item) for item in node.elts)),
            ast.Call: self._call,
        }
        if type(node) not in writers:
            raise NotNative(f"{type(node).__name__} is not known")
        return writers[type(node)](node)

    def number(self, node: ast.expr) -> Number:
        """Write an expression that is a number."""
        found = self.value(node)
        if not isinstance(found, Number):
            raise NotNative("a number is needed")
        return found

    def condition(self, node: ast.expr) -> Number:
        """Write an expression that is true or false."""
        return self.cast(self.number(node), "i1")

    def _single(self, node: ast.expr) -> Number | View:
        found = self.value(node)
        if isinstance(found, Several):
            raise NotNative("several values in several")
        return found

    def _name(self, node: ast.Name) -> Value:
        found = self.variable(node.id)
        if found is not None:
            return found
        constant = self.others.constant(node.id)
        if constant is None or isinstance(constant, str):
            raise NotNative(f"there is no variable '{node.id}'")
        return literal(constant)

    def _binary(self, node: ast.BinOp) -> Number:
        left = self.number(node.left)
        return self.binary(_BINARY[type(node.op)], left, self.number(node.right))

    def _unary(self, node: ast.UnaryOp) -> Number:
        if isinstance(node.op, ast.Not):
            return self.give("i1", f"xor i1 {self.condition(node.operand).text}, true")
        number = self.number(node.operand)
        if isinstance(node.op, ast.USub):
            return self.negative(number)
        if isinstance(node.op, ast.Invert):
            return self.binary("^", number, literal(-1))
        return number

    def _compare(self, node: ast.Compare) -> Number:
        if len(node.ops) > 1:
            pairs = zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)
            parts: list[ast.expr] = [ast.Compare(left, [test], [right]) for left, test, right in pairs]
            return self._logical(ast.BoolOp(ast.And(), parts))
        left = self.number(node.left)
        return self.compare(_COMPARED[type(node.ops[0])], left, self.number(node.comparators[0]))

    def _logical(self, node: ast.BoolOp) -> Number:
        """``and`` and ``or``: what comes after is looked at only where it decides."""
        first, *others = node.values
        rest = others[0] if len(others) == 1 else ast.BoolOp(node.op, others)
        if isinstance(node.op, ast.And):
            return self.condition_of(first, rest, ast.Constant(value=False))
        return self.condition_of(first, ast.Constant(value=True), rest)

    def condition_of(self, test: ast.expr, one: ast.expr, other: ast.expr) -> Number:
        """A choice between two conditions."""
        found = self._either(test, one, other, type_="i1")
        assert isinstance(found, Number)
        return found

    def _either(self, test: ast.expr, one: ast.expr, other: ast.expr, *, type_: str = "") -> Value:
        """One of two values. What might fail where the condition does not hold is computed only where it does."""
        condition = self.condition(test)
        if self._is_safe(one) and self._is_safe(other):
            left, right = self.number(one), self.number(other)
            if type_:
                left, right = self.cast(left, type_), self.cast(right, type_)
            return self.choose(condition, left, right)
        blocks = self.block("then"), self.block("else"), self.block("join")
        self.add(f"br i1 {condition.text}, label %{blocks[0]}, label %{blocks[1]}")
        found: list[tuple[Number, str, int]] = []
        for begin, node in zip(blocks, (one, other), strict=False):
            self.begin(begin)
            number = self.number(node)
            end = self.block("end")
            self.add(f"br label %{end}")
            self.begin(end)
            found.append((number, end, len(self.lines)))
            self.lines.append("")  # the conversion, once both types are known
            self.add(f"br label %{blocks[2]}")
        result = type_ or common_type(found[0][0].type, found[1][0].type)
        ends = []
        for number, end, place in found:
            kept, self.lines = self.lines, []
            cast = self.cast(number, result)
            kept[place], self.lines = "\n".join(self.lines), kept
            ends.append(f"[{cast.text}, %{end}]")
        self.begin(blocks[2])
        return self.give(result, f"phi {result} {', '.join(ends)}")

    def _is_safe(self, node: ast.expr) -> bool:
        """Whether an expression can be computed although its value is not wanted: it reads no array, calls nothing."""
        for part in ast.walk(node):
            if isinstance(part, ast.Subscript) or (isinstance(part, ast.BinOp) and _can_trap(part.op)):
                return False
            if isinstance(part, ast.Call) and self._type_or_none(part.func) is None:
                return False
        return True

    # Arrays

    def place(self, node: ast.Subscript) -> tuple[str, str]:
        """Type and address of an element of an array."""
        array = self.value(node.value)
        if not isinstance(array, View):
            raise NotNative("only arrays have elements")
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(indices) != len(array.sizes):
            raise NotNative(f"{len(indices)} indices of an array of {len(array.sizes)} axes")
        return array.item, self._address(array, [self.cast(self.number(index), "i64") for index in indices])

    def _address(self, array: View, indices: Sequence[Number]) -> str:
        """Address of an element, or of the first of the part that some first indices name."""
        offset: Number | None = None
        for axis, size in enumerate(array.sizes):
            if offset is not None:
                offset = self.binary("*", offset, Number("i64", size))
            if axis < len(indices):
                offset = indices[axis] if offset is None else self.binary("+", offset, indices[axis])
        assert offset is not None
        item = "i8" if array.item == "i1" else array.item
        return self.give("ptr", f"getelementptr inbounds {item}, ptr {array.pointer}, i64 {offset.text}").text

    def _subscript(self, node: ast.Subscript) -> Value:
        found = self.value(node.value)
        if isinstance(found, Several):
            if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, int):
                raise NotNative("which of several values must be said by a number")
            return found.values[node.slice.value]
        if not isinstance(found, View):
            raise NotNative("only arrays have elements")
        if isinstance(node.slice, ast.Slice):
            return self._slice(found, node.slice)
        if not isinstance(node.slice, ast.Tuple) and len(found.sizes) > 1:
            index = self.cast(self.number(node.slice), "i64")
            return View(found.item, self._address(found, [index]), found.sizes[1:])
        return self.load(*self.place(node))

    def _slice(self, array: View, node: ast.Slice) -> View:
        """Some elements, or rows of a matrix, from one to before another."""
        begin = self.cast(self.number(node.lower), "i64") if node.lower is not None else literal(0)
        end = self.cast(self.number(node.upper), "i64") if node.upper is not None else Number("i64", array.sizes[0])
        return View(array.item, self._address(array, [begin]), (self.binary("-", end, begin).text, *array.sizes[1:]))

    def load(self, item: str, address: str) -> Number:
        """Read an element."""
        stored = "i8" if item == "i1" else item
        number = self.give(stored, f"load {stored}, ptr {address}, align {SIZES[item]}")
        return self.cast(number, "i1") if item == "i1" else number

    def store(self, item: str, address: str, number: Number) -> None:
        """Write an element."""
        number = self.cast(number, item)
        if item == "i1":
            item, number = "i8", self.cast(number, "i8")
        self.add(f"store {item} {number.text}, ptr {address}, align {SIZES[item]}")

    def _attribute(self, node: ast.Attribute) -> Value:
        if isinstance(node.value, ast.Name) and node.value.id in ("np", "math"):
            if node.attr in _CONSTANTS:
                return literal(_CONSTANTS[node.attr])
            raise NotNative(f"there is no '{node.value.id}.{node.attr}'")
        found = self.value(node.value)
        if node.attr == "shape" and isinstance(found, View):
            return Several(tuple(Number("i64", size) for size in found.sizes))
        raise NotNative(f"there is no attribute '{node.attr}'")

    # Calls

    def _call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "view":
            return self.view(self.number(node.func.value), self._type(node.args[0]))
        if isinstance(node.func, ast.Name) and node.func.id == "foreign":
            return self._foreign(*node.args)
        arguments = [self._single(argument) for argument in node.args]
        numbers = [argument for argument in arguments if isinstance(argument, Number)]
        type_ = self._type_or_none(node.func)
        if type_ is not None:
            return self.cast(numbers[0], type_)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if name == "len" and isinstance(arguments[0], View):
            return Number("i64", arguments[0].sizes[0])
        if name == "abs":
            return self._absolute(numbers[0])
        if name in ("min", "max"):
            return self.extreme("<" if name == "min" else ">", numbers)
        own = (
            None
            if isinstance(node.func, ast.Attribute) and name in {*INTRINSICS, *LIBRARY}
            else self.others.call(name, arguments)
        )
        if own is not None:
            return self._own_call(*own, arguments)
        if name in INTRINSICS or name in LIBRARY:
            return self.function(name, numbers)
        raise NotNative(f"there is no function '{name}'")

    def _own_call(self, symbol: str, result: str, arguments: Sequence[Value]) -> Value:
        given = ", ".join(text for argument in arguments for text in passed(argument))
        if result == "void":
            self.add(f"call void {symbol}({given})")
            return Several(())
        number = self.give(result, f"call {result} {symbol}({given})")
        if not result.startswith("{"):
            return number
        parts = result.strip("{} ").split(", ")
        whole = f"extractvalue {result} {number.text}"
        return Several(tuple(self.give(part, f"{whole}, {place}") for place, part in enumerate(parts)))

    def _absolute(self, number: Number) -> Number:
        if is_float(number.type):
            return self.function("fabs", [number])
        return self.extreme(">", [number, self.negative(number)])

    def _foreign(self, address: ast.expr, signature: ast.expr, *arguments: ast.expr) -> Value:
        """``foreign(address, "i32(i8, i64, ptr)", ...)``: C's function at an address; arrays are given as pointers."""
        if not isinstance(signature, ast.Constant) or not isinstance(signature.value, str):
            raise NotNative("the signature of a foreign function must be a text")
        found = re.fullmatch(r"(\w+)\((.*)\)", signature.value)
        if found is None:
            raise NotNative(f"'{signature.value}' is no signature")
        given = []
        types = found[2].split(", ") if found[2] else []
        for type_, node in zip(types, arguments, strict=True):
            value = self.value(node)
            if type_ == "ptr" and isinstance(value, View):
                given.append(f"ptr {value.pointer}")
            elif isinstance(value, Number) and type_ == "ptr":
                given.append(f"ptr {self._pointer(value)}")
            elif isinstance(value, Number):
                given.append(f"{type_} {self.cast(value, type_).text}")
            else:
                raise NotNative("arrays are given as pointers")
        called = f"call {found[1]} {self._pointer(self.number(address))}({', '.join(given)})"
        if found[1] == "void":
            self.add(called)
            return Several(())
        return self.give(found[1], called)

    def _pointer(self, address: Number) -> str:
        return self.give("ptr", f"inttoptr i64 {self.cast(address, 'i64').text} to ptr").text

    def _type(self, node: ast.expr) -> str:
        found = self._type_or_none(node)
        if found is None:
            raise NotNative(f"'{ast.unparse(node)}' is no type")
        return found

    def _type_or_none(self, node: ast.expr) -> str | None:
        """The type that an expression names: ``np.float32``, a constant that is it, ``type(x)``."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np":
            return NAMES.get(node.attr)
        if isinstance(node, ast.Name):
            if node.id in ("int", "float", "bool"):
                return {"int": "i64", "float": "double", "bool": "i1"}[node.id]
            constant = self.others.constant(node.id)
            return constant if isinstance(constant, str) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type":
            return self.number(node.args[0]).type
        return None


def passed(value: Value) -> list[str]:
    """A value as arguments of a call."""
    if isinstance(value, Number):
        return [f"{value.type} {value.text}"]
    if isinstance(value, View):
        return [f"ptr {value.pointer}", *(f"i64 {size}" for size in value.sizes)]
    raise NotNative("several values cannot be passed as one")


def _can_trap(operation: ast.operator) -> bool:
    return isinstance(operation, ast.FloorDiv | ast.Mod)
