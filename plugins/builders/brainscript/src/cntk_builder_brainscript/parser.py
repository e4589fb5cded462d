"""From the text of BrainScript to its expression tree (docs/original-rules.md#brainscript-expressions).

Ends of lines mean nothing inside an expression: it goes on as long as the next token can continue it. A member ends
where the next token cannot; ``;`` makes that plain. After a mistake the parser goes on at the next line that looks
like a definition, so that one pass reports all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import attrs

from cntk_builder_brainscript.depth import deep_stack
from cntk_builder_brainscript.lexer import Include, Lexer, Token
from cntk_builder_brainscript.syntax import (
    Argument,
    ArrayLiteral,
    ArrayRange,
    Call,
    Conditional,
    Expression,
    Function,
    Identifier,
    Index,
    Infix,
    Literal,
    Member,
    New,
    RecordLiteral,
    RecordMember,
    Unary,
)
from cntk_core.api import BuildError, CntkError, Location, raise_problems
from cntk_core.api.builders import SourceText

PRECEDENCE = {
    **dict.fromkeys([".", "[", "(", "{"], 99),
    **dict.fromkeys(["*", "/", ".*", "**", "%"], 10),
    **dict.fromkeys(["+", "-", "with"], 9),
    **dict.fromkeys(["==", "!=", "<", "<=", ">", ">="], 8),
    "&&": 7,
    "||": 6,
    **dict.fromkeys([">>", "<<"], 5),
    ":": 4,
    "=>": 0,
}
"""Operators by how tightly they bind, as in the original; all but ``=>`` associate to the left."""

UNARY_PRECEDENCE = 90
MAX_DEPTH = 1000
"""Brackets, conditions and signs inside of each other, at most."""

T = TypeVar("T", bound=Expression)

_MAX_ERRORS = 20
_CLOSERS = {"(": ")", "[": "]", "{": "}", "[|": "|]"}
_DEFINES = ("=", "(", "{", "[")


def parse(source: SourceText, include: Include | None = None) -> RecordLiteral:
    """Return a text of definitions as one record.

    Raises:
        BuildError: what is wrong with the text; several mistakes are raised together.
    """
    return _whole(source, include, lambda parser: parser.text())


def parse_expression(source: SourceText, include: Include | None = None) -> Expression:
    """Return a text that is one expression, such as ``{ a = 1 }`` or ``( f (x) )``.

    Raises:
        BuildError: what is wrong with the text; several mistakes are raised together.
    """
    return _whole(source, include, lambda parser: parser.only_expression())


def _whole(source: SourceText, include: Include | None, read: Callable[[Parser], T]) -> T:
    lexer = Lexer(include)
    parser = Parser(lexer.tokens(source))
    with deep_stack():
        try:
            tree = read(parser)
        except _SyntaxError as error:
            parser.note(error.error)
            tree = None
    raise_problems(sorted([*lexer.errors, *parser.errors], key=_order)[:_MAX_ERRORS])
    assert tree is not None
    return tree


def _order(error: CntkError) -> tuple[str, int, int]:
    where = error.where or Location()
    return where.file, where.line, where.column


class _SyntaxError(Exception):
    """Unwinds the parser to where it can go on."""

    def __init__(self, error: BuildError) -> None:
        self.error = error


@attrs.define
class _Parameters:
    """What stands between the brackets of a call or of a definition."""

    positional: list[Expression] = attrs.field(factory=list)
    named: dict[str, Argument] = attrs.field(factory=dict)


class Parser:
    """Reads tokens from left to right; ``errors`` has what it got over."""

    def __init__(self, tokens: list[Token]) -> None:
        self.errors: list[BuildError] = []
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._open: list[Token] = []
        self._calls: list[Token] = []
        self._token = tokens[0]

    # Texts

    def text(self) -> RecordLiteral:
        """Read definitions up to the end."""
        start = self._token
        members: dict[str, RecordMember] = {}
        while True:
            self._members(members, "")
            if self._token.kind == "end":
                return RecordLiteral(start.source, 0, members)
            self.note(self._unexpected("a definition (name = value)"))
            self._recover("")

    def only_expression(self) -> Expression:
        """Read one expression and the end."""
        found = self.expression()
        if self._token.kind != "end":
            raise _SyntaxError(self._unexpected("the end of the text"))
        return found

    # Errors

    def note(self, error: BuildError) -> None:
        """Keep an error, unless it is one too many or the last one's consequence on the same line."""
        last = self.errors[-1].where if self.errors else None
        if len(self.errors) < _MAX_ERRORS and not (last and error.where and last.line == error.where.line):
            self.errors.append(error)

    def _unexpected(self, wanted: str) -> BuildError:
        token = self._token
        message = f"{wanted} expected, not {token.describe()}"
        hint = None
        if self._open:
            bracket = self._open[-1]
            hint = f"The '{bracket.text}' at {bracket.where} is still open."
        if token.kind == "end" and self.errors:
            return BuildError(message, where=self.errors[-1].where)
        return BuildError(message, where=token.where, hint=hint)

    def _recover(self, closer: str) -> None:
        """Skip to the next line that looks like a definition, or to the bracket that ends this record."""
        depth = 0
        while self._token.kind != "end":
            token = self._token
            if token.first and token.kind == "name" and self._tokens[self._at + 1].text in _DEFINES:
                return
            if token.kind == "mark":
                if token.text in _CLOSERS:
                    depth += 1
                elif token.text in _CLOSERS.values():
                    if depth == 0 and token.text == closer:
                        return
                    depth = max(depth - 1, 0)
            self._advance()

    # Tokens

    def _advance(self) -> Token:
        token = self._token
        if token.kind != "end":
            self._at += 1
            self._token = self._tokens[self._at]
        return token

    def _is(self, text: str) -> bool:
        return self._token.text == text and self._token.kind in ("mark", "keyword")

    def _take(self, text: str) -> Token:
        if not self._is(text):
            raise _SyntaxError(self._unexpected(f"'{text}'"))
        return self._advance()

    def _name(self) -> Token:
        if self._token.kind != "name":
            raise _SyntaxError(self._unexpected("a name"))
        return self._advance()

    def _enter(self, opener: str) -> Token:
        self._open.append(self._take(opener))
        return self._open[-1]

    def _leave(self, wanted: str = "") -> None:
        closer = _CLOSERS[self._open[-1].text]
        if not self._is(closer):
            raise _SyntaxError(self._unexpected(f"{wanted}'{closer}'"))
        self._advance()
        self._open.pop()

    # Records

    def _members(self, members: dict[str, RecordMember], closer: str) -> None:
        opened, calls, depth = len(self._open), len(self._calls), self._depth
        while True:
            if self._token.kind == "name":
                try:
                    self._member(members)
                except _SyntaxError as error:
                    self.note(error.error)
                    del self._open[opened:], self._calls[calls:]
                    self._depth = depth
                    self._recover(closer)
            elif self._is(";"):
                self._advance()
            elif self._token.kind == "end" or self._is(closer):
                return
            else:
                self.note(self._unexpected("a definition (name = value)"))
                self._recover(closer)
                if self._is(closer):
                    return

    def _member(self, members: dict[str, RecordMember]) -> None:
        name = self._name()
        bounds = self._bounds() if self._is("[") else None
        parameters = self._function_parameters() if self._is("(") or self._is("{") else None
        self._take("=")
        value = self.expression()
        if parameters is not None:
            names = tuple(p.name for p in parameters.positional if isinstance(p, Identifier))
            value = Function(name.source, name.offset, name.text, names, parameters.named, value)
        if bounds is not None:
            index, first, last = bounds
            function = Function(index.source, index.offset, "", (index.text,), {}, value)
            value = ArrayRange(name.source, name.offset, first, last, function)
        before = members.get(name.text)
        if before is not None:
            hint = f"The first definition is at {before.where}."
            self.note(BuildError(f"'{name.text}' is defined twice", where=name.where, hint=hint))
        members[name.text] = RecordMember(name.source, name.offset, value)

    def _bounds(self) -> tuple[Token, Expression, Expression]:
        self._enter("[")
        index = self._name()
        self._take(":")
        first = self.expression()
        self._take("..")
        last = self.expression()
        self._leave()
        return index, first, last

    def _function_parameters(self) -> _Parameters:
        parameters = self._arguments()
        names: set[str] = set()
        for parameter in parameters.positional:
            if not isinstance(parameter, Identifier):
                raise _SyntaxError(BuildError("a parameter must be a name", where=parameter.where))
            if parameter.name in names or parameter.name in parameters.named:
                raise _SyntaxError(BuildError(f"two parameters are named '{parameter.name}'", where=parameter.where))
            names.add(parameter.name)
        return parameters

    # Expressions

    def expression(self, required: int = 0) -> Expression:
        """Read an expression of operators that bind at least as tightly as ``required``."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            message = f"expressions are nested more than {MAX_DEPTH} deep"
            raise _SyntaxError(BuildError(message, where=self._token.where))
        left = self._operand()
        while self._token.kind == "mark" or self._token.kind == "keyword":
            operator = self._token
            precedence = PRECEDENCE.get(operator.text, -1)
            if precedence < required:
                break
            left = self._continue(left, operator, precedence)
        self._depth -= 1
        return left

    def _continue(self, left: Expression, operator: Token, precedence: int) -> Expression:
        source, offset = operator.source, operator.offset
        match operator.text:
            case "(" | "{":
                place = left if isinstance(left, Identifier | Member) else operator
                arguments = self._arguments()
                return Call(place.source, place.offset, left, tuple(arguments.positional), arguments.named)
            case ".":
                self._advance()
                name = self._name()
                return Member(name.source, name.offset, left, name.text)
            case "[":
                self._enter("[")
                index = self.expression()
                self._leave()
                return Index(source, offset, left, index)
            case ":":
                return self._joined(left, operator, precedence)
            case "=>":
                if not isinstance(left, Identifier):
                    raise _SyntaxError(BuildError("a name expected before '=>'", where=left.where))
                self._advance()
                return Function(left.source, left.offset, "", (left.name,), {}, self.expression(precedence))
            case _:
                self._advance()
                return Infix(source, offset, operator.text, left, self.expression(precedence + 1))

    def _joined(self, left: Expression, operator: Token, precedence: int) -> Expression:
        # A parenthesis around a : b leaves no trace on the left, as in the original; the names of elements show it.
        known = isinstance(left, ArrayLiteral) and left.joins
        items = [*left.items] if isinstance(left, ArrayLiteral) and known else [left]
        place = left if known else operator
        while self._is(":"):
            self._advance()
            items.append(self.expression(precedence + 1))
        return ArrayLiteral(place.source, place.offset, tuple(items), True)

    def _arguments(self) -> _Parameters:
        found = _Parameters()
        self._calls.append(self._enter(self._token.text))
        closer = _CLOSERS[self._open[-1].text]
        while not self._is(closer):
            argument = self.expression()
            if isinstance(argument, Identifier) and self._is("="):
                self._advance()
                if argument.name in found.named:
                    raise _SyntaxError(BuildError(f"'{argument.name}' is given twice", where=argument.where))
                found.named[argument.name] = Argument(argument.offset, self.expression())
            else:
                found.positional.append(argument)
            if not self._is(","):
                break
            self._advance()
            if self._is(closer):
                raise _SyntaxError(self._unexpected("an argument"))
        self._leave("',' or ")
        self._calls.pop()
        return found

    # Operands

    def _operand(self) -> Expression:
        token = self._token
        if token.kind == "name":
            if token.first and self._begins_definition():
                raise _SyntaxError(self._unexpected("a value"))
            self._advance()
            return Identifier(token.source, token.offset, token.text)
        if token.kind == "number":
            self._advance()
            return Literal(token.source, token.offset, _number(token.text))
        if token.kind == "text":
            self._advance()
            return Literal(token.source, token.offset, token.text)
        read = _OPERANDS.get(token.text) if token.kind != "end" else None
        if read is None:
            raise _SyntaxError(self._unexpected("a value"))
        return read(self)

    def _begins_definition(self) -> bool:
        in_call = self._open and self._calls and self._open[-1] is self._calls[-1]
        return self._tokens[self._at + 1].text == "=" and not in_call

    def _truth(self) -> Expression:
        token = self._advance()
        return Literal(token.source, token.offset, token.text == "true")

    def _unary(self) -> Expression:
        token = self._advance()
        return Unary(token.source, token.offset, token.text, self.expression(UNARY_PRECEDENCE))

    def _new(self) -> Expression:
        token = self._advance()
        kind = self._name()
        if not any(self._is(mark) for mark in "[{("):
            raise _SyntaxError(self._unexpected(f"a record of arguments after new {kind.text}"))
        return New(token.source, token.offset, kind.text, self._operand())

    def _conditional(self) -> Expression:
        token = self._advance()
        condition = self.expression()
        self._take("then")
        positive = self.expression()
        self._take("else")
        return Conditional(token.source, token.offset, condition, positive, self.expression())

    def _parenthesis(self) -> Expression:
        self._enter("(")
        found = self.expression()
        self._leave()
        return found

    def _record(self) -> Expression:
        bracket = self._enter(self._token.text)
        members: dict[str, RecordMember] = {}
        self._members(members, _CLOSERS[bracket.text])
        self._leave("a definition or ")
        return RecordLiteral(bracket.source, bracket.offset, members)

    def _array_literal(self) -> Expression:
        bracket = self._enter("[|")
        items: list[Expression] = []
        while not self._is("|]"):
            items.append(self.expression())
            if not self._is(";"):
                break
            self._advance()
        self._leave("';' or ")
        return ArrayLiteral(bracket.source, bracket.offset, tuple(items), False)

    def _array_range(self) -> Expression:
        token = self._advance()
        self._enter("[")
        first = self.expression()
        self._take("..")
        last = self.expression()
        self._leave()
        self._enter("(")
        function = self.expression()
        self._leave()
        return ArrayRange(token.source, token.offset, first, last, function)


_OPERANDS: dict[str, Callable[[Parser], Expression]] = {
    "true": Parser._truth,
    "false": Parser._truth,
    "+": Parser._unary,
    "-": Parser._unary,
    "!": Parser._unary,
    "new": Parser._new,
    "if": Parser._conditional,
    "(": Parser._parenthesis,
    "[": Parser._record,
    "{": Parser._record,
    "[|": Parser._array_literal,
    "array": Parser._array_range,
}


def _number(text: str) -> float:
    try:
        return float.fromhex(text) if text[:2] in ("0x", "0X") else float(text)
    except OverflowError:
        return math.inf
