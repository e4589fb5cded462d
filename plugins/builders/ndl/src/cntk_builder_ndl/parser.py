"""From text to statements (docs/original-rules.md#ndl)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from cntk_builder_ndl.syntax import (
    Array,
    Assignment,
    Call,
    Expression,
    MacroDefinition,
    Name,
    Number,
    Option,
    Statement,
    Text,
)
from cntk_core.api import BuildError, CntkError, Location
from cntk_core.api.builders import SourceText

_WORD = re.compile(r'[^\s,;:=(){}\[\]"]+')
_BLANKS = re.compile(r"[ \t]*")
_SPACE = re.compile(r"\s*")
_BETWEEN_STATEMENTS = re.compile(r"[\s,;]*")
_BETWEEN_ITEMS = re.compile(r"[\s,:]*")
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_REPEATED = re.compile(r"([^*]+)\*(\d{1,4})")
_CLOSER = {"(": ")", "[": "]", "{": "}"}
_MAX_DEPTH = 60
_MAX_PROBLEMS = 100
_T = TypeVar("_T")


def parse(source: SourceText) -> tuple[tuple[Statement, ...], list[CntkError]]:
    """Return the statements of a network description and all that is wrong with its text."""
    parser = _Parser(source)
    return parser.statements(""), parser.problems


class _Parser:
    """Recursive descent over the characters of a text; ``position`` moves on."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.text = source.text
        self.position = 0
        self.depth = 0
        self.problems: list[CntkError] = []

    # -- statements -----------------------------------------------------------------------------------------

    def statements(self, closer: str, opened: int = 0) -> tuple[Statement, ...]:
        """Read up to the closing brace, or to the end of the text for ``""``."""
        found: list[Statement] = []
        while True:
            self._skip(_BETWEEN_STATEMENTS)
            if self.position >= len(self.text):
                if closer:
                    self.problems.append(self._unclosed(opened, closer))
                return tuple(found)
            if closer and self.text[self.position] == closer:
                self.position += 1
                return tuple(found)
            start, depth = self.position, self.depth
            try:
                found.append(self._statement(in_macro=bool(closer)))
            except CntkError as error:
                self.problems.append(error)
                self.depth = depth
                self._skip_statement(start)
            if len(self.problems) >= _MAX_PROBLEMS:
                self._give_up()

    def _give_up(self) -> None:
        """Read no further: what has so many mistakes is probably no description at all."""
        if self.position < len(self.text):
            self.problems.append(self._error("there are too many mistakes; the rest of the text is not read"))
        self.position = len(self.text)

    def _statement(self, *, in_macro: bool) -> Statement:
        start = self.position
        name = self._word("a statement begins with a name")
        self._skip(_BLANKS)
        follows = self._peek()
        if follows == "(":
            call = self._call(name, start)
            return self._macro(call) or self._lone_call(call, in_macro=in_macro)
        if follows != "=":
            raise self._error(
                f"'{name}' is not followed by '=' or '('",
                start,
                "Write name=Function(...), name=value, or Macro(parameters) { ... }.",
            )
        self.position += 1
        self._check_name(name, start)
        value = self._expression(f"for '{name}'")
        if not isinstance(value, Call | Array | Text):
            self._end_of_value(name)
        return Assignment(name, value, self._where(start))

    def _check_name(self, name: str, start: int) -> None:
        if _NUMBER.fullmatch(name):
            raise self._error(f"'{name}' is a number and cannot be assigned", start)

    def _end_of_value(self, name: str) -> None:
        self._skip(_BLANKS)
        if self._peek() not in ("", "\n", "\r", ",", ";", "]", "}"):
            raise self._error(
                f"unexpected '{self._glimpse()}' after the value of '{name}'",
                self.position,
                "A statement ends with a new line, ',' or ';'.",
            )

    def _lone_call(self, call: Call, *, in_macro: bool) -> Assignment:
        if not in_macro:
            raise BuildError(
                f"the call of '{call.function}' has no name and no body",
                where=call.where,
                hint=f"Write name={call.function}(...), or a macro definition {call.function}(...) {{ ... }}.",
            )
        return Assignment("", call, call.where)

    def _macro(self, head: Call) -> MacroDefinition | None:
        """Read the body of a macro if one follows its head."""
        after_head = self.position
        self._skip(_BETWEEN_STATEMENTS)
        equals = self._peek() == "="
        if equals:
            self.position += 1
            self._skip(_SPACE)
        start = self.position
        if self._peek() in ("{", "["):
            self.position += 1
            body = self._nested(lambda: self.statements(_CLOSER[self.text[start]], start))
        elif equals:
            value = self._expression(f"for the body of the macro '{head.function}'")
            body = (Assignment("", value, self._where(start)),)
        else:
            self.position = after_head
            return None
        return MacroDefinition(head.function, self._parameters(head), body, head.where)

    def _parameters(self, head: Call) -> tuple[Name, ...]:
        names: list[Name] = []
        wrong: list[Expression | Option] = [*head.options]
        for argument in head.arguments:
            if not isinstance(argument, Name) or "." in argument.text:
                wrong.append(argument)
            elif argument.text.lower() in [name.text.lower() for name in names]:
                raise BuildError(
                    f"the macro '{head.function}' has two parameters '{argument.text}'", where=argument.where
                )
            else:
                names.append(argument)
        if wrong:
            raise BuildError(
                f"the parameters of the macro '{head.function}' must be plain names",
                where=wrong[0].where,
                hint="Defaults are not possible.",
            )
        return tuple(names)

    # -- expressions ----------------------------------------------------------------------------------------

    def _expression(self, what: str) -> Expression:
        self._skip(_BLANKS)
        start = self.position
        opener = self._peek()
        if opener == '"':
            return self._quoted()
        if opener in _CLOSER:
            items, options = self._items()
            if options:
                raise BuildError(f"an array cannot hold '{options[0].name}=...'", where=options[0].where)
            return Array(items, self._where(start))
        return self._word_or_call(self._word(f"a value is missing {what}"), start)

    def _word_or_call(self, word: str, start: int) -> Expression:
        after = self.position
        self._skip(_BLANKS)
        if self._peek() == "(":
            return self._call(word, start)
        self.position = after
        return self._plain(word, start)

    def _plain(self, word: str, start: int) -> Number | Name:
        if _NUMBER.fullmatch(word):
            return Number(float(word), word, self._where(start))
        return Name(word, self._where(start))

    def _quoted(self) -> Text:
        start = self.position
        end = self.text.find('"', start + 1)
        if end < 0:
            raise self._unclosed(start, '"')
        self.position = end + 1
        return Text(self.text[start + 1 : end], self._where(start + 1))

    def _call(self, function: str, start: int) -> Call:
        arguments, options = self._items()
        return Call(function, arguments, options, self._where(start))

    def _items(self) -> tuple[tuple[Expression, ...], tuple[Option, ...]]:
        """Read ``(a, b, option=value)`` from its opening to its closing brace."""
        return self._nested(self._read_items)

    def _read_items(self) -> tuple[tuple[Expression, ...], tuple[Option, ...]]:
        start = self.position
        closer = _CLOSER[self.text[start]]
        self.position += 1
        items: list[Expression] = []
        options: list[Option] = []
        while True:
            self._skip(_BETWEEN_ITEMS)
            if self._peek() == closer:
                self.position += 1
                return tuple(items), tuple(options)
            if not self._peek():
                raise self._unclosed(start, closer)
            self._item(items, options)
            self._skip(_BLANKS)
            if self._peek() not in ("", ",", ":", "\n", "\r", closer):
                raise self._error(f"',' is missing before '{self._glimpse()}'", self.position)

    def _item(self, items: list[Expression], options: list[Option]) -> None:
        start = self.position
        if self._peek() in ('"', *_CLOSER):
            items.append(self._expression(""))
            return
        word = self._word("an argument is missing")
        after = self.position
        self._skip(_BLANKS)
        if self._peek() == "=":
            self.position += 1
            options.append(Option(word, self._expression(f"for '{word}'"), self._where(start)))
            return
        self.position = after
        repeated = _REPEATED.fullmatch(word)
        if repeated is None:
            items.append(self._word_or_call(word, start))
        else:
            items.extend([self._plain(repeated.group(1), start)] * int(repeated.group(2)))

    # -- characters -----------------------------------------------------------------------------------------

    def _nested(self, read: Callable[[], _T]) -> _T:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self._error(f"braces are nested more than {_MAX_DEPTH} deep", self.position)
        result = read()
        self.depth -= 1
        return result

    def _word(self, wanted: str) -> str:
        found = _WORD.match(self.text, self.position)
        if found is None:
            raise self._error(f"{wanted}, not with '{self._glimpse()}'" if "begins" in wanted else wanted)
        self.position = found.end()
        return found.group()

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _glimpse(self) -> str:
        found = _WORD.match(self.text, self.position)
        return found.group()[:30] if found else self._peek()

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.position)
        if found is not None:
            self.position = found.end()

    def _skip_statement(self, start: int) -> None:
        """Go on behind the statement that begins at ``start``: at the line end outside of its braces."""
        position, depth = start, 0
        while position < len(self.text):
            character = self.text[position]
            if character == '"':
                end = self.text.find('"', position + 1)
                position = len(self.text) if end < 0 else end
            elif character in "([{":
                depth += 1
            elif character in ")]}":
                depth -= 1
            if depth <= 0 and position > start and character in "\n;)]}":
                break
            position += 1
        closing_of_block = depth < 0 and position > start
        self.position = position if closing_of_block else max(position + 1, self.position)

    def _where(self, position: int) -> Location:
        return self.source.locate(position)

    def _error(self, message: str, position: int | None = None, hint: str | None = None) -> BuildError:
        where = self._where(self.position if position is None else position)
        return BuildError(message, where=where, hint=hint)

    def _unclosed(self, opened: int, closer: str) -> BuildError:
        return self._error(f"no closing '{closer}' for this '{self.text[opened]}'", opened)
