"""A folder for each training, beside its model: ``run.json`` when it begins, a line of ``epochs.jsonl`` each epoch."""

from __future__ import annotations

import json
import math
from pathlib import Path

from cntk_core.api import EpochSummary, Job, JobOutcome, hookimpl


class RunFolder:
    """Writes the folder ``MODEL.run``; only the first rank does."""

    requires_api = "1.0"

    def __init__(self) -> None:
        self.folder: Path | None = None

    @hookimpl
    def cntk_job_begin(self, job: Job) -> None:
        """Make the folder of a training."""
        self.folder = None
        if job.model_path is None or job.rank:
            return
        self.folder = Path(f"{job.model_path}.run")
        self.folder.mkdir(parents=True, exist_ok=True)
        about = {"name": job.name, "action": job.action, "epochs": job.epochs, "ranks": job.ranks}
        (self.folder / "run.json").write_text(json.dumps(about), encoding="utf-8")

    @hookimpl
    def cntk_epoch_end(self, summary: EpochSummary) -> None:
        """Add a line."""
        if self.folder is not None:
            line = {"epoch": summary.epoch, "samples": summary.samples, **summary.criteria}
            with (self.folder / "epochs.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    @hookimpl
    def cntk_should_stop(self, summary: EpochSummary) -> str | None:
        """Say why there is no use in going on."""
        lost = [name for name, value in summary.criteria.items() if not math.isfinite(value)]
        return f"{lost[0]} is no number" if lost else None

    @hookimpl
    def cntk_job_end(self, outcome: JobOutcome) -> None:
        """Say how it ended."""
        if self.folder is not None:
            (self.folder / "outcome.json").write_text(json.dumps({"succeeded": outcome.succeeded}), encoding="utf-8")
