"""Lines of a native function for conversions, arithmetic and the functions of mathematics."""

from __future__ import annotations

from collections.abc import Iterable

from cntk_kit_engines.native_types import FAST, SIZES, NotNative, Number, common_type, is_float, literal

INTRINSICS = {"exp": 1, "log": 1, "sqrt": 1, "floor": 1, "ceil": 1, "sin": 1, "cos": 1, "fabs": 1, "power": 2}
"""Functions that LLVM knows, and how many arguments they take."""

LIBRARY = {
    "tan": "tan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "log1p": "log1p",
    "expm1": "expm1",
    "erf": "erf",
}
"""Functions of one number that C's library has, by NumPy's names."""

_FLOATS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_INTEGERS = {
    "+": "add nsw",
    "-": "sub nsw",
    "*": "mul nsw",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<<": "shl",
    ">>": "ashr",
}
_COMPARED = {
    "<": ("olt", "slt"),
    "<=": ("ole", "sle"),
    ">": ("ogt", "sgt"),
    ">=": ("oge", "sge"),
    "==": ("oeq", "eq"),
    "!=": ("une", "ne"),
}


class Lines:
    """Gathers the lines of one function, each register with a number of its own."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self._count = 0

    def register(self) -> str:
        """A register that nothing else uses."""
        self._count += 1
        return f"%v{self._count}"

    def add(self, line: str) -> None:
        """Write a line that gives nothing."""
        self.lines.append(f"  {line}")

    def give(self, type_: str, text: str) -> Number:
        """Write a line that gives a number."""
        register = self.register()
        self.add(f"{register} = {text}")
        return Number(type_, register)

    # Conversions

    def cast(self, number: Number, to: str) -> Number:
        """A number in another type; what does not fit into an integer is cut off."""
        source = number.type
        if source == to:
            return number
        if to == "i1":
            return self.compare("!=", number, self.cast(literal(0), source))
        if number.text.lstrip("-").isdigit() and not is_float(to):
            return Number(to, number.text)
        if is_float(source):
            if is_float(to):
                operation = "fpext" if to == "double" else "fptrunc"
            else:
                operation = "fptosi"
        elif is_float(to):
            operation = "uitofp" if source in ("i1", "i8") else "sitofp"
        elif SIZES[to] < SIZES[source]:
            operation = "trunc"
        else:
            operation = "zext" if source in ("i1", "i8") else "sext"
        return self.give(to, f"{operation} {source} {number.text} to {to}")

    def view(self, number: Number, to: str) -> Number:
        """The bits of a number as another type of the same size."""
        if SIZES[number.type] != SIZES[to]:
            raise NotNative(f"bits of {number.type} are not those of a {to}")
        return self.give(to, f"bitcast {number.type} {number.text} to {to}")

    def _alike(self, left: Number, right: Number) -> tuple[str, Number, Number]:
        """Two numbers in the type in which they meet; smaller integers are computed with 64 bits."""
        type_ = common_type(left.type, right.type)
        if type_ in ("i1", "i8"):
            type_ = "i64"
        return type_, self.cast(left, type_), self.cast(right, type_)

    # Arithmetic

    def binary(self, operation: str, left: Number, right: Number) -> Number:
        """``left operation right``; a quotient of integers by ``//`` is rounded down."""
        if operation == "**":
            return self.function("power", [left, right])
        if operation == "/" and not is_float(common_type(left.type, right.type)):
            left = self.cast(left, "double")
        if operation in ("&", "|", "^") and left.type == right.type == "i1":
            return self.give("i1", f"{_INTEGERS[operation]} i1 {left.text}, {right.text}")
        type_, left, right = self._alike(left, right)
        if is_float(type_):
            if operation not in _FLOATS:
                raise NotNative(f"'{operation}' of real numbers")
            return self.give(type_, f"{_FLOATS[operation]} {FAST} {type_} {left.text}, {right.text}")
        if operation in ("//", "%"):
            return self._divided(operation, left, right)
        return self.give(type_, f"{_INTEGERS[operation]} {type_} {left.text}, {right.text}")

    def _divided(self, operation: str, left: Number, right: Number) -> Number:
        type_ = left.type
        quotient = self.give(type_, f"sdiv {type_} {left.text}, {right.text}")
        rest = self.give(type_, f"srem {type_} {left.text}, {right.text}")
        signs = self.give(type_, f"xor {type_} {rest.text}, {right.text}")
        below = self.compare("<", signs, Number(type_, "0"))
        uneven = self.compare("!=", rest, Number(type_, "0"))
        down = self.give("i1", f"and i1 {below.text}, {uneven.text}")
        if operation == "//":
            return self.binary("-", quotient, self.cast(down, type_))
        return self.binary("+", rest, self.choose(down, right, Number(type_, "0")))

    def negative(self, number: Number) -> Number:
        """``-number``."""
        if is_float(number.type):
            return self.give(number.type, f"fneg {FAST} {number.type} {number.text}")
        if number.text.isdigit():
            return Number(number.type, f"-{number.text}")
        return self.binary("-", literal(0), number)

    def compare(self, operation: str, left: Number, right: Number) -> Number:
        """Whether ``left operation right``: of what cannot be compared only that it differs is true."""
        type_ = common_type(left.type, right.type)
        left, right = self.cast(left, type_), self.cast(right, type_)
        floats, integers = _COMPARED[operation]
        if type_ in ("i1", "i8"):
            integers = integers.replace("s", "u") if integers.startswith("s") else integers
        test = f"fcmp {floats}" if is_float(type_) else f"icmp {integers}"
        return self.give("i1", f"{test} {type_} {left.text}, {right.text}")

    def choose(self, condition: Number, one: Number, other: Number) -> Number:
        """One of two numbers; both are computed."""
        type_ = common_type(one.type, other.type)
        one, other = self.cast(one, type_), self.cast(other, type_)
        return self.give(type_, f"select i1 {condition.text}, {type_} {one.text}, {type_} {other.text}")

    def function(self, name: str, numbers: list[Number]) -> Number:
        """A function of mathematics; integers are taken in double precision."""
        type_ = numbers[0].type
        for number in numbers[1:]:
            type_ = common_type(type_, number.type)
        type_ = type_ if is_float(type_) else "double"
        if name in INTRINSICS:
            called = {"power": "pow"}.get(name, name)
            symbol = f"@llvm.{called}.f{8 * SIZES[type_]}"
        else:
            symbol = f"@{LIBRARY[name]}{'f' if type_ == 'float' else ''}"
        self.declared.add(f"declare {type_} {symbol}({', '.join([type_] * len(numbers))})")
        given = ", ".join(f"{type_} {self.cast(number, type_).text}" for number in numbers)
        return self.give(type_, f"call {FAST} {type_} {symbol}({given})")

    def extreme(self, sign: str, numbers: Iterable[Number]) -> Number:
        """The smallest (``<``) or largest (``>``) of some numbers, the first of equal ones, as Python chooses it."""
        first, *others = numbers
        for other in others:
            first = self.choose(self.compare(sign, other, first), other, first)
        return first
