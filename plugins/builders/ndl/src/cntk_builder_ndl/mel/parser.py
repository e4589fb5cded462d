"""From text to the steps of a script."""

from __future__ import annotations

import re

import attrs

from cntk_builder_ndl.mel.commands import Command, find_command, find_option, makes_model
from cntk_builder_ndl.mel.syntax import Argument, Call, Copy, InLine, Snippet, Step
from cntk_builder_ndl.parser import parse as parse_ndl
from cntk_core.api import BuildError, CntkError, Location
from cntk_core.api.builders import SourceText

_BETWEEN_STEPS = re.compile(r"[\s,;]*")
_BETWEEN_ARGUMENTS = re.compile(r"[\s,]*")
_BLANKS = re.compile(r"[ \t]*")
_SPACE = re.compile(r"\s*")
_NAME = re.compile(r'(?:[^\s,;=(){}\[\]"]|\[\d+\])+')
_REST = re.compile(r"[^\n;,]*")
_OPTION = re.compile(r"([A-Za-z]\w*)[ \t]*=(?!=)\s*")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
_CLOSER = {"(": ")", "[": "]", "{": "}"}
_MAX_PROBLEMS = 100


def parse(source: SourceText) -> tuple[tuple[Step, ...], list[CntkError]]:
    """Return the steps of a script and all that is wrong with its text; after a hundred mistakes the rest is not read.

    Comments must be stripped and variables filled in; the script may stand in ``[...]``.
    """
    parser = _Parser(source)
    parser.run()
    return tuple(parser.steps), parser.problems


