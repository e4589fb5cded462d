"""Where the text of a description stands: sections of the builder's block, files, files with macros."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cntk_core.api import BuildContext, BuildError, CntkError, Config, Location
from cntk_core.api.builders import SourceText, parse_text, read_source

_LIBRARY = Path(__file__).parent / "library"
_LIBRARY_FILES = {
    "defaultmacros.txt": "default_macros.ndl",
    "default_macros.ndl": "default_macros.ndl",
    "macros.txt": "dnn_macros.ndl",
    "dnn_macros.ndl": "dnn_macros.ndl",
    "macros.ndl": "image_macros.ndl",
    "image_macros.ndl": "image_macros.ndl",
}
"""Names of macro files that come with CNTK and its examples, and the files of this wheel that stand in for them."""

_LIBRARY_VARIABLES = {"imageLayout": "cudnn"}
"""What the macros of the library take from the recipe, and what it is if the recipe does not say."""


def macro_sources(names: str, config: Config | None, context: BuildContext, where: Location) -> list[SourceText]:
    """Return the texts of the macro files that ``ndlMacros`` lists (``a.ndl+b.ndl``).

    A file that does not exist and has the name of one that comes with CNTK is taken from this wheel.

    Args:
        names: the value of the key.
        config: fills in the ``$variables$`` of the files.
        context: relative paths start at its directory; its trace tells of files from the wheel.
        where: the place of the key.

    Raises:
        ConfigError, BuildError: a file cannot be read or lacks a section that it names.
    """
    found: list[SourceText] = []
    for name in filter(None, map(str.strip, names.split("+"))):
        path = context.directory / name
        own = _LIBRARY_FILES.get(name.replace("\\", "/").rpartition("/")[2].lower())
        if own is None or path.exists():
            found += sections_of(read_source(path, config, where=where), None)
            continue
        context.trace(f"NDL: there is no file '{name}'; taking the macros {own} that come with cntk-builder-ndl")
        found.append(read_source(_LIBRARY / own, _with_library_variables(config), where=where))
    return found


def _with_library_variables(config: Config | None) -> Config:
    config = config or parse_text("")
    missing = [f"{key}={value}" for key, value in _LIBRARY_VARIABLES.items() if key not in config]
    return config.child("\n".join(missing)) if missing else config


def is_of_library(where: Location) -> bool:
    """Whether a place is in a macro file of this wheel."""
    return Path(where.file).parent == _LIBRARY


def snippet_sources(path: Path, section: str, config: Config | None, where: Location) -> list[SourceText]:
    """Return the texts of a file with a piece of a description, as MEL's ``LoadNDLSnippet`` reads it.

    Args:
        path: the file.
        section: the section with the statements; ``""`` takes what ``load`` and ``run`` of the file name, or else all.
        config: fills in the ``$variables$`` of the file.
        where: the place of the command.

    Raises:
        ConfigError, BuildError: the file cannot be read or lacks the section.
    """
    file = read_source(path, config, where=where)
    if section:
        return [section_of(Config.from_source(file), section, "section", where)]
    return list(sections_of(file, None))


def sections_of(
    source: SourceText, config: Config | None, load: Sequence[str] = (), run: Sequence[str] = ()
) -> Iterator[SourceText]:
    """Yield the sections of a file that ``load`` and ``run`` name, in the builder's block or there; else all of it."""
    sections = _as_sections(source)
    load = load or (sections.strings("load", ()) if sections else ())
    run = run or (sections.strings("run", ()) if sections else ())
    if not load and not run:
        yield source
        return
    for key, names in (("load", load), ("run", run)):
        outside = config is not None and key in config
        for name in names:
            place = config.location(key) if config is not None and outside else None
            if sections is None:
                sections = Config.from_source(source)
            yield section_of(sections, name, key, place or sections.location(key))


def _as_sections(source: SourceText) -> Config | None:
    """Read a file as sections; None for a bare description, whose own parser says what is wrong with it."""
    try:
        return Config.from_source(source)
    except CntkError:
        return None


def section_of(sections: Config, name: str, key: str, where: Location) -> SourceText:
    """Return the text of a section.

    Raises:
        BuildError: there is none of that name; ``where`` is the place that names it, ``key`` its key.
    """
    value = sections.get(name)
    if value is None:
        raise BuildError(
            f"there is no section '{name}', which '{key}' names",
            where=where,
            hint=f"Sections here: {', '.join(sections.keys()) or 'none'}",
        )
    return value.resolved()
