"""Running a sweep, and what came of it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import attrs

from cntk_core.api import CntkError, ConfigError, TrainingError, UsageError
from cntk_core.api.recipes import load_recipe
from cntk_tool_curves.plot_log import check_drawable, plot_curves
from cntk_tool_curves.runs.find import runs_of
from cntk_tool_curves.runs.record import Run, check_criterion, ranked
from cntk_tool_curves.runs.table import Row, duration, shown, table
from cntk_tool_curves.sweep.grid import Point, grid, split_words
from cntk_tool_curves.sweep.places import LOG, moved
from cntk_tool_curves.sweep.point_file import BEGUN, DONE, FAILED, OUTPUT, PointFile
from cntk_tool_curves.sweep.pool import Task, run_tasks

RESULTS = "results"
_DRAWN = 10
"""Curves in a picture: the best ones, as many as there are colors."""

_HASH_LENGTH = 12
_LAST = 4000
"""Characters at the end of what a run has printed, among which its message is."""


@attrs.frozen
class SweepRequest:
    """What a sweep is to do.

    Attributes:
        recipe: ``configFile=...``.
        words: ``key=a,b,c`` and ``key=value``.
        folder: with a folder for each point.
        jobs: points at a time.
        ranks: of each training; 0: as a single process.
        count: points by chance; 0: all.
        seed: of the choice.
        criterion: by which points are compared; by default the first evaluation node.
        largest: the largest value is the best one.
        plot: a file for the learning curves of the best points; empty: none.
        options: words for each training besides, such as ``--plugin``.
    """

    recipe: str
    words: tuple[str, ...]
    folder: Path
    jobs: int = 1
    ranks: int = 0
    count: int = 0
    seed: int = 1
    criterion: str = ""
    largest: bool = False
    plot: str = ""
    options: tuple[str, ...] = ()


def run_sweep(request: SweepRequest) -> int:
    """Train all points that are not done yet, and print what all of them gave.

    Returns:
        0, or 1 if a point failed.

    Raises:
        CntkError: the recipe or the words are wrong, or the folder has points of another recipe.
    """
    if request.jobs < 1:
        raise UsageError(f"--jobs {request.jobs} makes no sense: it is the number of trainings at a time")
    if request.plot:
        check_drawable(request.plot, "cntk sweep --plot")
    sweep = Sweep.of(request)
    try:
        sweep.run()
    except OSError as error:
        raise TrainingError(
            f"the folder '{request.folder}' cannot be written: {error.strerror}",
            hint="Give another one with -o FOLDER.",
        ) from None
    return sweep.tell()


@attrs.define(eq=False)
class Sweep:
    """A sweep that runs.

    Attributes:
        request: what it is to do.
        points: the points by the name of their folders.
        fixed: the ``key=value`` that all points have.
        places: those of each point, by the name of its folder: where it writes.
        recipe: a short text that changes with the recipe.
    """

    request: SweepRequest
    points: Mapping[str, Point]
    fixed: Sequence[str]
    places: Mapping[str, Sequence[str]]
    recipe: str
    _ended: int = 0

    @classmethod
    def of(cls, request: SweepRequest) -> Sweep:
        """Read the recipe, and make the points.

        Raises:
            CntkError: the recipe or the words are wrong, or the folder has points of another recipe.
        """
        axes, fixed = split_words(request.words, load_recipe([request.recipe]))
        if not axes:
            raise UsageError(
                "no key has several values", hint="cntk sweep recipe.cntk key=a,b,c [key2=d,e] [key=value ...]"
            )
        config = load_recipe([request.recipe, *fixed])
        config.check_variables()
        points = {point.folder: point for point in grid(axes, request.count, request.seed)}
        places = {name: moved(config, request.folder / name) for name in points}
        recipe = hashlib.sha256(config.dump(resolved=False).encode()).hexdigest()[:_HASH_LENGTH]
        sweep = cls(request, points, fixed, places, recipe)
        sweep._check_recipe()
        return sweep

    def _check_recipe(self) -> None:
        """Raise if points that have learned something are those of another recipe."""
        for name in self.points:
            told = PointFile.read(self._folder(name))
            if told is not None and told.recipe != self.recipe and (told.state == DONE or self._epochs(name)):
                raise ConfigError(
                    f"'{self._folder(name)}' has been trained with another recipe, or with other key=value",
                    hint="Give another folder with -o, or remove this one.",
                )

    def _folder(self, name: str) -> Path:
        return self.request.folder / name

    def _epochs(self, name: str) -> int:
        run = self._run_of(name)
        return 0 if run is None else len(run.curves.epochs)

    # -- running ------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Train what is not done.

        Raises:
            OSError: the folder cannot be written.
        """
        files = {name: PointFile.read(self._folder(name)) for name in self.points}
        todo = [name for name, told in files.items() if told is None or told.state != DONE]
        done = len(self.points) - len(todo)
        print(f"{_count(len(self.points), 'point')} in {self.request.folder}{f', {done} done before' if done else ''}")
        self._ended = done
        run_tasks([self._task(name) for name in todo], self.request.jobs, self.request.ranks)

    def _task(self, name: str) -> Task:
        folder = self._folder(name)
        command = [sys.executable, "-P", "-m", "cntk_core", "train", self.request.recipe, *self.fixed]
        command += [*self.points[name].overrides, *self.places[name], *self.request.options]
        command += ["-n", str(self.request.ranks)] if self.request.ranks else []
        return Task(command, folder / OUTPUT, partial(self._note, name, BEGUN), partial(self._end, name))

    def _note(self, name: str, state: str, code: int = 0) -> None:
        values = {":".join(path): value for path, value in self.points[name].values.items()}
        PointFile(values, self.recipe, state, code).write(self._folder(name))

    def _end(self, name: str, code: int) -> None:
        self._note(name, FAILED if code else DONE, code)
        self._ended += 1
        if code:
            told = f"failed: {self._message(name, code)}"
        else:
            told = self._result(self._run_of(name))
        print(f"[{self._ended}/{len(self.points)}] {name}: {told}", flush=True)
        self._write_results()

    def _message(self, name: str, code: int) -> str:
        """Return why a point failed: the last line that says so, or how its process ended."""
        if code < 0:
            return f"ended by signal {-code}"
        text = (self._folder(name) / OUTPUT).read_text(encoding="utf-8", errors="replace")[-_LAST:]
        errors = [line for line in text.splitlines() if line.startswith("error: ")]
        return errors[-1].removeprefix("error: ") if errors else f"exit status {code}"

    # -- what came of it ----------------------------------------------------------------------------------

    def tell(self) -> int:
        """Print the table, the best point first, draw the curves, and return the exit status."""
        runs = self._runs()
        check_criterion(runs.values(), self.request.criterion)
        self._write_results()
        print(f"\n{table(self._rows(people=True))}", end="")
        print(f"\n{self.request.folder / RESULTS}.csv and .json have this table.")
        if self.request.plot:
            self._plot(runs)
        failed = [name for name in self.points if self._state(name) != DONE]
        if failed:
            print(
                f"{_count(len(failed), 'point')} failed; what each of them printed is in its {OUTPUT}. "
                "The same command tries them again, and goes on from what they have saved."
            )
        return 1 if failed else 0

    def _runs(self) -> dict[str, Run]:
        found = {name: self._run_of(name) for name in self.points}
        return {name: run for name, run in found.items() if run is not None}

    def _run_of(self, name: str) -> Run | None:
        """Return the last training of a point; None if it has not begun."""
        log = self._folder(name) / LOG
        try:
            return runs_of(log)[-1] if log.is_file() else None
        except CntkError:
            return None  # not even a first line

    def _state(self, name: str) -> str:
        told = PointFile.read(self._folder(name))
        return "" if told is None else told.state

    def _result(self, run: Run | None) -> str:
        best = None if run is None else run.best(self.request.criterion, largest=self.request.largest)
        if run is None or best is None:
            return "done"
        return f"{best.name} = {shown(best.value)} at epoch {best.epoch} ({duration(run.seconds)})"

    def _rows(self, *, people: bool = False) -> list[Row]:
        """Return a row for each point, the best one first, those that failed last."""
        runs = self._runs()
        order = ranked(list(runs.values()), self.request.criterion, largest=self.request.largest)
        names = {id(run): name for name, run in runs.items()}
        sorted_names = [names[id(run)] for run in order] + [name for name in self.points if name not in runs]
        return [self._row(name, runs.get(name), people=people) for name in sorted_names]

    def _row(self, name: str, run: Run | None, *, people: bool) -> Row:
        ends = [path[-1] for path in self.points[name].values]
        values = {
            path[-1] if people and ends.count(path[-1]) == 1 else ":".join(path): value
            for path, value in self.points[name].values.items()
        }
        best = None if run is None else run.best(self.request.criterion, largest=self.request.largest)
        seconds = None if run is None else run.seconds
        criteria = {} if run is None or best is None else _criteria(run, best.epoch)
        about: Row = {
            "state": self._state(name) or "waiting",
            "epochs": None if run is None else len(run.curves.epochs),
            "best epoch" if people else "bestEpoch": None if best is None else best.epoch,
            **criteria,
        }
        if people:
            return {**values, **about, "time": None if seconds is None else duration(seconds)}
        return {**values, **about, "seconds": seconds, "folder": self._folder(name).as_posix()}

    def _write_results(self) -> None:
        rows = self._rows()
        for form in ("csv", "json"):
            path = self.request.folder / f"{RESULTS}.{form}"
            path.write_text(table(rows, form), encoding="utf-8", newline="\n")

    def _plot(self, runs: Mapping[str, Run]) -> None:
        order = ranked(list(runs.values()), self.request.criterion, largest=self.request.largest)[:_DRAWN]
        names = {id(run): name for name, run in runs.items()}
        drawn = {names[id(run)]: run.curves for run in order if run.curves.epochs}
        if not drawn:
            return
        plot_curves(drawn, self.request.plot)
        few = len(drawn) < len(self.points)
        print(f"{self.request.plot}{f': the curves of the best {len(drawn)}' if few else ''}")


def _criteria(run: Run, number: int) -> dict[str, object]:
    """Return all criteria of an epoch, those of the validation set by the name that hooks give them, ``test_NAME``."""
    epoch = next(epoch for epoch in run.curves.epochs if epoch.number == number)
    held_out = {f"test_{name}": value for name, value in epoch.validation.items()}
    return {**held_out, **epoch.criteria}


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
