"""What listeners are told after an epoch, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cntk_core.contract.events import EpochSummary
from cntk_core.training.loop.criteria import Criterion, averages
from cntk_core.training.loop.epoch_progress import EpochResult, Pace

if TYPE_CHECKING:
    from cntk_core.training.loop.session import TrainingSession


def tell_epoch(session: TrainingSession, pace: Pace, result: EpochResult, validation: Mapping[str, Criterion]) -> str:
    """Tell the listeners what an epoch gave; return why training should end now, or nothing.

    Where several ranks train, one that should end ends all.
    """
    summary = EpochSummary(
        pace.epoch,
        result.samples,
        result.minibatches,
        averages(result.criteria),
        averages(validation),
        pace.rate,
        pace.minibatch_size,
        result.seconds,
    )
    for listener in session.listeners("cntk_epoch_end"):
        listener(job=session.job, summary=summary)
    reason = ""
    for listener in session.listeners("cntk_should_stop"):
        reason = str(listener(job=session.job, summary=summary) or "")
        if reason:
            break
    return session.ranks.first_text(reason) if session.ranks is not None else reason
