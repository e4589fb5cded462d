"""The ``autoAdjust`` block: what training decides by itself (learning rate and size of a minibatch)."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

from cntk_core.config import Schedule, option, options

SAMPLES_PER_SEARCH = 500
"""Default length of a trial, in minibatches."""


class RateControl(enum.Enum):
    """When the learning rate is decided."""

    NONE = "none"
    BEFORE = "searchBeforeEpoch"
    AFTER = "adjustAfterEpoch"


_WORDS = {
    "": RateControl.NONE,
    "none": RateControl.NONE,
    "false": RateControl.NONE,
    "searchbeforeepoch": RateControl.BEFORE,
    "beforeepoch": RateControl.BEFORE,
    "before": RateControl.BEFORE,
    "adjustafterepoch": RateControl.AFTER,
    "afterepoch": RateControl.AFTER,
    "after": RateControl.AFTER,
}


def _check(good: Callable[[Any], bool], rule: str) -> Callable[[Any, Any, Any], None]:
    def validate(instance: Any, attribute: Any, value: Any) -> None:
        values = [number for number, _ in value.values] if isinstance(value, Schedule) else [value]
        bad = [number for number in values if not good(number)]
        if bad:
            raise ValueError(f"'{attribute.name}' {rule}, not {bad[0]:g}")

    return validate


def _check_word(instance: Any, attribute: Any, value: str) -> None:
    if value.lower() not in _WORDS:
        raise ValueError(f"'{attribute.name}' must be none, searchBeforeEpoch or adjustAfterEpoch, not '{value}'")


_NOT_NEGATIVE = _check(lambda value: value >= 0, "must not be negative")
_AT_LEAST_1 = _check(lambda value: value >= 1, "must be at least 1")


@options
class AutoAdjust:
    """Keys of the block.

    A criterion improves by a share of its last value; thresholds are such shares. Attributes that hold schedules are
    indexed with the epoch, from 0.
    """

    auto_adjust_lr: str = option(
        default="none", key="autoAdjustLR", doc="none, searchBeforeEpoch or adjustAfterEpoch", validator=_check_word
    )
    reduce_learn_rate_if_improve_less_than: float = option(default=0.0, doc="adjustAfterEpoch: threshold")
    increase_learn_rate_if_improve_more_than: float = option(default=math.inf, doc="adjustAfterEpoch: threshold")
    learn_rate_decrease_factor: float = option(
        default=0.618,
        doc="adjustAfterEpoch: at most 1",
        validator=_check(lambda value: 0 < value <= 1, "must be in (0, 1]"),
    )
    learn_rate_increase_factor: float = option(
        default=1.382, doc="adjustAfterEpoch: at least 1", validator=_check(lambda v: v >= 1, "must be at least 1")
    )
    learn_rate_adjust_interval: int = option(
        default=1, doc="adjustAfterEpoch: epochs whose criteria are averaged", validator=_NOT_NEGATIVE
    )
    load_best_model: bool = option(default=True, doc="adjustAfterEpoch: go back to the model before if it was better")
    continue_reduce: bool = option(default=False, doc="adjustAfterEpoch: after one reduction, reduce after every epoch")
    use_cv_set_control_lr_if_cv_exists: bool = option(
        default=True, key="useCVSetControlLRIfCVExists", doc="the validation set decides, where there is one"
    )
    use_eval_criterion_control_lr: bool = option(
        default=False, key="useEvalCriterionControlLR", doc="the first evaluation node decides, where there is one"
    )
    num_prev_learn_rates: int = option(
        default=5, doc="searchBeforeEpoch: rates of this many epochs give the largest to try", validator=_AT_LEAST_1
    )
    num_best_search_epoch: int = option(
        default=1, doc="searchBeforeEpoch: epochs with a search from both sides", validator=_NOT_NEGATIVE
    )
    better_than_unchanged: bool = option(default=False, doc="searchBeforeEpoch: the largest rate better than rate 0")
    num_samples4_search: Schedule[int] | None = option(
        default=None, key="numSamples4Search", doc="samples of a trial, by epoch; default: 500 minibatches",
        validator=lambda instance, attribute, value: None if value is None else _AT_LEAST_1(instance, attribute, value),
    )  # fmt: skip
    num_mini_batch4_lr_search: Schedule[int] | None = option(
        default=None, key="numMiniBatch4LRSearch", doc="minibatches of a trial, by epoch (numSamples4Search is newer)",
        validator=lambda instance, attribute, value: None if value is None else _AT_LEAST_1(instance, attribute, value),
    )  # fmt: skip
    auto_adjust_minibatch: bool = option(default=False, doc="find the largest good minibatch after the given sizes")
    minibatch_size_tuning_frequency: int = option(default=1, doc="epochs between two searches", validator=_AT_LEAST_1)
    minibatch_size_tuning_max: int = option(default=1048576, doc="largest minibatch", validator=_AT_LEAST_1)
    minibatch_search_criterion_error_margin: float = option(
        default=1.0, doc="percent by which the criterion of a trial may be worse", validator=_NOT_NEGATIVE
    )

    @property
    def rate_control(self) -> RateControl:
        """When the learning rate is decided."""
        return _WORDS[self.auto_adjust_lr.lower()]

    @property
    def interval(self) -> int:
        """Epochs between two adjustments."""
        return max(1, self.learn_rate_adjust_interval)

    @property
    def rolls_back(self) -> bool:
        """Whether training may go back to an earlier model."""
        return self.rate_control is RateControl.AFTER and self.load_best_model

    def trial_samples(self, epoch: int, sizes: Schedule[int]) -> int:
        """Samples of a trial before an epoch.

        Args:
            epoch: from 0.
            sizes: the recipe's ``minibatchSize``.
        """
        if self.num_mini_batch4_lr_search is not None:
            # As in the original, the last entry's own size counts from then on.
            known = min(epoch, len(self.num_mini_batch4_lr_search) - 1)
            return self.num_mini_batch4_lr_search[known] * sizes[known]
        if self.num_samples4_search is not None:
            return self.num_samples4_search[epoch]
        return SAMPLES_PER_SEARCH * sizes[epoch]
