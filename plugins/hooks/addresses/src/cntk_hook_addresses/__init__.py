"""Recipes, data and models by addresses such as ``s3://bucket/net.dnn``: copies that are kept here, and sent back.

This module sends what a job has written: checkpoints when they are complete, all else when the job has ended.
"""

from __future__ import annotations

import logging
from pathlib import Path

from cntk_core.api import CntkError, Job, JobOutcome, deliver, hookimpl

__version__ = "0.1.0"


@hookimpl
def cntk_checkpoint_saved(job: Job, path: Path) -> None:
    """Send a checkpoint. If that fails training goes on: what is here is whole, and the next one takes it along."""
    if job.rank == 0:
        try:
            deliver(whole=False)
        except CntkError as error:
            logging.getLogger("cntk").warning("%s Training goes on, and the next checkpoint takes it along.", error)


@hookimpl
def cntk_job_end(job: Job, outcome: JobOutcome) -> None:
    """Send what a job has written; of one that failed, the files of trainings alone, which are never half."""
    if job.rank == 0:
        try:
            deliver(whole=outcome.succeeded)
        except CntkError as error:
            if outcome.succeeded:
                raise
            logging.getLogger("cntk").warning("%s", error)
