"""What a run tells: log lines in CNTK's format, and a progress bar on a terminal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from cntk_core.system.console import SteadyStream, write_line
from cntk_core.training.loop.criteria import Criterion

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

STAMP = "%m/%d/%Y %H:%M:%S: "
_REDRAW = 0.1
"""Seconds between two updates of the bar."""


def number_format(precision: int, value: float) -> str:
    """Print a number with this many decimals, or in scientific form where ``%g`` would choose it."""
    kind = "e" if "e" in f"{value:.{precision}g}" else "f"
    return f"{value:.{precision}{kind}}"


def describe(name: str, criterion: Criterion) -> str:
    """``ce = 0.12345678 * 2560``; a name that ends in s, but for a loss, counts errors and is shown in percent."""
    value, counts_errors = criterion.average, name.endswith("s") and not name.lower().endswith("loss")
    text = f"{number_format(3, 100 * value)}%" if counts_errors else number_format(8, value)
    return f"{name} = {text} * {criterion.samples}"


def averages(criteria: Mapping[str, Criterion]) -> dict[str, float]:
    """Values per sample, by name."""
    return {name: value.average for name, value in criteria.items()}


class LineSink(Protocol):
    """Where lines go."""

    def line(self, text: str = "") -> None:
        """Write a line, with a time in front if the log has that."""
        ...


class StreamLog:
    """Lines on a stream, each with a time in front if asked for.

    Args:
        stream: default: the standard error stream of the moment.
        timestamps: put ``MM/DD/YYYY HH:MM:SS: `` in front of lines that are not empty.
    """

    def __init__(self, stream: TextIO | None = None, *, timestamps: bool = False) -> None:
        self._stream = stream
        self.timestamps = timestamps

    def line(self, text: str = "") -> None:
        """Write a line."""
        write_line(self._stream or sys.stderr, (time.strftime(STAMP) if self.timestamps and text else "") + text)


class RunLog:
    """Log lines of training and evaluation.

    Args:
        sink: where lines go.
        trace_level: at 0 only the ends of epochs and what matters more are shown.
        bar: draw a progress bar on the console; then lines that only tell of progress are left out.
    """

    def __init__(self, sink: LineSink | None = None, *, trace_level: int = 0, bar: bool = False) -> None:
        self._sink: LineSink = sink if sink is not None else StreamLog()
        self.trace_level = trace_level
        self.bar = ProgressBar() if bar else None

    def line(self, text: str = "") -> None:
        """Write a line that is always shown."""
        if self.bar is not None and self.bar.print(text, self._sink):
            return
        self._sink.line(text)

    def detail(self, *lines: str) -> None:
        """Write lines that are shown from trace level 1 on."""
        if self.trace_level > 0 and (self.bar is None or getattr(self._sink, "to_file", False)):
            for text in lines:
                self._sink.line(text)

    def epoch_begins(self, epoch: int, rate: float, momentum: float, time_constant: float) -> None:
        """Say with which rates an epoch (from 0) begins."""
        self.detail(
            "",
            f"Starting Epoch {epoch + 1}: learning rate per sample = {rate:f}  effective momentum = {momentum:f}  "
            f"momentum as time constant = {time_constant:.1f} samples",
        )

    def loop_begins(self, parts: int, max_samples: int, together: str = "") -> None:
        """Say how minibatches are computed; ``together`` is how several ranks do that."""
        text = "Starting minibatch loop" + (f", {together}" if together else "")
        if parts > 1:
            text += f", with maximum {max_samples} samples in RAM" if max_samples else f", with {parts} subminibatch"
        self.detail("", text + ".")

    def minibatches(
        self,
        epoch: int,
        epochs: int,
        first: int,
        last: int,
        share: str,
        criteria: Mapping[str, Criterion],
        seconds: float,
        *,
        trial: str = "",
    ) -> None:
        """Show the criteria of the minibatches ``first`` to ``last`` (from 1) of an epoch (from 0) or of a trial."""
        shown = "".join(f"{describe(name, value)}; " for name, value in criteria.items())
        samples = next(iter(criteria.values())).samples
        speed = samples / seconds if seconds > 0 else 0.0
        lead = f"  {trial}" if trial else ""
        self.detail(
            f"{lead} Epoch[{epoch + 1:2d} of {epochs}]-Minibatch[{first:4d}-{last:4d}{share}]: {shown}"
            f"time = {number_format(4, seconds)}s; samplesPerSecond = {speed:.1f}"
        )

    def epoch_ends(
        self, epoch: int, epochs: int, criteria: Mapping[str, Criterion], seen: int, rate: float, seconds: float
    ) -> None:
        """Show what an epoch gave."""
        shown = "".join(f"{describe(name, value)}; " for name, value in criteria.items())
        self.line(
            f"Finished Epoch[{epoch + 1:2d} of {epochs}]: [Training] {shown}totalSamplesSeen = {seen}; "
            f"learningRatePerSample = {rate:.8g}; epochTime={seconds:.6g}s"
        )

    def trial_ends(self, epoch: int, criteria: Mapping[str, Criterion], rate: float, minibatch_size: int) -> None:
        """Show what a trial before an epoch (from 0) gave."""
        shown = "".join(f"{describe(name, value)}; " for name, value in criteria.items())
        self.line(
            f" Finished Mini-Epoch[{epoch + 1}]: {shown}learningRatePerSample = {rate:.8g}; "
            f"minibatchSize = {minibatch_size}"
        )

    def validated(self, epoch: int, epochs: int, criteria: Mapping[str, Criterion]) -> None:
        """Show the criteria of the validation set."""
        shown = "; ".join(describe(name, value) for name, value in criteria.items())
        self.line(f"Finished Epoch[{epoch + 1:2d} of {epochs}]: [Validate] {shown}")

    def trials_end(self, epoch: int, trials: int, seconds: float) -> None:
        """Say how long the trials before an epoch (from 0) took together."""
        self.detail(f" Finished {trials} Mini-Epochs before Epoch[{epoch + 1}]: searchTime={seconds:.6g}s")

    def best_so_far(self, best: Mapping[str, tuple[float, int]]) -> None:
        """Show the least value of each criterion on the validation set, and after which epoch it was."""
        shown = "; ".join(f"{name} = {value:f} (Epoch {epoch})" for name, (value, epoch) in best.items())
        self.line(f"Best epoch per criterion so far: [Validate] {shown}")


def share_of_epoch(done: int, total: int, minibatch_size: int, shown: int) -> str:
    """``, 12.50%`` of an epoch, or nothing if its size is not known.

    More decimals are shown where the lines are so close that two would be too few.

    Args:
        done, total: samples so far and of the whole epoch (0: not known).
        minibatch_size: samples of a minibatch.
        shown: minibatches since the last line.
    """
    if not total:
        return ""
    minibatches = total / minibatch_size
    decimals = max(math.ceil(math.log10(minibatches / shown)) - 2, 2)
    return f", {min(100.0, 100.0 * done / total):2.{decimals}f}%"


class ProgressBar:
    """A bar with the loss, the learning rate and the time left. Rich is loaded when the bar is first shown."""

    def __init__(self) -> None:
        self._shown: tuple[Progress, TaskID] | None = None
        self._drawn = 0.0

    def begin(self, title: str, total: int, rate: float | None = None) -> None:
        """Show a new bar for ``total`` samples (0: not known)."""
        self.end()
        progress = _make_progress()
        text = "" if rate is None else f"rate {rate:.3g}"
        self._shown = progress, progress.add_task(title, total=total or None, loss="", rate=text)
        progress.start()

    def advance(self, samples: int, loss: float | None = None) -> None:
        """Set how many samples are done, and the loss if it is known."""
        if self._shown is None:
            return
        now = time.monotonic()
        if loss is None and now - self._drawn < _REDRAW:
            return
        self._drawn = now
        fields: dict[str, Any] = {} if loss is None else {"loss": f"loss {loss:.4f}"}
        progress, task = self._shown
        progress.update(task, completed=samples, **fields)

    def print(self, text: str, sink: LineSink) -> bool:
        """Write a line above the bar; False if there is no bar or lines go to a file."""
        if self._shown is None or getattr(sink, "to_file", False):
            return False
        if text:
            self._shown[0].console.print(text, markup=False, highlight=False, soft_wrap=True)
        return True

    def end(self) -> None:
        """Take the bar away."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None


def _make_progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[loss]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(file=cast(TextIO, SteadyStream(sys.stderr))),
        transient=True,
    )
