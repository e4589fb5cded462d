"""What listens to a training and writes event files."""

from __future__ import annotations

from pathlib import Path

import attrs

from cntk_core.api import (
    Config,
    ConfigError,
    EpochStart,
    EpochSummary,
    Job,
    JobOutcome,
    MinibatchResult,
    ask_to_write,
    hookimpl,
)
from cntk_hook_tensorboard.event_file import EventFile
from cntk_hook_tensorboard.graph import graph_of

FOLDER = "tensorBoardLogDir"
INTERVAL = "tensorBoardNumMBsToLogResult"
HISTOGRAMS = "tensorBoardHistograms"

_EVERY = 1


@attrs.frozen
class Wishes:
    """What a recipe asks for.

    Attributes:
        folder: of the event files.
        interval: minibatches between two values within an epoch; 0: none.
        histograms: epochs between two histograms; 0: none.
    """

    folder: Path
    interval: int
    histograms: int

    @classmethod
    def of(cls, block: Config | None) -> Wishes | None:
        """Read the keys; None without a folder.

        Raises:
            ConfigError: a number is negative, or none.
        """
        value = block.get(FOLDER) if block is not None else None
        if block is None or value is None or value.is_empty:
            return None
        ask_to_write(value.string(), key=FOLDER, where=value.where)
        return cls(Path(value.string()), _count(block, INTERVAL, _EVERY), _count(block, HISTOGRAMS, 0))


def _count(block: Config, key: str, default: int) -> int:
    number = block.integer(key, default)
    if number < 0:
        raise ConfigError(f"{key} must not be negative, not {number}", where=block.location(key))
    return number


@attrs.define
class Window:
    """Averages of the criteria since they were last written."""

    samples: int = 0
    unread: int = 0
    sums: dict[str, float] = attrs.field(factory=dict)

    def add(self, result: MinibatchResult) -> None:
        """Take in a minibatch. Criteria, where there are any, are averages since the last that had some."""
        self.unread += result.samples
        if result.criteria:
            for name, value in result.criteria.items():
                self.sums[name] = self.sums.get(name, 0.0) + value * self.unread
            self.samples += self.unread
            self.unread = 0

    def averages(self) -> dict[str, float]:
        """Averages per sample, by name."""
        return {name: value / self.samples for name, value in self.sums.items()} if self.samples else {}


class TensorBoard:
    """A listener that writes the event files that a recipe asks for with ``tensorBoardLogDir``."""

    def __init__(self) -> None:
        self._wishes: Wishes | None = None
        self._file: EventFile | None = None
        self._epoch = EpochStart(0, 0, 0.0)
        self._window = Window()
        self._written = 0

    def listens_to(self, hook: str) -> bool:
        """Whether a hook is to be called: that of minibatches only where a file was opened when the job began."""
        return hook != "cntk_minibatch_end" or self._file is not None

    @hookimpl
    def cntk_sgd_keys(self) -> tuple[str, ...]:
        """Keys of the SGD block that are read here."""
        return (FOLDER, INTERVAL, HISTOGRAMS)

    @hookimpl
    def cntk_job_begin(self, job: Job) -> None:
        """Begin an event file, with the graph, where a training asks for one. Only the first worker writes."""
        self._close()
        self._wishes = Wishes.of(job.block) if job.network is not None and job.rank == 0 else None
        if self._wishes is None or job.network is None:
            return
        self._window = Window()
        goes_on = job.first_epoch > 0 and any(self._wishes.folder.glob("*tfevents*"))
        self._file = EventFile(self._wishes.folder)
        if not goes_on:  # TensorBoard wants one graph in a folder
            self._file.graph(graph_of(job.network))
            self._file.flush()

    @hookimpl
    def cntk_epoch_begin(self, job: Job, epoch: EpochStart) -> None:
        """Keep the rates. Where a run goes on, what earlier files have beyond this place is void."""
        if self._file is None:
            return
        self._epoch = epoch
        self._window.unread = 0
        if epoch.epoch == job.first_epoch:
            self._written = epoch.steps
            if epoch.steps:
                self._file.restart(epoch.steps + 1)

    @hookimpl
    def cntk_minibatch_end(self, result: MinibatchResult) -> None:
        """Write the criteria when it is time to."""
        if self._file is None or self._wishes is None or not self._wishes.interval:
            return
        self._window.add(result)
        step = self._epoch.steps + result.minibatch - self._epoch.minibatches + 1
        interval = self._wishes.interval
        if not result.criteria or step // interval == self._written // interval:
            return
        rates = {"learningRatePerSample": self._epoch.learning_rate, "minibatchSize": self._epoch.minibatch_size}
        told = {**self._window.averages(), **rates}
        self._file.scalars({f"minibatch/{name}": value for name, value in told.items()}, step)
        self._file.flush()
        self._window, self._written = Window(), step

    @hookimpl
    def cntk_epoch_end(self, job: Job, summary: EpochSummary) -> None:
        """Write what an epoch gave, and histograms where they are asked for."""
        if self._file is None or self._wishes is None:
            return
        number = summary.epoch + 1
        told = {
            **{name: float(value) for name, value in summary.criteria.items()},
            **{f"test_{name}": float(value) for name, value in summary.validation.items()},
            "learningRatePerSample": summary.learning_rate,
            "minibatchSize": float(summary.minibatch_size),
        }
        if summary.seconds > 0:
            told["samplesPerSecond"] = summary.samples / summary.seconds
        self._file.scalars({f"summary/{name}": value for name, value in told.items()}, number)
        if self._wishes.histograms and number % self._wishes.histograms == 0:
            self._write_histograms(self._file, job, number)
        self._file.flush()

    @hookimpl
    def cntk_job_end(self, outcome: JobOutcome) -> None:
        """Close the file."""
        self._close()

    def _write_histograms(self, file: EventFile, job: Job, number: int) -> None:
        for parameter in job.network.parameters if job.network is not None else ():
            if parameter.value is not None:
                file.histogram(f"parameters/{parameter.name}", parameter.value, number)

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
