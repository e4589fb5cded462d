"""Where texts come from: the library in the wheel, files that a description includes."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from importlib import resources
from pathlib import Path, PurePosixPath, PureWindowsPath

import attrs

from cntk_builder_brainscript.parser import parse
from cntk_builder_brainscript.syntax import LIBRARY, RecordLiteral
from cntk_core.api import BuildError, CntkError, Location, did_you_mean
from cntk_core.api.builders import SourceText

CORE = "cntk.core.bs"
"""The file of the library that has everything."""


@functools.cache
def library() -> RecordLiteral:
    """Return the definitions of the core library; it is parsed once."""
    return parse(library_text(CORE), lambda name, where: library_text(name, where))


def library_names() -> list[str]:
    """The names of the library's files."""
    folder = resources.files("cntk_builder_brainscript") / "library"
    return sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".bs"))


def library_text(name: str, where: Location | None = None) -> SourceText:
    """Return a file of the library. Raises BuildError if there is none of that name."""
    known = {file.lower(): file for file in library_names()}
    file = known.get(name.lower())
    if file is None:
        raise BuildError(f"the library has no file '{name}'{did_you_mean(name, known.values())}", where=where)
    text = (resources.files("cntk_builder_brainscript") / "library" / file).read_text(encoding="utf-8")
    return SourceText.of(text, f"{LIBRARY}/{file}")


@attrs.frozen
class Finder:
    """Finds included texts: as the path says, in further folders, there also by the name alone, and in the library.

    Attributes:
        directory: relative paths start here.
        folders: the folders of the recipe's files, and those that the command line names.
    """

    directory: Path
    folders: tuple[Path, ...]

    @classmethod
    def beside(cls, directory: Path, files: Iterable[str]) -> Finder:
        """Return the finder for a recipe that consists of some files."""
        folders = dict.fromkeys(directory / Path(file).parent for file in files if not file.startswith("<"))
        return cls(directory, tuple(folders))

    def __call__(self, path: str, where: Location) -> SourceText:
        """Return the text of ``include "path"``.

        Raises:
            BuildError: there is no such file, or it cannot be read.
        """
        if where.file.startswith(LIBRARY):
            return library_text(path, where)
        name = PurePosixPath(PureWindowsPath(path).as_posix()).name
        beside = self.directory / Path(where.file).parent if not where.file.startswith("<") else self.directory
        further = [folder / part for folder in self.folders for part in dict.fromkeys((path, name))]
        for candidate in (self.directory / path, beside / path, *further):
            if candidate.is_file():
                return read_text(candidate, where)
        try:
            return library_text(name)
        except CntkError:
            searched = dict.fromkeys(str(folder) for folder in (self.directory, beside, *self.folders))
            raise BuildError(
                f"there is no file '{path}' to include", where=where, hint=f"Searched in: {', '.join(searched)}"
            ) from None


def read_text(path: Path, where: Location) -> SourceText:
    """Return the text of a file. Raises BuildError if it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BuildError(f"cannot read '{path}': {error.strerror or error}", where=where) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return SourceText.of(text.replace("\r\n", "\n"), str(path))
