"""Tables, for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence

from cntk_core.api import ConfigError
from cntk_tool_curves.curves import unique
from cntk_tool_curves.json_log import plain

Row = Mapping[str, object]
FORMATS = ("text", "csv", "json")


def table(rows: Sequence[Row], form: str = "text") -> str:
    """Return rows as a table whose columns are the keys of all rows.

    Args:
        rows: texts, numbers, truths, or None for what is not known.
        form: ``text``, ``csv`` or ``json`` (a list of objects).

    Raises:
        ConfigError: there is no such form.
    """
    columns = unique(column for row in rows for column in row)
    if form == "json":
        return json.dumps([plain(row) for row in rows], indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if form == "csv":
        file = io.StringIO()
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)
        return file.getvalue()
    if form != "text":
        raise ConfigError(f"there is no table '{form}'", hint=", ".join(FORMATS))
    return _text([columns, *([shown(row.get(column)) for column in columns] for row in rows)], _numeric(columns, rows))


def shown(value: object) -> str:
    """Return a value as a cell of a table for people."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """Return a time as people say it: ``12.3 s``, ``4:07 min``, ``3:25 h``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02} h"


def _numeric(columns: Sequence[str], rows: Sequence[Row]) -> list[bool]:
    """Say which columns have numbers alone; they stand at the right."""
    return [all(isinstance(row.get(column), int | float | None) for row in rows) for column in columns]


def _text(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    widths = [max(len(line[at]) for line in lines) for at in range(len(right))]
    return "".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )
