"""Where the time of a program goes: what each step of what is computed takes, between two calls.

``start_profiler`` has everything be compiled anew, so that it tells its times; ``enable_profiler`` begins to note them.
``stop_profiler`` writes two files into a folder: a summary, and a time line for ``chrome://tracing`` and Perfetto.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import attrs

from cntk._graph import run

_BYTES = 120
"""About what a step that is noted takes."""

_COLUMNS = ("Description", "Mean", "StdDev", "Min", "Max", "Count", "Total")
_WIDTH, _COLUMN = 52, 16


class _Runs(list[Any]):
    """What programs tell, as long as somebody wants it and there is room.

    Args:
        room: how many steps there is room for.
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self.wanted, self.room, self.lost = False, room, 0

    def append(self, found: Any) -> None:
        """Note a run."""
        if not self.wanted:
            return
        self.room -= 1 + len(found.steps)
        if self.room < 0:
            self.lost += 1
        else:
            super().append(found)


@attrs.define(eq=False)
class _Profiler:
    """The profiler of this program.

    Attributes:
        runs: what programs have told; None while there is no profiler.
        folder: for the files; None if nothing is written.
    """

    runs: _Runs | None = None
    folder: Path | None = None
    _open: ExitStack = attrs.field(factory=ExitStack)

    def begin(self, folder: Path | None, room: int) -> None:
        """Have programs be compiled so that they tell."""
        from cntk_core.api.engines import measured

        self.runs, self.folder = _Runs(room), folder
        self._open.enter_context(measured()).runs = self.runs
        run.compile_again()

    def end(self) -> None:
        """Have programs be compiled so that they do not."""
        self._open.close()
        self.runs = self.folder = None
        run.compile_again()


_PROFILER = _Profiler()


def start_profiler(dir: str = "profiler", sync_gpu: bool = True, reserve_mem: int = 32 * 1024 * 1024) -> None:
    """Get ready to note times; :func:`enable_profiler` begins.

    Args:
        dir: folder for the files.
        sync_gpu: is taken for compatibility: steps on a GPU are always waited for.
        reserve_mem: bytes for what is noted; what comes when they are full is counted alone.

    Raises:
        RuntimeError: it was started before.
    """
    if _PROFILER.runs is not None:
        raise RuntimeError("the profiler was started already: stop_profiler() ends it")
    _PROFILER.begin(Path(dir), reserve_mem // _BYTES)


def enable_profiler() -> None:
    """Note times from now on. Without :func:`start_profiler` nothing happens."""
    if _PROFILER.runs is not None:
        _PROFILER.runs.wanted = True


def disable_profiler() -> None:
    """Note none for the time being."""
    if _PROFILER.runs is not None:
        _PROFILER.runs.wanted = False


def stop_profiler() -> None:
    """Write what was noted, and end.

    The files are named after the time: ``..._summary_.txt``, and ``..._detail_.json`` in the form that
    ``cntk explain --time --trace`` writes. Without :func:`start_profiler` nothing happens.

    Raises:
        OSError: they cannot be written.
    """
    runs, folder = _PROFILER.runs, _PROFILER.folder
    if runs is None:
        return
    _PROFILER.end()
    if folder is not None:
        _write(runs, folder)


def _write(runs: _Runs, folder: Path) -> None:
    from cntk_core.api.engines import trace

    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now()
    stem = folder / now.strftime("%Y-%m-%d_%H-%M-%S")
    lines = ["CNTK Performance Profiler Summary Report", "", f"Time Stamp: {now:%Y/%m/%d %H:%M:%S}", ""]
    lines += [*_table(runs), *([f"{runs.lost} later runs had no room: reserve_mem is too small"] if runs.lost else [])]
    Path(f"{stem}_summary_.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    Path(f"{stem}_detail_.json").write_text(json.dumps(trace("import cntk", runs)), encoding="utf-8")


def _table(runs: Iterable[Any]) -> list[str]:
    """Return lines with what runs of programs, their parts and their steps took, in milliseconds."""
    from cntk_core.api.engines import describe_step

    found: dict[str, list[int]] = {}
    parts: dict[str, list[int]] = {}
    for each in runs:
        training = each.call == "train_step"
        found.setdefault("_Minibatch Iteration" if training else f"_{each.call}", []).append(each.end - each.begin)
        update = sum(one.end - one.begin for one in each.steps if one.step is None)
        if training:
            found.setdefault("__Forward + Backward", []).append(each.end - each.begin - update)
            found.setdefault("__Weight Update", []).append(update)
        for one in each.steps:
            if one.step is not None:
                parts.setdefault(f"___{describe_step(one.step)}", []).append(one.end - one.begin)
    largest = dict(sorted(parts.items(), key=lambda item: -sum(item[1])))
    head = _COLUMNS[0].ljust(_WIDTH) + "".join(column.rjust(_COLUMN) for column in _COLUMNS[1:])
    return [head, "", *(_line(name, times) for name, times in {**found, **largest}.items())]


def _line(name: str, times: list[int]) -> str:
    milliseconds = [each / 1e6 for each in times]
    numbers = (fmean(milliseconds), pstdev(milliseconds), min(milliseconds), max(milliseconds))
    cells = [*(f"{each:.3f} ms" for each in numbers), str(len(times)), f"{sum(milliseconds):.3f} ms"]
    return name.ljust(_WIDTH) + "".join(cell.rjust(_COLUMN) for cell in cells)


__all__ = ["disable_profiler", "enable_profiler", "start_profiler", "stop_profiler"]
