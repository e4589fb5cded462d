"""Search of a learning rate before an epoch (``searchBeforeEpoch``).

The method is Algorithm 2 of Guenter, Yu, Eversole, Kuchaiev and Seltzer, "Stochastic Gradient Descent Algorithm in the
Computational Network Toolkit" (2013), as the original does it. A trial learns from the first samples of the epoch and
gives their average criterion.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs

from cntk_core.errors import TrainingError
from cntk_kit_recipes.session.rate_control import single

STEP = 0.618
"""By what a rate is multiplied to get the next one."""

UNKNOWN_SHARE = 0.3
"""Weight of the criterion of the epoch before, where the size of an epoch is not known."""

_BACK = single(STEP)
"""The original takes steps back in single precision. Ours must end at the same numbers."""

Trial = Callable[[float, str], float]
"""Gives the average criterion of a trial with a rate per sample; the text is what the log calls it."""


@attrs.frozen
class Search:
    """With what a search begins.

    Attributes:
        minibatch_size: samples of a minibatch.
        earlier: rates that earlier searches found; empty before the first search.
        least: no lower rate is tried.
        previous: average criterion of the epoch before; None before the first epoch.
        share: ``r``, the weight of ``previous``: ``sqrt(n / N)`` for trials of n samples in an epoch of N; 0 asks no
            more of a rate than that it is better than learning nothing.
        from_both_sides: find the best rate and not only the largest good one.
    """

    minibatch_size: int
    earlier: tuple[float, ...] = ()
    least: float = 0.0
    previous: float | None = None
    share: float = UNKNOWN_SHARE
    from_both_sides: bool = False

    @property
    def first(self) -> float:
        """The first rate that is tried."""
        if self.earlier:
            return max(self.earlier) / _BACK / _BACK * STEP
        return 0.125 / _BACK / math.sqrt(self.minibatch_size) * STEP


def share_of_trial(samples: int, epoch_size: int) -> float:
    """``r`` for trials of so many samples; an ``epoch_size`` of 0 is not known."""
    return math.sqrt(samples / epoch_size) if epoch_size else UNKNOWN_SHARE


def search_rate(search: Search, trial: Trial) -> tuple[float, float]:
    """Find a learning rate.

    With ``e(lr)`` the criterion of a trial and ``base = max(r * previous + (1 - r) * e(0), e(0))``, the largest of the
    rates ``first * 0.618 ** k`` with ``e(lr) <= base``. From both sides: that rate is the right end and ``0.01 /
    minibatchSize`` the left one; the worse end moves by the factor 0.618 to the other until they meet, and the better
    of them is taken.

    Returns:
        The rate per sample, and the base.

    Raises:
        TrainingError: the criterion is not a number although nothing is learned.
    """
    unchanged = trial(0.0, "BaseAdaptiveLearnRateSearch:")
    if math.isnan(unchanged):
        raise TrainingError(
            "The training criterion is not a number (NAN).",
            hint="It is so before anything was learned in this epoch: look at the data and at the first values.",
        )
    previous = unchanged if search.previous is None else search.previous
    base = max(search.share * previous + (1.0 - search.share) * unchanged, unchanged)
    rate = search.first
    criterion = trial(rate, "AdaptiveLearnRateSearch:")
    while math.isnan(criterion) or (criterion > base and rate > search.least):
        rate *= STEP
        criterion = trial(rate, "AdaptiveLearnRateSearch:")
    if search.from_both_sides:
        rate = _from_both_sides(rate, criterion, 0.01 / search.minibatch_size, trial)
    return rate, base


def _from_both_sides(right: float, right_criterion: float, left: float, trial: Trial) -> float:
    left_criterion = _or_infinite(trial(left, "DetailBaseAdaptiveLearnRateSearch:"))
    while right > left * 1.2:
        if right_criterion > left_criterion:
            right *= STEP
            right_criterion = _or_infinite(trial(right, "DetailRightAdaptiveLearnRateSearch:"))
        else:
            left /= STEP
            left_criterion = _or_infinite(trial(left, "DetailLeftAdaptiveLearnRateSearch:"))
    return left if left_criterion < right_criterion else right


def _or_infinite(criterion: float) -> float:
    return math.inf if math.isnan(criterion) else criterion
