"""Where the text of a description stands: sections of the builder's block, files, files with macros."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cntk_core.api import BuildContext, BuildError, CntkError, Config, Location, SourceText, read_source


def macro_sources(names: str, config: Config | None, context: BuildContext, where: Location) -> list[SourceText]:
    """Return the texts of the macro files that ``ndlMacros`` lists (``a.ndl+b.ndl``).

    Args:
        names: the value of the key.
        config: fills in the ``$variables$`` of the files.
        context: relative paths start at its directory.
        where: the place of the key.

    Raises:
        ConfigError, BuildError: a file cannot be read or lacks a section that it names.
    """
    found: list[SourceText] = []
    for name in names.split("+"):
        if name.strip():
            file = read_source(context.directory / name.strip(), config, where=where)
            found += sections_of(file, None)
    return found


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
