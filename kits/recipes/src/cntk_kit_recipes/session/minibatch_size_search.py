"""Search of the size of minibatches before an epoch (``autoAdjustMinibatch``).

The larger the minibatch, the better it is shared among workers. Trials with growing sizes go on while the criterion is
not much worse than with the smallest (Seide, Fu, Droppo, Li and Yu, "On parallelizability of stochastic gradient
descent for speech DNNs", ICASSP 2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs

from cntk_core.training.rates.auto_adjust import AutoAdjust
from cntk_kit_recipes.session.run_log import RunLog

STEP = 64
"""Sizes from this one on are rounded to its multiples."""


@attrs.frozen
class SizeRange:
    """The sizes that are tried: each ``sqrt(2)`` times the one before. The least may be larger than the largest."""

    least: int
    largest: int


def size_range(options: AutoAdjust, configured: int, rate_change: float, previous: int) -> SizeRange:
    """Return the sizes that may be tried.

    A rate that was reduced to a share ``c`` of the first one allows larger minibatches: ``configured / sqrt(c)``.

    Args:
        options: the block.
        configured: size that the recipe gives.
        rate_change: ``c``.
        previous: size that was chosen before, 0 if none. Sizes at most double, and at most halve.
    """
    change = math.sqrt(rate_change)
    least = int(configured / change) if 0.0 < change < 1.0 else configured
    if not previous:
        return SizeRange(least, options.minibatch_size_tuning_max)
    return SizeRange(max(least, previous // 2), min(options.minibatch_size_tuning_max, 2 * previous))


def is_kept(options: AutoAdjust, epoch: int, previous: int) -> bool:
    """Whether an epoch (from 0) keeps the size that was chosen before, without a search."""
    every = options.minibatch_size_tuning_frequency
    return previous > 0 and epoch + 1 > every and (epoch + 1) % every != 0


def rounded(size: float) -> int:
    """Return the nearest multiple of 64; sizes below 64 are only made whole (the original made them 0 or 64)."""
    return max(1, round(size)) if size < STEP else STEP * int((size + STEP / 2) / STEP)


def search_size(sizes: SizeRange, margin: float, epoch: int, trial: Callable[[int, str], float], log: RunLog) -> int:
    """Return the largest size whose trial is not worse than the first one's by more than a margin.

    Args:
        sizes: what may be tried.
        margin: percent.
        epoch: from 0.
        trial: gives the average criterion of a trial with a size; the text is what the log calls it.
        log: gets a line for each step.
    """
    if sizes.least > sizes.largest:
        return sizes.largest
    lead = f" AdaptiveMinibatchSearch Epoch[{epoch + 1}]:"
    shown = f"{rounded(sizes.least)}..{rounded(sizes.largest)}"
    log.line(f"{lead} Evaluating minibatchSizes {shown}")
    exact = _exact_sizes(sizes)
    base = good_criterion = math.nan
    good = 0
    for index, size in enumerate(map(rounded, exact)):
        log.detail(f"{lead} Evaluating trial minibatchSize={size} (search range: {shown})...")
        name = "AdaptiveMinibatchSearch:" if index else "BaseAdaptiveMinibatchSearch:"
        criterion = trial(size, name)
        if not index:
            base = criterion
            log.detail(f"{lead} Computed baseCriterion {base:.8f} for minibatchSize={size}")
        elif math.isnan(criterion) or criterion > base * (1.0 + margin / 100.0):
            break
        elif index + 1 < len(exact):
            log.detail(f"{lead} Keep searching... epochCriterion = {criterion:.8f} vs. baseCriterion = {base:.8f}")
        good, good_criterion = size, criterion
        if math.isnan(base):
            break
    log.detail(
        f"{lead} Search successful. New minibatchSize is {good}. "
        f"epochCriterion = {good_criterion:.8f} vs baseCriterion = {base:.8f}"
    )
    return good


def _exact_sizes(sizes: SizeRange) -> list[float]:
    """``least * sqrt(2) ** k`` up to the largest. Every second is a whole number, exactly."""
    result = []
    size = float(sizes.least)
    while size <= sizes.largest:
        result.append(size)
        size = sizes.least * 2.0 ** (len(result) / 2)
    return result
