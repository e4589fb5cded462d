"""The action createLabelMap: the names in the label column of a table of columns, one per line, as they appear first.

Only the reader of columns (``UCIFastReader``) has ever taken part in this action, so the column is read here and the
reader need not be installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from cntk_core.api import (
    Action,
    Config,
    ConfigError,
    DataError,
    Location,
    TrainingError,
    UnsupportedError,
    ask_to_write,
)
from cntk_core.api.builders import write_file
from cntk_core.api.recipes import RecipeContext

_READERS = ("ucifastreader",)
_LABEL_KEYS = ("labelMappingFile", "labelDim", "labelType")


@attrs.frozen
class LabelColumn:
    """Where names stand.

    Attributes:
        file: a table with a sample per line.
        first: index of the column, from 0.
        count: how many columns hold names, side by side.
        delimiters: characters between columns.
        target: the file to write.
        where: the place of the labels in the recipe.
    """

    file: str
    first: int
    count: int
    delimiters: str
    target: Path
    where: Location


class LabelMapAction(Action):
    """Writes the names in the label column of a table of columns, one per line, as they appear first."""

    requires_api = "1.0"
    name = "createLabelMap"

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        for column in _columns(section):
            ask_to_write(column.target, key="labelMappingFile", where=column.where)

    def run(self, context: RecipeContext, section: Config) -> None:
        """Write the names of each label section to its ``labelMappingFile``; one that is there is left alone.

        Raises:
            DataError: the data cannot be read, or a line has too few columns.
            TrainingError: the file cannot be written.
        """
        for column in _columns(section):
            if column.target.exists():
                context.log.plain(
                    f"CreateLabelMap: the label mapping file '{column.target}' already exists, no work to do."
                )
                return
            context.log.plain(f"CreateLabelMap: Creating the mapping file '{column.target}' ")
            names, count = _distinct(read_names(column))
            try:
                write_file(column.target, ["".join(f" {name} \n" for name in names).encode("utf-8", "surrogateescape")])
            except OSError as error:
                raise TrainingError(f"the file '{column.target}' cannot be written: {error.strerror}") from None
            if section.integer("traceLevel", 0) > 0:
                context.log.plain(f"\nread {count} labels and produced {column.target}")


def _columns(section: Config) -> list[LabelColumn]:
    name = section.require("section")
    if section.get(name.string()) is None:
        error = section.missing(name.string())
        error.where = name.where
        raise error
    reader = section.section(name.string()).section("reader")
    kind = reader.string("readerType")
    if kind.lower() not in _READERS:
        raise UnsupportedError(
            f"createLabelMap reads tables of columns (UCIFastReader), not the data of '{kind}'",
            where=reader.location("readerType"),
            hint="Other readers give labels as numbers, or take a labelMappingFile that is there already.",
        )
    labels = [block for block in reader.sections() if _has_labels(block)]
    if not labels:
        raise ConfigError(
            "CreateLabelMap: no labels found to process",
            where=reader.where,
            hint="Add labels=[ start=... ; labelType=category ; labelMappingFile=... ] to the reader.",
        )
    return [_column(block) for block in sorted(labels, key=lambda block: block.name.lower())]


def _has_labels(block: Config) -> bool:
    kind = block.own("sectionType")
    named = kind is not None and kind.string().lower() == "labels"
    return named or any(block.own(key) is not None for key in _LABEL_KEYS)


def _column(block: Config) -> LabelColumn:
    target = block.get("labelMappingFile")
    if target is None:
        raise ConfigError("CreateLabelMap: No labelMappingFile defined", where=block.where, hint="labelMappingFile=...")
    return LabelColumn(
        file=block.string("file"),
        first=block.integer("start"),
        count=block.integer("dim", 1),
        delimiters=block.string("customDelimiter", "") or " \t",
        target=Path(target.string()),
        where=block.where,
    )


def read_names(column: LabelColumn) -> Iterator[str]:
    """Yield the names of a table in their order.

    Raises:
        DataError: the file cannot be read, or a line has too few columns.
    """
    cut = re.compile(f"[{re.escape(column.delimiters)}]+")
    last = column.first + column.count
    try:
        with open(column.file, encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, start=1):
                fields = [field for field in cut.split(line.strip()) if field]
                if not fields:
                    continue
                if len(fields) < last:
                    raise DataError(
                        f"the line has {len(fields)} columns; labels stand in column {last}",
                        where=Location(column.file, number),
                        hint=f"Columns count from 0: start={column.first} ({column.where}).",
                    )
                yield from fields[column.first : last]
    except OSError as error:
        raise DataError(f"'{column.file}' cannot be read: {error.strerror}", where=column.where) from None


def _distinct(names: Iterable[str]) -> tuple[list[str], int]:
    """The names as they appear first, and how many were read."""
    found: dict[str, None] = {}
    count = 0
    for name in names:
        found[name] = None
        count += 1
    return list(found), count
