"""From the command line to the top level of a recipe.

Rules of the original: docs/original-rules.md#the-command-line and #files-and-comments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from cntk_core.config.addresses import as_path
from cntk_core.config.parser import parse_entries
from cntk_core.config.section import Config
from cntk_core.config.source import COMMAND_LINE, SourceText, read_file
from cntk_core.config.unread import UnreadKeys
from cntk_core.errors import ConfigError, Location, UsageError

_FILE = "configfile="
_DIRECTORY = "currentdirectory="
_INCLUDE = "include="
_MAX_INCLUDED = 1000


@attrs.frozen
class Argument:
    """One argument of the command line.

    Attributes:
        text: A file path, or ``key=value``.
        where: Its place: the line is the number of the argument.
        is_file: Whether it names a file.
        directory: What a relative file path counts from: a ``currentDirectory=`` before it, if any.
    """

    text: str
    where: Location
    is_file: bool = False
    directory: Path | None = None


@attrs.frozen
class CommandLine:
    """The command line, taken apart.

    Attributes:
        arguments: Files and overrides in their order; what comes later wins.
        directory: The last ``currentDirectory=``, or ``None``.
    """

    arguments: tuple[Argument, ...]
    directory: Path | None

    @property
    def files(self) -> tuple[str, ...]:
        """The config files, as they were written."""
        return tuple(argument.text for argument in self.arguments if argument.is_file)

    @property
    def overrides(self) -> tuple[str, ...]:
        """The other arguments (``currentDirectory=`` is one of them)."""
        return tuple(argument.text for argument in self.arguments if not argument.is_file)


def split_command_line(arguments: Sequence[str], base: Path = Path()) -> CommandLine:
    """Sort ``configFile=a+b``, ``key=value`` and ``currentDirectory=dir``; nothing is read. ``base``: where to look."""
    found: list[Argument] = []
    directory: Path | None = None
    for number, text in enumerate(arguments, start=1):
        if text.lower().startswith(_FILE):
            column = len(_FILE) + 1
            for path in _files(text[len(_FILE) :], base / (directory or "")):
                if path:
                    found.append(Argument(path, Location(COMMAND_LINE, number, column), True, directory))
                column += len(path) + 1
            continue
        if text.lower().startswith(_DIRECTORY):
            directory = (directory or Path()) / text[len(_DIRECTORY) :]
        found.append(Argument(text, Location(COMMAND_LINE, number, 1)))
    return CommandLine(tuple(found), directory)


def _files(text: str, base: Path) -> Iterator[str]:
    """Yield the files of ``a+b``: what is between the signs, or the longest name with signs that a file has."""
    while text:
        signs = [at for at, letter in enumerate(text + "+") if letter == "+"]
        end = next((at for at in reversed(signs[1:]) if os.path.isfile(base / text[:at])), signs[0])
        yield text[:end]
        text = text[end + 1 :]


def load_recipe(arguments: Sequence[str], *, directory: Path | None = None) -> Config:
    """Read what the command line names and return the top level of the recipe.

    Args:
        arguments: ``configFile=a+b``, ``key=value``, ``section=[key=value]``, ``currentDirectory=dir``, in any order: a
            later one wins, files included.
        directory: What relative paths count from; the process's directory if not given. It is not changed:
            ``Config.current_directory`` says what was asked for.

    Raises:
        UsageError: No config file is named.
        ConfigError: A file cannot be read or is named twice, or the text is wrong.
    """
    base = directory or Path()
    line = split_command_line(arguments, base)
    if not line.files:
        raise UsageError("no config file is named", hint="cntk configFile=recipe.cntk [key=value ...]")
    here = None if line.directory is None else base / line.directory
    reader = _Reader(here or base)
    parts = [reader.argument(argument, base) for argument in line.arguments]
    text = SourceText.join([reader.with_includes(part) for part in parts], "\n")
    where = Location(next(str(base / (a.directory or "") / a.text) for a in line.arguments if a.is_file))
    entries = parse_entries(text, warnings=reader.warnings)
    return Config(entries, where=where, current_directory=here, warnings=tuple(reader.warnings), unread=UnreadKeys())


def parse_text(text: str, *, file: str = "<text>") -> Config:
    """Return the top level made of a text (comments are not stripped: use ``read_source`` for files)."""
    return Config.from_source(SourceText.of(text, file))


def read_source(path: Path, config: Config | None = None, *, where: Location | None = None) -> SourceText:
    """Read a file of a recipe, such as NDL: comments stripped, ``config``'s variables filled in. ``where`` names it."""
    source = read_file(path, what="file", where=where)
    return source if config is None else config.resolve(source, inner_first=True)


class _Reader:
    """Reads files and fills in ``include=`` lines, each file once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._named: dict[Path, Location] = {}
        self.warnings: list[str] = []

    def argument(self, argument: Argument, base: Path) -> SourceText:
        if not argument.is_file:
            return SourceText(argument.text, (0,), (argument.where,))
        path = base / (argument.directory or "") / as_path(argument.text, argument.where)
        if (first := self._named.get(_same(path))) is not None:
            raise ConfigError(
                f"the config file '{argument.text}' is named twice",
                where=argument.where,
                hint=f"It is already named at {first}; remove one of them.",
            )
        self._named[_same(path)] = argument.where
        return read_file(path, where=argument.where)

    def with_includes(self, source: SourceText) -> SourceText:
        """Return the text with each line ``include=a+b`` replaced by those files, whose own lines come next."""
        done: list[SourceText] = []
        pending = [source]
        while pending:
            part = pending.pop()
            start = _include_line(part.text)
            if start is None:
                done.append(part)
                continue
            end = (part.text + "\n").find("\n", start)
            if start:
                done.append(part.slice(0, start - 1))
            if end < len(part.text):
                pending.append(part.slice(end + 1, len(part.text)))
            pending.extend(reversed(self._included(part.slice(start, end))))
        return SourceText.join(done, "\n")

    def _included(self, line: SourceText) -> list[SourceText]:
        if "$" in line.text:
            raise ConfigError(
                "variables cannot be used in an include line",
                where=line.locate(line.text.index("$")),
                hint="Write the path out; relative paths count from the current directory.",
            )
        texts = []
        offset = len(_INCLUDE)
        for name in _files(line.text[offset:], self._directory):
            where = line.locate(offset)
            offset += len(name) + 1
            path = self._find(name.strip(" \t"), where)
            if not name.strip(" \t"):
                continue
            if (first := self._named.get(_same(path))) is not None:
                self.warnings.append(f"{where}: '{name}' is not included again; it was read before ({first})")
                continue
            if len(self._named) >= _MAX_INCLUDED:
                raise ConfigError("too many files are included", where=where, hint=f"At most {_MAX_INCLUDED}.")
            self._named[_same(path)] = where
            texts.append(read_file(path, what="included file", where=where))
        return texts

    def _find(self, name: str, where: Location) -> Path:
        """Return the path of an include: from the current directory as in the original, else beside the file."""
        path = self._directory / as_path(name, where)
        beside = Path(as_path(str(Path(where.file).parent / name), where))
        return beside if not path.exists() and where.file != COMMAND_LINE and beside.exists() else path


def _include_line(text: str) -> int | None:
    """Return the offset of the first line that begins with ``include=``."""
    found = ("\n" + text).find("\n" + _INCLUDE)
    return None if found < 0 else found


def _same(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return path
