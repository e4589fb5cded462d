"""Writers of progress: lines on the screen or in a file, TensorBoard, a function of one's own."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from warnings import warn

from cntk.logging.writers import ProgressWriter, average

_HEARTBEAT_SECONDS = 10.0
_HEADER = (
    " average      since    average      since      examples",
    "    loss       last     metric       last              ",
    " ------------------------------------------------------",
)
_DEFAULT_EPOCHS = 300


def _deprecated(message: str) -> None:
    warn(f"DEPRECATED: {message}", DeprecationWarning, stacklevel=3)


class ProgressPrinter(ProgressWriter):
    """Prints progress.

    Args:
        freq: a line after every so many minibatches; 0: after 1, 3, 7, 15, ... of them, as a table; None: none.
        first: lines for each of the first so many minibatches, too.
        tag: in the lines of summaries.
        log_to_file: a file for the lines, in place of the screen.
        rank: of this process, which is put behind the name of the file.
        gen_heartbeat: prints a line every ten seconds for a scheduler that wants to see that training lives.
        num_epochs: how many summaries there will be.
        test_freq, test_first: as ``freq`` and ``first``, for tests.
        metric_is_pct: the metric is shown in per cent.
        distributed_freq, distributed_first: as ``freq`` and ``first``, for meetings of ranks.
    """

    def __init__(
        self,
        freq: int | None = None,
        first: int = 0,
        tag: str = "",
        log_to_file: str | None = None,
        rank: int | None = None,
        gen_heartbeat: bool = False,
        num_epochs: int | None = None,
        test_freq: int | None = None,
        test_first: int = 0,
        metric_is_pct: bool = True,
        distributed_freq: int | None = None,
        distributed_first: int = 0,
    ) -> None:
        paces = [sys.maxsize if each is None else each for each in (freq, test_freq, distributed_freq)]
        super().__init__(paces[0], first, paces[1], test_first, paces[2], distributed_first)
        self.freq, self.first, self.test_freq = paces[0], first, paces[1]
        self.tag = f"[{tag}] " if tag else ""
        self.num_epochs = num_epochs
        self.metric_is_pct = metric_is_pct
        self.metric_multiplier = 100.0 if metric_is_pct else 1.0
        self.gen_heartbeat = gen_heartbeat
        self.log_to_file = log_to_file
        self.logfilename = None if log_to_file is None else log_to_file + ("" if rank is None else f"rank{rank}")
        self._heartbeat = -math.inf
        self._own = _OwnSums()
        if self.logfilename is not None:
            self._begin_file(self.logfilename)
        if freq == 0:
            for line in _HEADER:
                self.log(line)

    def _begin_file(self, name: str) -> None:
        print(f"Redirecting log to file {name}")
        Path(name).write_text(f"{name}\n", encoding="utf-8")
        epochs = _DEFAULT_EPOCHS if self.num_epochs is None else self.num_epochs
        self.log(f"CNTKCommandTrainInfo: train : {epochs}")
        self.log(f"CNTKCommandTrainInfo: CNTKNoMoreCommands_Total : {epochs}")
        self.log("CNTKCommandTrainBegin: train")

    def end_progress_print(self, msg: str = "") -> None:
        """Print that training has ended; a message, too, where lines go into a file."""
        self.log("CNTKCommandTrainEnd: train")
        if msg and self.log_to_file is not None:
            self.log(msg)

    def log(self, message: str) -> None:
        """Print a line."""
        if self.logfilename is None:
            print(message)
        else:
            with Path(self.logfilename).open("a", encoding="utf-8") as file:
                file.write(f"{message}\n")

    def write(self, key: str, value: float) -> None:
        """Print a number that has changed."""
        self.log(f"{key}: {value}")

    # -- what a trainer tells -----------------------------------------------------------------------------

    def on_write_training_update(self, samples: Any, updates: Any, aggregate_loss: Any, aggregate_metric: Any) -> None:
        """Print a window of minibatches."""
        self._write_update(samples, updates, aggregate_loss, aggregate_metric, self.freq, "")

    def on_training_update_end(self) -> None:
        """Print a heartbeat if it is time."""
        if self.gen_heartbeat and time.monotonic() - self._heartbeat > _HEARTBEAT_SECONDS:
            print("PROGRESS: 0.00%")
            self._heartbeat = time.monotonic()

    def on_write_test_update(self, samples: Any, updates: Any, aggregate_metric: Any) -> None:
        """Print a window of minibatches of a test."""
        self._write_update(samples, updates, None, aggregate_metric, self.test_freq, "Evaluation ")

    def on_write_distributed_sync_update(self, samples: Any, updates: Any, aggregate_metric: Any) -> None:
        """Print a window of meetings of the ranks."""
        syncs, seen = updates[1] - updates[0], samples[1] - samples[0]
        self.log(f"Distributed training: #Syncs elapsed = {syncs}, #Samples elapsed = {seen}")

    def _write_update(self, samples: Any, updates: Any, loss: Any, metric: Any, frequency: int, name: str) -> None:
        self.log(
            self._row(samples, loss, metric) if frequency == 0 else self._line(samples, updates, loss, metric, name)
        )

    def _row(self, samples: Any, loss: Any, metric: Any) -> str:
        cells = [
            f"{'':8s}   {'':8s}   "
            if sums is None
            else f"{average(sums[1], samples[1]):8.3g}   {average(sums, samples):8.3g}   "
            for sums in (loss, metric)
        ]
        return f" {cells[0]}{cells[1]} {samples[1]:10d}"

    def _line(self, samples: Any, updates: Any, loss: Any, metric: Any, name: str) -> str:
        count = samples[1] - samples[0]
        shown = [] if loss is None else [f"loss = {average(loss, samples):0.6f} * {count:d}"]
        if metric is not None:
            shown.append(f"metric = {self._metric(average(metric, samples))} * {count:d}")
        return f" {name}Minibatch[{updates[0] + 1:4d}-{updates[1]:4d}]: {', '.join(shown)};"

    def _metric(self, value: float) -> str:
        return f"{value * self.metric_multiplier:0.2f}%" if self.metric_is_pct else f"{value:0.6f}"

    def on_write_training_summary(
        self,
        samples: int,
        updates: int,
        summaries: int,
        aggregate_loss: float,
        aggregate_metric: float | None,
        elapsed_milliseconds: float,
    ) -> None:
        """Print the summary of an epoch; nothing where lines are a table."""
        if self.freq == 0:
            return
        seconds = elapsed_milliseconds / 1000
        of = "" if self.num_epochs is None else f" of {self.num_epochs}"
        text = f"Finished Epoch[{summaries}{of}]: {self.tag}loss = {average(aggregate_loss, samples):0.6f} * {samples}"
        if aggregate_metric is not None:
            text += f", metric = {self._metric(average(aggregate_metric, samples))} * {samples}"
        self.log(f"{text} {seconds:0.3f}s ({average(samples, seconds):5.1f} samples/s);")

    def on_write_test_summary(
        self, samples: int, updates: int, summaries: int, aggregate_metric: float, elapsed_milliseconds: float
    ) -> None:
        """Print the summary of a test."""
        metric = self._metric(average(aggregate_metric, samples))
        self.log(f"Finished Evaluation [{summaries}]: Minibatch[1-{updates}]: metric = {metric} * {samples};")

    # -- before trainers told it: CNTK 2.0 beta -----------------------------------------------------------

    def update(self, loss: float, minibatch_size: int, metric: float | None = None) -> None:
        """Count a minibatch with its averages, and print if it is time. Deprecated: give the printer to the trainer."""
        own = self._own
        if own.total == 0:
            _deprecated("give the printer to the trainer instead of calling update")
        if minibatch_size == 0:
            return
        own.add(loss, minibatch_size, metric)
        self.on_training_update_end()
        number = own.updates
        due = (number + 1) & number == 0 if self.freq == 0 else number % self.freq == 0 or number <= self.first
        if due:
            begin = number - 1 if number <= self.first else max(number - self.freq, self.first)
            window = None if metric is None else (own.metric_before, own.metric)
            self.on_write_training_update(
                (own.samples_before, own.samples), (begin, number), (own.loss_before, own.loss), window
            )
            own.close_window()

    def update_with_trainer(self, trainer: Any, with_metric: bool = False) -> None:
        """Count the last minibatch of a trainer (:meth:`update`). Deprecated: give the printer to the trainer."""
        if trainer is not None and trainer.previous_minibatch_sample_count:
            metric = trainer.previous_minibatch_evaluation_average if with_metric else None
            self.update(trainer.previous_minibatch_loss_average, trainer.previous_minibatch_sample_count, metric)

    def epoch_summary(self, with_metric: bool = False) -> tuple[float, float, int] | None:
        """Print a summary of what :meth:`update` was told. Deprecated: ``trainer.summarize_training_progress()``."""
        _deprecated("call summarize_training_progress of the trainer instead of epoch_summary")
        own = self._own
        own.epochs += 1
        metric = own.metric if with_metric else None
        self.on_write_training_summary(
            own.samples, own.updates, own.epochs, own.loss, metric, (time.monotonic() - own.began) * 1000
        )
        own.began = time.monotonic()
        return self.reset_start() if self.freq > 0 else None

    def avg_loss_since_start(self) -> float:
        """Return the average loss since the summary. Deprecated."""
        return average(self._own.loss, self._own.samples)

    def avg_metric_since_start(self) -> float:
        """Return the average metric since the summary. Deprecated."""
        return average(self._own.metric, self._own.samples)

    def avg_loss_since_last(self) -> float:
        """Return the average loss since the last line. Deprecated."""
        own = self._own
        return average((own.loss_before, own.loss), (own.samples_before, own.samples))

    def avg_metric_since_last(self) -> float:
        """Return the average metric since the last line. Deprecated."""
        own = self._own
        return average((own.metric_before, own.metric), (own.samples_before, own.samples))

    def reset_start(self) -> tuple[float, float, int]:
        """Begin anew, and return the averages and the samples until now. Deprecated."""
        found = (self.avg_loss_since_start(), self.avg_metric_since_start(), self._own.samples)
        self._own.reset()
        return found

    def reset_last(self) -> tuple[float, float, int]:
        """Begin a new line, and return its averages and samples until now. Deprecated."""
        own = self._own
        found = (self.avg_loss_since_last(), self.avg_metric_since_last(), own.samples - own.samples_before)
        own.close_window()
        return found


class _OwnSums:
    """What a printer was told itself, minibatch by minibatch."""

    def __init__(self) -> None:
        self.total = self.epochs = 0
        self.began = time.monotonic()
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.samples = self.updates = self.samples_before = 0
        self.loss = self.metric = self.loss_before = self.metric_before = 0.0

    def add(self, loss: float, samples: int, metric: float | None) -> None:
        """Count a minibatch with its averages."""
        self.samples += samples
        self.updates += 1
        self.total += 1
        self.loss += loss * samples
        self.metric += 0.0 if metric is None else metric * samples

    def close_window(self) -> None:
        """Let the next line begin here."""
        self.samples_before, self.loss_before, self.metric_before = self.samples, self.loss, self.metric


class TensorBoardProgressWriter(ProgressWriter):
    """Writes progress for TensorBoard; needs the package ``tensorboard``.

    Args:
        freq: minibatches between two points; None: summaries alone.
        log_dir: folder of the file.
        rank: of this process; only 0 and None write.
        model: a Function whose graph is written.
    """

    def __init__(self, freq: int | None = None, log_dir: str = ".", rank: int | None = None, model: Any = None) -> None:
        super().__init__(sys.maxsize if freq is None else freq)
        from cntk.logging.tensorboard import EventFile

        self.writer = None if rank else EventFile(log_dir, model)
        self.closed = False

    def _open(self) -> Any:
        if self.closed:
            raise RuntimeError("this TensorBoardProgressWriter is closed")
        return self.writer

    def write_value(self, name: str, value: float, step: int) -> None:
        """Write a number. Raises RuntimeError if the writer is closed."""
        writer = self._open()
        if writer is not None:
            writer.add_scalar(str(name), float(value), int(step))

    def write_image(self, name: str, data: Any, step: int) -> None:
        """Write images ``(images, channels, height, width)`` of variables. Raises RuntimeError if it is closed."""
        writer = self._open()
        if writer is not None:
            for images in data.values():
                writer.add_images(str(name), images, int(step))

    def flush(self) -> None:
        """Write out what is written. Raises RuntimeError if the writer is closed."""
        writer = self._open()
        if writer is not None:
            writer.flush()

    def close(self) -> None:
        """Write out everything and end. Raises RuntimeError if the writer is closed."""
        writer = self._open()
        if writer is not None:
            writer.close()
            self.closed = True

    def on_write_training_update(self, samples: Any, updates: Any, aggregate_loss: Any, aggregate_metric: Any) -> None:
        """Write the averages of a window."""
        step = self.total_training_updates()
        self.write_value("minibatch/avg_loss", average(aggregate_loss, samples), step)
        self.write_value("minibatch/avg_metric", average(aggregate_metric, samples), step)

    def on_write_test_update(self, samples: Any, updates: Any, aggregate_metric: Any) -> None:
        """Refuse. Raises NotImplementedError."""
        raise NotImplementedError("TensorBoardProgressWriter writes summaries of tests, not their minibatches")

    def on_write_training_summary(
        self,
        samples: int,
        updates: int,
        summaries: int,
        aggregate_loss: float,
        aggregate_metric: float,
        elapsed_milliseconds: float,
    ) -> None:
        """Write the averages of an epoch."""
        self.write_value("summary/avg_loss", average(aggregate_loss, samples), summaries)
        self.write_value("summary/avg_metric", average(aggregate_metric, samples), summaries)

    def on_write_test_summary(
        self, samples: int, updates: int, summaries: int, aggregate_metric: float, elapsed_milliseconds: float
    ) -> None:
        """Write the average of a test."""
        found, trained = average(aggregate_metric, samples), self.total_training_updates()
        if trained:
            self.write_value("minibatch/test_avg_metric", found, trained)
        else:
            self.write_value("summary/test_avg_metric", found, summaries)


class TrainingSummaryProgressCallback(ProgressWriter):
    """Calls ``callback(epoch, loss, metric, samples)`` after each summary, with sums, and epochs from 0.

    Args:
        epoch_size: accepted, as the original takes it.
        callback: is called.
    """

    def __init__(self, epoch_size: int, callback: Callable[[int, float, float, int], object]) -> None:
        super().__init__(sys.maxsize, 0, epoch_size, 0)
        self._callback = callback

    def on_write_training_summary(
        self,
        samples: int,
        updates: int,
        summaries: int,
        aggregate_loss: float,
        aggregate_metric: float,
        elapsed_milliseconds: float,
    ) -> None:
        """Call the function."""
        self._callback(summaries - 1, aggregate_loss, aggregate_metric, samples)


def log_number_of_parameters(model: Any, trace_level: int = 0) -> None:
    """Print how many parameters a Function has, with ``trace_level`` the shape of each, too."""
    shapes = [parameter.shape for parameter in model.parameters]
    known = all(size >= 0 for shape in shapes for size in shape)
    total = sum(math.prod(shape) for shape in shapes) if known else "so far unspecified number of"
    print(f"Training {total} parameters in {len(shapes)} parameter tensors.")
    if trace_level > 0:
        print()
        for shape in shapes:
            print(f"\t{shape}")
