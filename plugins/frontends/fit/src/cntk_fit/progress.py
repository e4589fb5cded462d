"""The bar that shows how far a fit is: on a terminal or in a notebook, and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from cntk_fit.callbacks import Callback, Fitting

if TYPE_CHECKING:
    from rich.console import Console

    from cntk_core.api.training import StepResult

REDRAW = 0.2
"""Least seconds between two updates of a notebook's bar within an epoch."""


class Display(Protocol):
    """Where a bar is."""

    def begin(self, said: str, total: int | None, done: int) -> None:
        """Begin an epoch of so many minibatches, of which some may be done."""

    def advance(self, done: int) -> None:
        """Show how many minibatches are done."""

    def close(self) -> None:
        """Take the bar away."""


class Bar(Callback):
    """Shows epochs, minibatches and the criteria of the epoch before.

    Args:
        minibatches: of an epoch; None if that is not known before its end.
        always: show it where there is no terminal, too.
    """

    def __init__(self, minibatches: int | None, *, always: bool = False) -> None:
        self._total, self._always = minibatches, always
        self._display: Display | None = None

    def fit_begins(self, fitting: Fitting) -> None:
        """Begin to show, if anybody can see it."""
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_jupyter:
            self._display = NotebookBar()
        elif self._always or console.is_terminal:
            self._display = TerminalBar(console)

    def epoch_begins(self, fitting: Fitting) -> None:
        """Begin the bar anew."""
        if self._display is None:
            return
        shown = {**fitting.training, **{f"validation {name}": value for name, value in fitting.validation.items()}}
        criteria = " ".join(f"{name} = {value:.4g}" for name, value in shown.items())
        said = f"epoch {fitting.epoch}/{fitting.epochs} {criteria}".rstrip()
        self._display.begin(said, self._total, fitting.minibatch)

    def minibatch_ends(self, fitting: Fitting, result: StepResult) -> None:
        """Advance the bar."""
        if self._display is not None:
            self._display.advance(fitting.minibatch)

    def epoch_ends(self, fitting: Fitting) -> None:
        """Remember how many minibatches an epoch has."""
        self._total = fitting.minibatch

    def fit_ends(self, fitting: Fitting) -> None:
        """Take the bar away."""
        if self._display is not None:
            self._display.close()
            self._display = None


class TerminalBar:
    """A bar on a terminal, or lines where there is none.

    Args:
        console: where it is written.
    """

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=console.is_terminal)
        self._task: TaskID | None = None
        self._progress.start()

    def begin(self, said: str, total: int | None, done: int) -> None:
        """Begin an epoch."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(said, total=total, completed=done)

    def advance(self, done: int) -> None:
        """Show how many minibatches are done."""
        if self._task is not None:
            self._progress.update(self._task, completed=done)

    def close(self) -> None:
        """Take the bar away; without a terminal the last one stays."""
        self._progress.stop()


class NotebookBar:
    """A bar in the cell of a notebook. It is HTML: rich's own needs ``ipywidgets``, and warns where there are none.

    Args:
        clock: seconds, for how often it changes.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        from IPython.display import HTML, display

        self._page: Callable[[str], Any] = HTML
        self._handle: Any = display(HTML(""), display_id=True)  # type: ignore[no-untyped-call, unused-ignore]
        self._clock = clock
        self._drawn = 0.0
        self._said = ""
        self._total: int | None = None

    def begin(self, said: str, total: int | None, done: int) -> None:
        """Begin an epoch."""
        self._said, self._total = said, total
        self._draw(done)

    def advance(self, done: int) -> None:
        """Show how many minibatches are done, but not too often."""
        if self._clock() - self._drawn >= REDRAW:
            self._draw(done)

    def close(self) -> None:
        """Take the bar away."""
        self._handle.update(self._page(""))

    def _draw(self, done: int) -> None:
        self._drawn = self._clock()
        share = f' max="{self._total}" value="{done}"' if self._total else ""
        count = f"{done}/{self._total}" if self._total else f"{done}"
        self._handle.update(self._page(f"<div>{escape(self._said)} <progress{share}></progress> {count}</div>"))