class _Parser:
    """Goes over the characters of a text; ``position`` moves on."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.text = source.text
        self.position = 0
        self.end = len(self.text)
        self.steps: list[Step] = []
        self.problems: list[CntkError] = []

    def run(self) -> None:
        """Read all steps; a broken one is skipped up to the end of its line."""
        self._enter_braces()
        while True:
            self._skip(_BETWEEN_STEPS)
            if self.position >= self.end or len(self.problems) >= _MAX_PROBLEMS:
                return
            start = self.position
            try:
                self._step()
            except CntkError as error:
                self.problems.append(error)
                self.position = max(self.position, start + 1)
                line_end = self.text.find("\n", self.position)
                self.position = self.end if line_end < 0 else line_end

    def _enter_braces(self) -> None:
        """Go inside of the braces around a whole script."""
        self._skip(_SPACE)
        if self._peek() in ("[", "{"):
            try:
                closing = self._matching(self.position)
            except CntkError as error:
                self.problems.append(error)
                self.position += 1
                return
            if not self.text[closing + 1 :].strip():
                self.position += 1
                self.end = closing

    # -- steps ----------------------------------------------------------------------------------------------

    def _step(self) -> None:
        start = self.position
        name = self._name("a line begins with a command or a name")
        self._skip(_BLANKS)
        follows = self._peek()
        if follows == "(":
            self._command(name, start)
        elif follows == "=":
            self.position += 1
            self._skip(_BLANKS)
            self._assignment(Argument(name, self._where(start)), start)
        else:
            raise self._error(
                f"'{name}' is not followed by '(' or '='",
                start,
                "Write Command(arguments), name=LoadModel(file), or a statement of NDL.",
            )

    def _command(self, word: str, start: int) -> None:
        opening = self.position
        self.position = closing = self._matching(opening) + 1
        self._skip(_BLANKS)
        if self._peek() in ("=", "{", "["):
            raise self._error(
                f"the macro '{word}' cannot be defined in a script",
                start,
                "Define macros in a file that ndlMacros names, or in a snippet: model=[ ... ].",
            )
        self.position = closing
        command = find_command(word, self._where(start))
        self._call(command, (), opening, closing - 1, start)

    def _call(self, command: Command, first: tuple[Argument, ...], opening: int, closing: int, start: int) -> None:
        arguments, options = self._arguments(command, opening + 1, closing)
        call = Call(command, (*first, *arguments), options, self._where(start))
        given = len(call.arguments)
        if given < command.fewest or (command.most is not None and given > command.most):
            shown = given - len(first)
            count = "no arguments" if shown == 0 else "1 argument" if shown == 1 else f"{shown} arguments"
            raise BuildError(
                f"{command.name} cannot be called with {count}", where=call.where, hint=f"Usage: {command.usage}"
            )
        self.steps.append(call)

    def _assignment(self, target: Argument, start: int) -> None:
        begin = self.position
        if self._peek() in ("[", "{"):
            closing = self._matching(begin)
            self.position = closing + 1
            self.steps.append(Snippet(target, self.source.slice(begin + 1, closing), target.where))
            return
        found = _NAME.match(self.text, begin, self.end)
        if found is None and self._peek() not in ('"', "("):
            raise self._error(f"a value is missing for '{target.text}'", begin)
        after = _BLANKS.match(self.text, begin if found is None else found.end())
        assert after is not None
        if found is not None and self.text[after.end() : after.end() + 1] == "(" and after.end() < self.end:
            closing = self._matching(after.end())
            self.position = closing + 1
            command = makes_model(found.group())
            if command is None:
                self._in_line(start)
            else:
                self._call(command, (target,), after.end(), closing, begin)
        elif found is None:
            self.position = self._matching(begin) + 1
            self._in_line(start)
        else:
            self._plain(target, start, begin)

    def _plain(self, target: Argument, start: int, begin: int) -> None:
        """``name = number`` is NDL; ``name = name`` is a copy if the second one is a node."""
        self._skip(_REST)
        text = self.text[begin : self.position].rstrip()
        if not _NAME.fullmatch(text) or _NUMBER.fullmatch(text):
            self._in_line(start)
            return
        source = Argument(text, self._where(begin))
        plain = not re.search(r"[.*\[]", target.text) and not re.search(r"[*\[]", text)
        ndl = self.source.slice(start, self.position) if plain else None
        self.steps.append(Copy(target, source, ndl, target.where))

    def _in_line(self, start: int) -> None:
        text = self.source.slice(start, self.position)
        _, problems = parse_ndl(text)
        self.problems += problems
        self.steps.append(InLine(text, text.where))

    # -- arguments ------------------------------------------------------------------------------------------

    def _arguments(self, command: Command, start: int, end: int) -> tuple[list[Argument], dict[str, Argument]]:
        arguments: list[Argument] = []
        options: dict[str, Argument] = {}
        position = start
        while True:
            skipped = _BETWEEN_ARGUMENTS.match(self.text, position, end)
            assert skipped is not None
            position = skipped.end()
            if position >= end:
                return arguments, options
            option = _OPTION.match(self.text, position, end)
            if option is None:
                argument, position = self._argument(position, end)
                arguments.append(argument)
                continue
            where = self._where(position)
            name = find_option(command, option.group(1), where)
            if name in options:
                raise BuildError(f"'{option.group(1)}' is given twice", where=where)
            options[name], position = self._argument(option.end(), end)

    def _argument(self, start: int, end: int) -> tuple[Argument, int]:
        """Read one argument; return it and where it ends."""
        if self.text.startswith('"', start):
            closing = self._matching(start)
            follows = _BLANKS.match(self.text, closing + 1, end)
            assert follows is not None
            if follows.end() < end and self.text[follows.end()] not in ",\n\r":
                raise self._error("',' is missing after this text", start)
            return Argument(self.text[start + 1 : closing], self._where(start + 1)), closing + 1
        position = start
        while position < end and self.text[position] not in ",\n":
            brace = self.text[position] in '([{"'
            position = (self._matching(position) if brace else position) + 1
        return Argument(self.text[start:position].strip(), self._where(start)), position

    # -- characters -----------------------------------------------------------------------------------------

    def _matching(self, opening: int) -> int:
        """Return where the brace or quotation mark at a position is closed.

        Raises:
            BuildError: it is not, or another one is closed first.
        """
        if self.text[opening] == '"':
            found = self.text.find('"', opening + 1, self.end)
            if found < 0 or "\n" in self.text[opening:found]:
                raise self._error("no closing '\"' for this quotation mark", opening)
            return found
        open_braces = [opening]
        for match in re.compile(r'[()\[\]{}]|"[^"\n]*"').finditer(self.text, opening + 1, self.end):
            brace = match.group()
            if brace in _CLOSER:
                open_braces.append(match.start())
            elif not brace.startswith('"'):
                expected = _CLOSER[self.text[open_braces[-1]]]
                if brace != expected:
                    raise self._error(f"'{brace}' where '{expected}' is expected", match.start())
                open_braces.pop()
                if not open_braces:
                    return match.start()
        # The brace of the command itself is named, whatever is open inside of what only seems to belong to it.
        brace = self.text[opening]
        raise self._error(f"no closing '{_CLOSER[brace]}' for this '{brace}'", opening)

    def _name(self, wanted: str) -> str:
        found = _NAME.match(self.text, self.position, self.end)
        if found is None:
            raise self._error(f"{wanted}, not with '{self._peek()}'")
        self.position = found.end()
        return found.group()

    def _peek(self) -> str:
        return self.text[self.position : min(self.position + 1, self.end)]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.position, self.end)
        if found is not None:
            self.position = found.end()

    def _where(self, position: int) -> Location:
        return self.source.locate(position)

    def _error(self, message: str, position: int | None = None, hint: str | None = None) -> BuildError:
        return BuildError(message, where=self._where(self.position if position is None else position), hint=hint)


@attrs.frozen
class Sections:
    """Names of the sections that a script file asks for with ``load=a:b`` (macros) and ``edit=c:d`` (scripts)."""

    load: tuple[str, ...] = ()
    edit: tuple[str, ...] = ()


def sections_of(source: SourceText) -> Sections:
    """Return the sections that a file asks for; neither means that the file as a whole is the script."""
    found: dict[str, tuple[str, ...]] = {}
    for match in re.finditer(r"^[ \t]*(load|edit)[ \t]*=[ \t]*([\w:]+)[ \t]*$", source.text, re.I | re.M):
        found[match.group(1).lower()] = tuple(part for part in match.group(2).split(":") if part)
    return Sections(found.get("load", ()), found.get("edit", ()))
