"""The log for programs: ``jsonLog = "run/log.jsonl"`` writes each event of a run as one line of JSON.

Numbers are as the hooks tell them; epochs and minibatches count from 1, as in the text log. JSON has no word for a
number that is none, nor for infinity: they are null.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from cntk_core.api import ask_to_write, hookimpl
from cntk_tool_curves.settings import hash_of, settings_of

if TYPE_CHECKING:
    from cntk_core.api import EpochStart, EpochSummary, Job, JobOutcome, MinibatchResult

KEY = "jsonLog"
VERSION = 1
"""Of the format; it grows when a line means something else than before, not when lines or keys are added."""


class JsonLog:
    """A listener that writes the file that a recipe's ``jsonLog`` names, and nothing where there is no such key.

    A file that is there is continued, so that a training that was stopped and goes on has one log.
    """

    def __init__(self) -> None:
        self._file: TextIO | None = None

    def listens_to(self, hook: str) -> bool:
        """Whether a hook is to be called: that of minibatches only where a file was opened when the job began."""
        return hook != "cntk_minibatch_end" or self._file is not None

    @hookimpl
    def cntk_job_begin(self, job: Job) -> None:
        """Open the file, and say what runs."""
        path = _path(job)
        if path is None:
            return
        self._close()
        self._file = _open(path)
        self._write("job_begin", job, version=VERSION, **_about(job))

    @hookimpl
    def cntk_epoch_begin(self, job: Job, epoch: EpochStart) -> None:
        """Write with which rates an epoch begins."""
        self._write(
            "epoch_begin",
            job,
            epoch=epoch.epoch + 1,
            minibatchSize=epoch.minibatch_size,
            learningRatePerSample=epoch.learning_rate,
            momentum=epoch.momentum,
            updates=epoch.steps,
            minibatches=epoch.minibatches,
        )

    @hookimpl
    def cntk_minibatch_end(self, job: Job, result: MinibatchResult) -> None:
        """Write the criteria where there are any: every ``numMBsToShowResult`` minibatches."""
        if self._file is None or not result.criteria:
            return
        self._write(
            "minibatch",
            job,
            epoch=result.epoch + 1,
            minibatch=result.minibatch + 1,
            samplesInEpoch=result.samples_in_epoch,
            criteria=result.criteria,
            seconds=result.seconds,
        )

    @hookimpl
    def cntk_epoch_end(self, job: Job, summary: EpochSummary) -> None:
        """Write what an epoch gave."""
        self._write(
            "epoch_end",
            job,
            epoch=summary.epoch + 1,
            samples=summary.samples,
            minibatches=summary.minibatches,
            criteria=summary.criteria,
            validation=summary.validation,
            learningRatePerSample=summary.learning_rate,
            minibatchSize=summary.minibatch_size,
            seconds=summary.seconds,
        )

    @hookimpl
    def cntk_checkpoint_saved(self, job: Job, path: Path) -> None:
        """Write that a model and its checkpoint are on disk."""
        self._write("checkpoint", job, path=str(path))

    @hookimpl
    def cntk_job_end(self, job: Job, outcome: JobOutcome) -> None:
        """Write how it ended, and close the file."""
        try:
            self._write(
                "job_end",
                job,
                succeeded=outcome.succeeded,
                epochs=outcome.epochs,
                seconds=outcome.seconds,
                stopped=outcome.stopped,
                error="" if outcome.error is None else str(outcome.error) or type(outcome.error).__name__,
            )
        finally:
            self._close()

    def _write(self, event: str, job: Job, **told: Any) -> None:
        if self._file is None:
            return
        line = {"event": event, "time": round(time.time(), 6), "job": job.name, **told}
        self._file.write(json.dumps(plain(line), ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


def _path(job: Job) -> Path | None:
    """Return where the log of a job goes; only the first of several workers writes one."""
    value = job.block.get(KEY) if job.block is not None and job.rank == 0 else None
    if value is None or value.is_empty:
        return None
    ask_to_write(value.string(), key=KEY, where=value.where)
    return Path(value.string())


def _open(path: Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    cut = _ends_within_line(path)
    file = open(path, "a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - open as long as the job
    if cut:
        file.write("\n")
    return file


def _ends_within_line(path: Path) -> bool:
    """Whether a run was killed while it wrote a line."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def _about(job: Job) -> dict[str, Any]:
    settings = settings_of(job.block)
    about: dict[str, Any] = {
        "action": job.action,
        "engine": job.engine,
        "modelPath": None if job.model_path is None else str(job.model_path),
        "epochs": job.epochs,
        "firstEpoch": job.first_epoch + 1,
        "recipe": None if job.block is None else job.block.top.where.file,
        "hash": hash_of(settings),
        "settings": settings,
    }
    if job.network is not None:
        about["nodes"] = len(job.network)
        about["parameters"] = sum(math.prod(parameter.known_shape) for parameter in job.network.parameters)
    return about


def plain(value: Any) -> Any:
    """Return a value in JSON's types: numbers of numpy as numbers, what is no finite number as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, np.integer):
        return int(value)
    return value
