"""The log for spreadsheets: ``csvLog = "run/log.csv"`` writes a row for each epoch of a training."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cntk_core.api import DataError, ask_to_write, hookimpl
from cntk_tool_curves.curves import unique

if TYPE_CHECKING:
    from cntk_core.api import EpochSummary, Job, Location, Value

KEY = "csvLog"
_JOB, _EPOCH = "job", "epoch"


class CsvLog:
    """A listener that writes the file that a recipe's ``csvLog`` names, and nothing where there is no such key.

    A file that is there is continued. Rows of epochs that are trained again are replaced; where a network has criteria
    that have no column yet, they get one.
    """

    def __init__(self) -> None:
        self._path: Path | None = None

    @hookimpl
    def cntk_sgd_keys(self) -> tuple[str, ...]:
        """Keys of the SGD block that are read here."""
        return (KEY,)

    @hookimpl
    def cntk_job_begin(self, job: Job) -> None:
        """Look at the file, so that one that is something else is reported before anything is learned.

        Raises:
            DataError: the file is no such log.
            OSError: it cannot be read.
        """
        self._path = None
        value = _value(job)
        if value is not None:
            path = Path(value.string())
            read_rows(path, value.where)
            self._path = path

    @hookimpl
    def cntk_epoch_end(self, job: Job, summary: EpochSummary) -> None:
        """Write what an epoch gave.

        Raises:
            OSError: the file cannot be written.
        """
        if self._path is None:
            return
        row = {
            "time": time.strftime("%Y-%m-%d %H:%M:%S"),
            _JOB: job.name,
            _EPOCH: str(summary.epoch + 1),
            "samples": str(summary.samples),
            "seconds": f"{summary.seconds:.3f}",
            "minibatchSize": str(summary.minibatch_size),
            "learningRatePerSample": repr(float(summary.learning_rate)),
            **{name: repr(float(value)) for name, value in summary.criteria.items()},
            **{f"test_{name}": repr(float(value)) for name, value in summary.validation.items()},
        }
        try:
            _add(self._path, row)
        except DataError as error:
            # Somebody has put another file there: that is told, and no reason to end the training.
            raise OSError(error.message) from None


def _value(job: Job) -> Value | None:
    """Return what says where the log of a training goes; only the first of several workers writes one."""
    value = job.block.get(KEY) if job.block is not None and job.network is not None and job.rank == 0 else None
    if value is None or value.is_empty:
        return None
    ask_to_write(value.string(), key=KEY, where=value.where)
    return value


def read_rows(path: Path, where: Location | None = None) -> list[dict[str, str]]:
    """Return the rows of a log by the names of their columns; none where there is no file.

    A row that a killed run has not finished is left out.

    Args:
        path: the file.
        where: what names it, for messages.

    Raises:
        DataError: the file is something else.
        OSError: it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    whole = text[: text.rfind("\n") + 1]
    reader = csv.DictReader(whole.splitlines(keepends=True), strict=True)
    try:
        if text and not {_JOB, _EPOCH} <= set(reader.fieldnames or ()):
            raise DataError(
                f"'{path}' is no log that {KEY} has written: it has no columns {_JOB} and {_EPOCH}",
                where=where,
                hint=f"Give another file: {KEY}=run/log.csv",
            )
        return [{key: value or "" for key, value in row.items()} for row in reader]
    except csv.Error as error:
        raise DataError(f"'{path}' is no log that {KEY} has written: {error}", where=where) from None


def _add(path: Path, row: dict[str, str]) -> None:
    """Add a row: behind the others where it fits there, otherwise all are written anew."""
    rows = read_rows(path)
    kept = [old for old in rows if old[_JOB] != row[_JOB] or int(old[_EPOCH]) < int(row[_EPOCH])]
    columns = unique(column for each in (*kept, row) for column in each)
    if rows and len(kept) == len(rows) and columns == list(rows[0]) and _ends_with_a_line(path):
        with path.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, columns, restval="", lineterminator="\n").writerow(row)
        return
    _write(path, columns, [*kept, row])


def _ends_with_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _write(path: Path, columns: Sequence[str], rows: Sequence[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(new, path)
