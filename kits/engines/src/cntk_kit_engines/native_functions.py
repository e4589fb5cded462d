"""Native functions: statements of Python's text in LLVM's language, and whole modules.

The language is the part of Python that needs no objects: numbers, arrays in one piece, ``if``, ``for`` over a range,
``while``, calls of other such functions. Types are those of the arguments; a variable has the widest of what it is
given, as in numba. Indices do not count from the end, and nothing looks whether they are inside.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from cntk_kit_engines.code_generator import WITHOUT_VECTORS
from cntk_kit_engines.native_expressions import Expressions, Others, passed
from cntk_kit_engines.native_types import (
    NAMES,
    SIZES,
    NotNative,
    Number,
    Parameter,
    Several,
    Value,
    View,
    common_type,
)


class NativeFunction(Expressions):
    """Writes one function for arguments of given types.

    Args:
        tree: the function.
        arguments: its arguments, whose texts are the parameters' names.
        others: what it may name.
    """

    def __init__(self, tree: ast.FunctionDef, arguments: Sequence[Value], others: Others) -> None:
        super().__init__(others)
        self._tree = tree
        self._arguments = {each.arg: value for each, value in zip(tree.args.args, arguments, strict=True)}
        self._types: dict[str, str] = {}
        self._result = ""
        self._changed = True

    def write(self, symbol: str) -> tuple[str, str]:
        """Return the function's text, and the type of its result."""
        while self._changed:  # variables have become wider
            self._changed = False
            self.lines, self.declared, self._count = [], set(), 0
            self._views: dict[str, Value] = {}
            self._loops: list[tuple[str, str]] = []
            for name, value in self._arguments.items():
                if isinstance(value, Number):
                    self._store(name, value)
                else:
                    self._views[name] = value
            if not self._suite(self._tree.body):
                self._return(None)
        places = [f"  %var.{name} = alloca {type_}, align 8" for name, type_ in self._types.items()]
        parameters = ", ".join(text for value in self._arguments.values() for text in passed(value))
        body = "\n".join(["entry:", *places, *self.lines])
        return (
            f"define internal {self._result} {symbol}({parameters}) alwaysinline nounwind {{\n{body}\n}}",
            self._result,
        )

    # Variables

    def variable(self, name: str) -> Value | None:
        """The value of a variable, None if there is none of the name."""
        if name in self._views:
            return self._views[name]
        if name not in self._types:
            return None
        type_ = self._types[name]
        return self.give(type_, f"load {type_}, ptr %var.{name}, align {SIZES[type_]}")

    def _store(self, name: str, number: Number) -> None:
        known = self._types.get(name)
        type_ = number.type if known is None else common_type(known, number.type)
        if type_ != known:
            self._types[name] = type_
            self._changed = True
        self.add(f"store {type_} {self.cast(number, type_).text}, ptr %var.{name}, align {SIZES[type_]}")

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            if isinstance(value, Number):
                self._store(target.id, value)
            else:
                self._views[target.id] = value
        elif isinstance(target, ast.Tuple):
            if not isinstance(value, Several) or len(value.values) != len(target.elts):
                raise NotNative(f"{len(target.elts)} values are needed")
            for each, part in zip(target.elts, value.values, strict=True):
                self._assign(each, part)
        elif isinstance(target, ast.Subscript) and isinstance(value, Number):
            self.store(*self.place(target), value)
        else:
            raise NotNative(f"nothing can be written to '{ast.unparse(target)}'")

    # Statements

    def _suite(self, statements: Sequence[ast.stmt]) -> bool:
        """Write statements; return whether the last of them goes elsewhere."""
        for statement in statements:
            try:
                if self._statement(statement):
                    return True
            except NotNative as error:
                if error.args[1:]:
                    raise
                raise NotNative(f"{self._tree.name}, line {statement.lineno}: {error}", statement.lineno) from None
        return False

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Expr(ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value):
                self.value(value)
            case ast.Assign(targets, value):
                found = self.value(value)
                for target in targets:
                    self._assign(target, found)
            case ast.AnnAssign(target, _, ast.expr() as value):
                self._assign(target, self.value(value))
            case ast.AugAssign(target, operation, value):
                self._augmented(target, operation, value)
            case ast.For():
                self._for(node)
            case ast.While():
                self._while(node)
            case ast.If():
                return self._if(node)
            case ast.Return(value):
                self._return(self.value(value) if value is not None else None)
                return True
            case ast.Break() | ast.Continue():
                self.add(f"br label %{self._loops[-1][isinstance(node, ast.Continue)]}")
                return True
            case _:
                raise NotNative(f"{type(node).__name__} is not known")
        return False

    def _augmented(self, target: ast.expr, operation: ast.operator, value: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            item, address = self.place(target)
            number = self.number(value)
            name = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}.get(type(operation))
            if name is None:
                raise NotNative("elements are changed by +=, -=, *= and /= alone")
            self.store(item, address, self.binary(name, self.load(item, address), number))
        else:
            self._assign(target, self.value(ast.BinOp(_read(target), operation, value)))

    def _if(self, node: ast.If) -> bool:
        blocks = self.block("then"), self.block("else"), self.block("after")
        condition = self.condition(node.test)
        self.add(f"br i1 {condition.text}, label %{blocks[0]}, label %{blocks[1]}")
        gone = []
        for begin, suite in zip(blocks, (node.body, node.orelse), strict=False):
            self.begin(begin)
            gone.append(self._suite(suite))
            if not gone[-1]:
                self.add(f"br label %{blocks[2]}")
        if all(gone):
            return True
        self.begin(blocks[2])
        return False

    def _while(self, node: ast.While) -> None:
        test, body, end = self.block("test"), self.block("body"), self.block("end")
        self.add(f"br label %{test}")
        self.begin(test)
        self.add(f"br i1 {self.condition(node.test).text}, label %{body}, label %{end}")
        self._body(body, node.body, (end, test))
        self.begin(end)

    def _body(self, begin: str, statements: Sequence[ast.stmt], exits: tuple[str, str]) -> None:
        """The body of a loop, which goes on at the second of the exits."""
        self.begin(begin)
        self._loops.append(exits)
        if not self._suite(statements):
            self.add(f"br label %{exits[1]}")
        self._loops.pop()

    def _for(self, node: ast.For) -> None:
        match node:
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), arguments), orelse=[]):
                pass
            case _:
                raise NotNative("for goes over a range alone")
        numbers = [self.cast(self.number(each), "i64") for each in arguments]
        begin = numbers[0] if len(numbers) > 1 else Number("i64", "0")
        stop = numbers[0] if len(numbers) == 1 else numbers[1]
        step = numbers[2] if len(numbers) > 2 else Number("i64", "1")
        blocks = self.block("test"), self.block("body"), self.block("next"), self.block("end")
        # A place of its own: the body may change the variable.
        counter = self.block("count.")
        self._store(counter, begin)
        self.add(f"br label %{blocks[0]}")
        self.begin(blocks[0])
        count = self.variable(counter)
        assert isinstance(count, Number)
        goes_on = self.compare(">" if step.text.startswith("-") else "<", count, stop)
        self.add(f"br i1 {goes_on.text}, label %{blocks[1]}, label %{blocks[3]}")
        self.lines.append(f"{blocks[1]}.in:")
        self.lines[-2] = self.lines[-2].replace(f"%{blocks[1]},", f"%{blocks[1]}.in,")
        self._store(name, count)
        self.add(f"br label %{blocks[1]}")
        self._body(blocks[1], node.body, (blocks[3], blocks[2]))
        self.begin(blocks[2])
        count = self.variable(counter)
        assert isinstance(count, Number)
        self._store(counter, self.binary("+", count, step))
        self.add(f"br label %{blocks[0]}")
        self.begin(blocks[3])

    def _return(self, value: Value | None) -> None:
        if value is None:
            self._result = self._result or "void"
            self.add("ret void")
        elif isinstance(value, Number):
            type_ = value.type if not self._result else common_type(self._result, value.type)
            self._changed |= bool(self._result) and type_ != self._result
            self._result = type_
            self.add(f"ret {type_} {self.cast(value, type_).text}")
        elif isinstance(value, Several):
            numbers = [each for each in value.values if isinstance(each, Number)]
            self._result = f"{{ {', '.join(number.type for number in numbers)} }}"
            whole = "undef"
            for place, number in enumerate(numbers):
                line = f"insertvalue {self._result} {whole}, {number.type} {number.text}, {place}"
                whole = self.give(self._result, line).text
            self.add(f"ret {self._result} {whole}")
        else:
            raise NotNative("an array cannot be returned")


