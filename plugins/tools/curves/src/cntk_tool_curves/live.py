"""A run in progress, as an object that a notebook shows and that is shown anew when something has happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from cntk_core.api import hookimpl
from cntk_tool_curves.curves import Curves, Epoch, Reading
from cntk_tool_curves.page import charts, progress, table

if TYPE_CHECKING:
    from cntk_core.api import EpochStart, EpochSummary, Job, JobOutcome, MinibatchResult

REDRAW = 0.5
"""Least seconds between two updates within an epoch."""


class Handle(Protocol):
    """What is on display, as ``IPython.display.display(..., display_id=True)`` gives it."""

    def update(self, obj: object) -> None:
        """Show the object in place of what is there."""


class LiveRun:
    """A listener that shows the trainings of a run while they go on.

    Args:
        show: puts an object on display and returns the handle to update it.
        clock: seconds, for how often the display changes.

    Attributes:
        trainings: the curves of each training, in the order in which they began.
        log: lines that the run has written, where it writes them to no file.
    """

    def __init__(self, show: Callable[[object], Handle], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.trainings: list[Curves] = []
        self.log: list[str] = []
        self._show = show
        self._clock = clock
        self._handle: Handle | None = None
        self._drawn = 0.0
        self._states: dict[str, _State] = {}

    @hookimpl
    def cntk_job_begin(self, job: Job) -> None:
        """Show that a training begins."""
        if job.network is None:
            return
        self.trainings = [curves for curves in self.trainings if curves.name != job.name]
        self.trainings.append(Curves(job.name))
        self._states[job.name] = _State(job.epochs, job.first_epoch)
        self._draw()

    @hookimpl
    def cntk_epoch_begin(self, job: Job, epoch: EpochStart) -> None:
        """Show which epoch it is, and its learning rate."""
        state = self._states[job.name]
        state.done = epoch.epoch
        state.text = f"epoch {epoch.epoch + 1} of {job.epochs}, learning rate per sample {epoch.learning_rate:.4g}"
        self._draw()

    @hookimpl
    def cntk_minibatch_end(self, job: Job, result: MinibatchResult) -> None:
        """Show the criteria where there are any, but not too often."""
        if not result.criteria:
            return
        told = {name: float(value) for name, value in result.criteria.items()}
        self._curves(job).add_reading(Reading(result.epoch + 1, result.minibatch + 1, told))
        if self._clock() - self._drawn >= REDRAW:
            self._draw()

    @hookimpl
    def cntk_epoch_end(self, job: Job, summary: EpochSummary) -> None:
        """Show what an epoch gave."""
        criteria, validation = dict(summary.criteria), dict(summary.validation)
        epoch = Epoch(summary.epoch + 1, criteria, validation, summary.learning_rate, summary.seconds)
        self._curves(job).add_epoch(epoch)
        self._states[job.name].done = summary.epoch + 1
        self._draw()

    @hookimpl
    def cntk_job_end(self, job: Job, outcome: JobOutcome) -> None:
        """Show how it ended."""
        if job.name not in self._states or job.network is None:
            return
        state = self._states[job.name]
        if outcome.succeeded:
            state.text = f"done: {outcome.epochs} epochs in {outcome.seconds:.1f} s"
            state.text += f"; {outcome.stopped}" if outcome.stopped else ""
        elif isinstance(outcome.error, KeyboardInterrupt):
            state.text = "interrupted; the same call goes on from the last checkpoint"
        else:
            state.text = f"failed: {outcome.error}"
        self._draw()

    def _curves(self, job: Job) -> Curves:
        return next(curves for curves in self.trainings if curves.name == job.name)

    def _draw(self) -> None:
        self._drawn = self._clock()
        if self._handle is None:
            self._handle = self._show(self)
        else:
            self._handle.update(self)

    def _repr_html_(self) -> str:
        """Return the page that a notebook shows."""
        return "".join(self._html(curves) for curves in self.trainings) or "<div>nothing was trained</div>"

    def _html(self, curves: Curves) -> str:
        state = self._states[curves.name]
        title = f"<b>{escape(curves.name)}</b> {escape(state.text)}"
        parts = [title, progress(state.done, state.epochs), charts(curves, state.epochs), table(curves)]
        return "".join(f"<div>{part}</div>" for part in parts if part)

    def __repr__(self) -> str:
        """Return the same in words, for a console."""
        lines = [f"{curves.name}: {self._states[curves.name].text}" for curves in self.trainings]
        return "\n".join(lines) or "nothing was trained"


class _State:
    """How far a training is."""

    def __init__(self, epochs: int, done: int) -> None:
        self.epochs = epochs
        self.done = done
        self.text = "begins"


def ipython_display(live: object) -> Any:
    """Show an object in the notebook that this process belongs to; return its handle."""
    from IPython.display import display

    return display(live, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]
