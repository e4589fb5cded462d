"""The bar that shows how far a fit is: on a terminal or in a notebook, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cntk_fit.callbacks import Callback, Fitting

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from cntk_core.api.training import StepResult


class Bar(Callback):
    """Shows epochs, minibatches and the criteria of the epoch before.

    Args:
        minibatches: of an epoch; None if that is not known before its end.
        always: show it where there is no terminal, too.
    """

    def __init__(self, minibatches: int | None, *, always: bool = False) -> None:
        self._total, self._always = minibatches, always
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._counted = 0

    def fit_begins(self, fitting: Fitting) -> None:
        """Begin to show, if anybody can see it."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        if not (self._always or console.is_terminal or console.is_jupyter):
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=console.is_terminal)
        self._progress.start()

    def epoch_begins(self, fitting: Fitting) -> None:
        """Begin the bar anew."""
        if self._progress is None:
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        shown = {**fitting.training, **{f"validation {name}": value for name, value in fitting.validation.items()}}
        criteria = " ".join(f"{name} = {value:.4g}" for name, value in shown.items())
        said = f"epoch {fitting.epoch}/{fitting.epochs} {criteria}".rstrip()
        self._task = self._progress.add_task(said, total=self._total, completed=fitting.minibatch)

    def minibatch_ends(self, fitting: Fitting, result: StepResult) -> None:
        """Advance the bar."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=fitting.minibatch)

    def epoch_ends(self, fitting: Fitting) -> None:
        """Remember how many minibatches an epoch has."""
        self._total = fitting.minibatch

    def fit_ends(self, fitting: Fitting) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