def _read(target: ast.expr) -> ast.expr:
    if not isinstance(target, ast.Name):
        raise NotNative(f"'{ast.unparse(target)}' cannot be changed")
    return ast.Name(target.id)


class NativeModule:
    """Functions that may call each other, of one or several texts.

    Args:
        texts: of modules of Python. Of functions and constants of one name those of the first text count; what they
            import is not looked at.
    """

    def __init__(self, *texts: str) -> None:
        self._functions: dict[str, ast.FunctionDef] = {}
        self._constants: dict[str, Any] = {}
        self._written: dict[tuple[str, tuple[str, ...]], tuple[str, str]] = {}
        self._texts: list[str] = []
        self._declared: set[str] = set()
        for text in texts:
            for node in ast.parse(text).body:
                match node:
                    case ast.FunctionDef(name):
                        self._functions.setdefault(name, node)
                    case ast.Assign([ast.Name(name)], value):
                        self._constants.setdefault(name, _constant(value))

    def constant(self, name: str) -> Any:
        """A number, or the name of a type, None if there is no such constant."""
        return self._constants.get(name)

    def call(self, name: str, arguments: Sequence[Value]) -> tuple[str, str] | None:
        """Symbol and result type of a function for such arguments, None if there is no such function."""
        if name not in self._functions:
            return None
        key = name, tuple(_type(argument) for argument in arguments)
        if key not in self._written:
            tree = self._functions[name]
            symbol = f"@f{len(self._written)}.{name}"
            self._written[key] = symbol, "void"  # of a function that calls itself
            parameters = [each.arg for each in tree.args.args]
            given = [_named(each, argument) for each, argument in zip(parameters, arguments, strict=True)]
            function = NativeFunction(tree, given, self)
            text, result = function.write(symbol)
            self._texts.append(text)
            self._declared |= function.declared
            self._written[key] = symbol, result
        return self._written[key]

    def write(self, function: str, symbol: str, result: str, parameters: Sequence[Parameter]) -> str:
        """Return the text of a module whose function ``symbol(block)`` takes its arguments from a block.

        Its places have 8 bytes each: numbers as 64 bits of their kind, an array as its address and its sizes; the
        last gets the result.

        Raises:
            NotNative: the function has something that the language has not.
        """
        entry = Expressions(self)
        place = 0

        def read(type_: str) -> Number:
            nonlocal place
            address = f"%s{place}"
            entry.add(f"{address} = getelementptr inbounds i64, ptr %block, i64 {place}")
            place += 1
            return entry.give(type_, f"load {type_}, ptr {address}, align 8")

        arguments: list[Number | View] = []
        for parameter in parameters:
            if parameter.axes:
                pointer = read("ptr").text
                sizes = tuple(read("i64").text for _ in range(parameter.axes))
                arguments.append(View(parameter.item, pointer, sizes))
            else:
                wide = "double" if parameter.item in ("float", "double") else "i64"
                arguments.append(entry.cast(read(wide), parameter.item))
        called = self.call(function, arguments)
        if called is None:
            raise NotNative(f"there is no function '{function}'")
        inner, returned = called
        given = ", ".join(text for argument in arguments for text in passed(argument))
        if result == "void":
            entry.add(f"call {returned} {inner}({given})")
        else:
            number = entry.cast(entry.give(returned, f"call {returned} {inner}({given})"), result)
            entry.add(f"%s{place} = getelementptr inbounds i64, ptr %block, i64 {place}")
            entry.add(f"store {result} {number.text}, ptr %s{place}, align 8")
        body = "\n".join(entry.lines)
        main = f"define void @{symbol}(ptr noalias %block) nounwind {{\nentry:\n{body}\n  ret void\n}}"
        # Of the first text: ``False`` says that loops are not worth the time to make vector code of them.
        head = [] if self._constants.get("VECTORS", True) else [WITHOUT_VECTORS]
        return "\n".join([*head, *sorted(self._declared), *self._texts, main, ""])


def _named(name: str, argument: Value) -> Value:
    """An argument as the function sees it that is given it."""
    if isinstance(argument, Number):
        return Number(argument.type, f"%in.{name}")
    assert isinstance(argument, View)
    sizes = tuple(f"%in.{name}.{axis}" for axis in range(len(argument.sizes)))
    return View(argument.item, f"%in.{name}", sizes)


def _type(argument: Value) -> str:
    if isinstance(argument, Number):
        return argument.type
    assert isinstance(argument, View)
    return f"{argument.item}[{len(argument.sizes)}]"


def _constant(value: ast.expr) -> Any:
    """What a module says once and for all: a number or a type; anything else is none of a native function's."""
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "np":
        return NAMES.get(value.attr)
    try:
        found = ast.literal_eval(value)
    except ValueError:
        try:
            found = eval(compile(ast.Expression(value), "<constant>", "eval"), {"__builtins__": {"ord": ord}})
        except Exception:
            return None
    return found if isinstance(found, int | float) else None
