"""Reading the curves of a run back: from its JSON log, or from a text log of ours or of the original."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cntk_core.api import DataError
from cntk_tool_curves.curves import Curves, Epoch, Reading

_RANK = re.compile(r"^MPI Rank (\d+): ")
_TITLE = re.compile(r"# (\S+) command \((\w+) action\) +#")
_EPOCH = re.compile(r"Finished Epoch\[ *(\d+) of \d+\]: \[(Training|Validate)\] (.*)")
_MINIBATCH = re.compile(r"(?<!\S) Epoch\[ *(\d+) of \d+\]-Minibatch\[ *\d+- *(\d+)(?:, [^\]]*)?\]: (.*)")
_CRITERION = re.compile(r"([^=;]+?) = (\S+?)(%?) \* \d+")
_RATE = re.compile(r"learningRatePerSample = ([^;\s]+)")
_SECONDS = re.compile(r"(?:epochTime|time) ?= ?([^;\s]+?)s(?:;|$)")


def read_log(path: str) -> list[Curves]:
    """Return the trainings that a log tells of, in the order in which they began.

    Lines that tell of anything else are left out, and so is a line of JSON that a killed run has not finished.

    Raises:
        DataError: the file cannot be read, or tells of no training.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(f"the log '{path}' cannot be read: {error.strerror}") from None
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    told = _read_json(lines) if first.startswith("{") else _read_text(lines)
    found = [curves for curves in told if curves]
    if not found:
        raise DataError(
            f"the log '{path}' tells of no training",
            hint='It should be a text log with "Finished Epoch[...]" lines, or a file that jsonLog=... has written.',
        )
    return found


class _Trainings:
    """The trainings of a log, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Curves] = {}

    def __getitem__(self, name: str) -> Curves:
        return self._by_name.setdefault(name, Curves(name))

    def all(self) -> list[Curves]:
        return list(self._by_name.values())


# -- JSON -------------------------------------------------------------------------------------------------


def _read_json(lines: Iterable[str]) -> list[Curves]:
    trainings = _Trainings()
    for line in lines:
        try:
            told = json.loads(line)
            take = _TAKERS.get(told["event"])
            if take is not None:
                take(trainings[str(told["job"])], told)
        except (ValueError, KeyError, TypeError):
            continue
    return trainings.all()


def _take_epoch(curves: Curves, told: Mapping[str, Any]) -> None:
    rate = told.get("learningRatePerSample")
    criteria, validation = _numbers(told["criteria"]), _numbers(told.get("validation", {}))
    curves.add_epoch(Epoch(int(told["epoch"]), criteria, validation, rate, _number(told.get("seconds", 0.0))))


def _take_minibatch(curves: Curves, told: Mapping[str, Any]) -> None:
    curves.add_reading(Reading(int(told["epoch"]), int(told["minibatch"]), _numbers(told["criteria"])))


_TAKERS: dict[str, Callable[[Curves, Mapping[str, Any]], None]] = {
    "epoch_end": _take_epoch,
    "minibatch": _take_minibatch,
}


def _numbers(told: Mapping[str, Any]) -> dict[str, float]:
    return {name: _number(value) for name, value in told.items()}


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


# -- text -------------------------------------------------------------------------------------------------


def _read_text(lines: Iterable[str]) -> list[Curves]:
    trainings = _Trainings()
    command = ""
    for line in lines:
        rank = _RANK.match(line)
        if rank is not None and int(rank[1]) != 0:
            continue  # every rank tells the same
        if title := _TITLE.search(line):
            command = title[1]
        elif ended := _EPOCH.search(line):
            _take_ended(trainings[command], int(ended[1]), ended[2], ended[3])
        elif shown := _MINIBATCH.search(line):
            reading = Reading(int(shown[1]), int(shown[2]), _criteria(shown[3]))
            trainings[command].add_reading(reading)
    return trainings.all()


def _take_ended(curves: Curves, number: int, kind: str, text: str) -> None:
    criteria = _criteria(text)
    if kind == "Validate":
        curves.add_validation(number, criteria)
        return
    rate, seconds = _RATE.search(text), _SECONDS.search(text)
    curves.add_epoch(
        Epoch(
            number,
            criteria,
            rate=None if rate is None else _parsed(rate[1]),
            seconds=0.0 if seconds is None else _parsed(seconds[1]),
        )
    )


def _criteria(text: str) -> dict[str, float]:
    """Parse ``ce = 1.25 * 16; errs = 81.250% * 16; ...``; errors in percent become fractions."""
    found: dict[str, float] = {}
    for name, number, percent in _CRITERION.findall(text):
        value = _parsed(number)
        found.setdefault(name.strip(), value / 100.0 if percent else value)
    return found


def _parsed(text: str) -> float:
    """Parse a number; the words with which compilers print what is none are no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan
