"""What ``cntk runs`` prints and draws."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cntk_core.api import ConfigError, UsageError
from cntk_tool_curves.curves import unique
from cntk_tool_curves.plot_log import check_drawable, plot_curves
from cntk_tool_curves.runs.find import find_runs
from cntk_tool_curves.runs.record import Run, check_criterion, ranked
from cntk_tool_curves.runs.table import Row, duration, shown, table
from cntk_tool_curves.settings import INDIFFERENT


def list_runs(
    places: Sequence[str],
    *,
    criterion: str = "",
    largest: bool = False,
    best_first: bool = False,
    form: str = "text",
) -> int:
    """Print a line for each run.

    Args:
        places: logs, and folders with logs below them.
        criterion: by which an epoch is the best one; by default the first evaluation node.
        largest: the largest value is the best one.
        best_first: in this order; otherwise as they began.
        form: ``text``, ``csv`` or ``json``.

    Raises:
        CntkError: a place is not there, there are no runs, or none has the criterion.
    """
    runs = _found(places, criterion)
    if best_first:
        runs = ranked(runs, criterion, largest=largest)
    names = names_of(runs)
    rows = [_row(name, run, criterion, largest=largest, people=form == "text") for name, run in names.items()]
    print(table(rows, form), end="")
    return 0


def compare_runs(places: Sequence[str], *, criterion: str = "", largest: bool = False, form: str = "text") -> int:
    """Print in which settings and results some runs differ, with a column for each run.

    Args:
        places, criterion, largest, form: as of :func:`list_runs`.

    Raises:
        CntkError: as of :func:`list_runs`, or there are less than two runs.
    """
    runs = names_of(_found(places, criterion))
    if len(runs) < 2:
        raise UsageError(f"only one run is there: {next(iter(runs))}", hint="Name two runs, or a folder with several.")
    results = {name: _results(run, criterion, largest=largest, people=form == "text") for name, run in runs.items()}
    rows = [*_differing_settings(runs), *_lines(results)]
    print(table(rows, form), end="")
    silent = [name for name, run in runs.items() if not run.settings]
    if silent and form == "text":
        print(f"\nNothing is known of the settings of {', '.join(silent)}: only logs of jsonLog=... tell them.")
    return 0


def plot_runs(places: Sequence[str], output: str, *, criteria: Sequence[str] = (), logarithmic: bool = False) -> int:
    """Draw the learning curves of some runs.

    Args:
        places: as of :func:`list_runs`.
        output: the file; its suffix says the format.
        criteria: which ones; by default all.
        logarithmic: on a logarithmic scale.

    Raises:
        CntkError: as of :func:`list_runs`, or the file cannot be drawn or written.
    """
    check_drawable(output, "cntk runs plot")
    runs = names_of(_found(places, ""))
    plot_curves({name: run.curves for name, run in runs.items()}, output, criteria=criteria, logarithmic=logarithmic)
    print(f"{len(runs)} run{'s' * (len(runs) != 1)}: {output}")
    return 0


def names_of(runs: Sequence[Run]) -> dict[str, Run]:
    """Return runs by the shortest names that tell them apart.

    That is the folder of the log from where all folders differ, with the log and the command where there are several.
    """
    folders = [run.log.parent for run in runs]
    common = Path(os.path.commonpath([folder.absolute() for folder in folders])) if runs else Path()
    short = [folder.absolute().relative_to(common).as_posix() for folder in folders]
    for more in ([run.log.name for run in runs], [run.job for run in runs]):
        short = [
            name if short.count(name) == 1 else end if name == "." else f"{name}/{end}"
            for name, end in zip(short, more, strict=True)
        ]
    named = [run.log.name if name == "." else name for name, run in zip(short, runs, strict=True)]
    return dict(zip(named, runs, strict=True))


def _found(places: Sequence[str], criterion: str) -> list[Run]:
    runs = find_runs(places)
    if not runs:
        raise ConfigError(
            f"no run has left a log in {', '.join(places)}",
            hint="A recipe with jsonLog=run/log.jsonl, or stderr=run/log.txt, leaves one.",
        )
    check_criterion(runs, criterion)
    return runs


def _row(name: str, run: Run, criterion: str, *, largest: bool, people: bool) -> Row:
    begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.begun))
    about = {"run": name, "recipe": Path(run.recipe).name if people else run.recipe, "hash": run.hash}
    return {
        **about,
        "begun": begun if people else run.begun,
        **_results(run, criterion, largest=largest, people=people),
    }


def _results(run: Run, criterion: str, *, largest: bool, people: bool) -> dict[str, object]:
    best, done = run.best(criterion, largest=largest), len(run.curves.epochs)
    if people:
        told = "" if best is None else f"{shown(best.value)} {best.name}{'' if best.validated else ' (training)'}"
        of = f" of {run.epochs}" if run.epochs > done else ""
        return {
            "state": run.state,
            "epochs": f"{done}{of}",
            "best": told,
            "at epoch": None if best is None else best.epoch,
            "time": duration(run.seconds),
        }
    return {
        "state": run.state,
        "epochs": done,
        "epochsAsked": run.epochs,
        "criterion": None if best is None else best.name,
        "best": None if best is None else best.value,
        "bestEpoch": None if best is None else best.epoch,
        "validated": None if best is None else best.validated,
        "seconds": run.seconds,
        "log": str(run.log),
        "error": run.error,
    }


def _differing_settings(runs: Mapping[str, Run]) -> list[Row]:
    """Return a row for each setting in which runs differ, but for those that change nothing that is learned.

    A run that does not have it has an empty cell.
    """
    told = {name: run for name, run in runs.items() if run.settings}
    paths = unique(path for run in told.values() for path in run.settings)
    rows: list[Row] = []
    for path in paths:
        values = {name: run.settings.get(path) for name, run in told.items()}
        if len(set(values.values())) > 1 and path.rpartition(":")[2].lower() not in INDIFFERENT:
            rows.append({"key": path, **values})
    return rows


def _lines(results: Mapping[str, Mapping[str, object]]) -> list[Row]:
    """Return a row for each result, with a column for each run."""
    keys = unique(key for result in results.values() for key in result)
    return [{"key": key, **{name: result.get(key) for name, result in results.items()}} for key in keys if key != "log"]
