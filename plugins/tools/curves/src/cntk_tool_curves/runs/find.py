"""Finding the runs below a folder by their logs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cntk_core.api import ConfigError, DataError
from cntk_tool_curves.curves import Curves, unique
from cntk_tool_curves.read_log import read_log
from cntk_tool_curves.runs.record import DONE, FAILED, UNFINISHED, Run

_JSON, _TEXT = ".jsonl", (".log", ".txt")
_HEAD = 1 << 16
_INTERRUPTED = "KeyboardInterrupt"
"""What the log of a run says that was ended with Ctrl-C: no failure, it can go on."""

_TRAINING = ("train", "trainRNN", "adapt")
_BANNER = b"CNTK 2."
"""What the log of a run has near its beginning, ours and the original's."""


def find_runs(places: Sequence[str]) -> list[Run]:
    """Return the trainings that logs tell of, in the order in which they began.

    Args:
        places: logs, or folders: all JSON logs below count, and text logs in folders that have no JSON log.

    Raises:
        ConfigError: a place is not there.
        DataError: a log that is named cannot be read, or tells of no training.
    """
    found: dict[Path, list[Run]] = {}
    for place in places:
        path = Path(place)
        if path.is_dir():
            for log in _logs(path):
                found.setdefault(log, _runs_or_none(log))
        elif path.is_file():
            found.setdefault(path, runs_of(path))
        else:
            raise ConfigError(f"there is no log and no folder '{place}'")
    return sorted((run for runs in found.values() for run in runs), key=lambda run: run.begun)


def runs_of(log: Path) -> list[Run]:
    """Return the trainings of one log.

    Raises:
        DataError: it cannot be read, or tells of no training.
    """
    parts = _parts(log) if _is_json(log) else {}
    begun = [job for job, told in parts.items() if told[-1][0].get("action") in _TRAINING]
    try:
        curves = {each.name: each for each in read_log(str(log))}
    except DataError:
        if not begun:
            raise
        curves = {}  # it failed, or was killed, within its first epoch
    jobs = unique([*begun, *curves])
    return [_run(log, curves.get(job) or Curves(job), parts.get(job, [])) for job in jobs]


def _runs_or_none(log: Path) -> list[Run]:
    """Return the trainings of a log that was found: what tells of none is no log of a training."""
    try:
        return runs_of(log)
    except DataError:
        return []


def _logs(folder: Path) -> Iterator[Path]:
    """Yield what may be logs, folder by folder."""
    for where, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        files = [Path(where, name) for name in sorted(names)]
        json_logs = [path for path in files if path.suffix == _JSON and _is_json(path)]
        yield from json_logs or [path for path in files if path.suffix in _TEXT and _has_banner(path)]


def _has_banner(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _BANNER in file.read(_HEAD)
    except OSError:
        return False


def _is_json(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD).lstrip().startswith(b"{")
    except OSError:
        return False


# -- what JSON logs say besides their curves --------------------------------------------------------------

_Lines = list[dict[str, Any]]


def _parts(log: Path) -> dict[str, list[_Lines]]:
    """Return by job the lines of its parts, each from a ``job_begin`` on; lines that are cut off are left out."""
    parts: dict[str, list[_Lines]] = {}
    for text in log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
            job, event = str(line["job"]), line["event"]
        except (ValueError, KeyError, TypeError):
            continue
        if event == "job_begin":
            parts.setdefault(job, []).append([line])
        elif job in parts:
            parts[job][-1].append(line)
    return parts


def _run(log: Path, curves: Curves, parts: list[_Lines]) -> Run:
    job = curves.name
    if not parts:
        return Run(log, job, curves, begun=_changed(log), seconds=sum(epoch.seconds for epoch in curves.epochs))
    begin, last = parts[-1][0], parts[-1][-1]
    ended = last["event"] == "job_end" and last.get("error") != _INTERRUPTED
    return Run(
        log,
        job,
        curves,
        recipe=str(begin.get("recipe") or ""),
        hash=str(begin.get("hash") or ""),
        settings=begin.get("settings") or {},
        begun=float(parts[0][0].get("time") or 0.0),
        seconds=sum(_seconds(part) for part in parts),
        epochs=int(begin.get("epochs") or 0),
        state=(DONE if last.get("succeeded") else FAILED) if ended else UNFINISHED,
        error=str(last.get("error") or "") if ended else "",
    )


def _seconds(part: _Lines) -> float:
    """Return how long a part took; one that was killed, until its last line."""
    last = part[-1]
    if last["event"] == "job_end" and last.get("seconds") is not None:
        return float(last["seconds"])
    return max(0.0, float(last.get("time") or 0.0) - float(part[0].get("time") or 0.0))


def _changed(log: Path) -> float:
    try:
        return log.stat().st_mtime
    except OSError:
        return 0.0
