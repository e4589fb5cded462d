"""Remembers what a training does, for the pictures of the demo, and tells it in short lines where no bar is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cntk_core.api import hookimpl

if TYPE_CHECKING:
    from cntk_core.api import EpochSummary, Job, JobOutcome, Network


class Recorder:
    """A listener that keeps the network and the summaries of the epochs.

    Args:
        tell: print a line for each epoch.
    """

    def __init__(self, *, tell: bool) -> None:
        self.tell = tell
        self.network: Network | None = None
        self.epochs: list[EpochSummary] = []

    @hookimpl
    def cntk_job_begin(self, job: Job) -> None:
        """Keep the network that is trained."""
        if job.action.startswith("train"):
            self.network = job.network

    @hookimpl
    def cntk_job_end(self, job: Job, outcome: JobOutcome) -> None:
        """Say why a training ended before its last epoch."""
        if self.tell and outcome.stopped:
            print(f"  the end: {outcome.stopped}", flush=True)

    @hookimpl
    def cntk_epoch_end(self, job: Job, summary: EpochSummary) -> None:
        """Keep the summary."""
        self.epochs.append(summary)
        if self.tell:
            shown = f"  epoch {summary.epoch + 1:2} of {job.epochs}: {_figures(summary.criteria)}"
            held_out = f"   held out: {_figures(summary.validation)}" if summary.validation else ""
            print(shown + held_out, flush=True)


def _figures(criteria: Mapping[str, float]) -> str:
    """The training criterion as it is, an evaluation in percent."""
    loss, *rest = criteria.values()
    return "  ".join([f"loss {loss:.4f}", *(f"wrong {100 * value:.2f} %" for value in rest)])
