"""Settings for minibatches that a reader makes larger than ``minibatchSize``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from cntk_core.config import Schedule
from cntk_core.training.settings import DEFAULT_MOMENTUM_PER_MB, SGDSettings


def for_factors(settings: SGDSettings, factor: Callable[[int], int]) -> SGDSettings:
    """Return the settings for minibatches that are larger than ``minibatchSize``.

    Rates and momentum that are given per minibatch are spread over all of it. Such readers say themselves how many
    sequences are side by side, so that nobody has to look.

    Args:
        settings: as the recipe says.
        factor: epoch to how many times larger its minibatches are.
    """
    epochs = range(settings.max_epochs)
    if all(factor(epoch) == 1 for epoch in epochs):
        return settings
    rates, momentum = settings.learning_rates_per_mb, settings.momentum_per_mb
    if momentum is None:
        momentum = Schedule.constant(DEFAULT_MOMENTUM_PER_MB)
    given = [epoch for epoch in epochs if settings.has_rate(epoch)]
    known: Any = settings
    evolved: SGDSettings = attrs.evolve(
        known,
        truncated=False,
        learning_rates_per_mb=None if rates is None else Schedule.of(rates[epoch] / factor(epoch) for epoch in given),
        momentum_per_mb=Schedule.of(float(momentum[epoch] ** (1 / factor(epoch))) for epoch in epochs),
    )
    return evolved
