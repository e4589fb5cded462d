"""What listeners are told before and after an epoch, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping

from cntk_core.contract.events import EpochSummary
from cntk_core.plugins.listening import passed_on
from cntk_core.training.loop.criteria import Criterion
from cntk_kit_recipes.session.epoch_progress import EpochResult, Pace
from cntk_kit_recipes.session.parts import SessionParts
from cntk_kit_recipes.session.run_log import averages


def asked_rate(parts: SessionParts, epoch: int, rate: float) -> float:
    """Return the learning rate of an epoch (from 0) that listeners make of the one that was decided."""
    listeners = parts.listeners("cntk_learning_rate")
    if not listeners:
        return rate
    found = float(passed_on(listeners, "rate", job=parts.job, epoch=epoch, rate=rate))
    if found != rate:
        text = f"learnRatePerSample of epoch {epoch + 1} is {found:.8g}, as a plugin says, in place of {rate:.8g}"
        parts.log.line(text)
    return found


def tell_epoch(parts: SessionParts, pace: Pace, result: EpochResult, validation: Mapping[str, Criterion]) -> str:
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
    for listener in parts.listeners("cntk_epoch_end"):
        listener(job=parts.job, summary=summary)
    reason = ""
    for listener in parts.listeners("cntk_should_stop"):
        reason = str(listener(job=parts.job, summary=summary) or "")
        if reason:
            break
    return parts.ranks.first_text(reason)
