"""The settings of a training: the keys of the SGD block, their types and defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cntk_core.config import Schedule, option, options
from cntk_core.training.rates import schedules
from cntk_core.training.rates.auto_adjust import AutoAdjust, RateControl

DEFAULT_MOMENTUM_PER_MB = 0.9


@options
class SGDSettings:
    """How to train. Rates are per sample or per minibatch as given; the methods give them per sample.

    Attributes are the keys of the block in Python's spelling; schedules are indexed with the epoch, from 0.
    """

    max_epochs: int = option(doc="number of epochs")
    epoch_size: int = option(default=0, doc="samples of an epoch; 0 is one sweep over the data")
    minibatch_size: Schedule[int] = option(default=Schedule.constant(256), doc="samples of a minibatch, by epoch")
    learning_rates_per_sample: Schedule[float] | None = option(default=None, doc="by epoch")
    learning_rates_per_mb: Schedule[float] | None = option(default=None, key="learningRatesPerMB", doc="by epoch")
    momentum_per_sample: Schedule[float] | None = option(default=None, doc="by epoch")
    momentum_per_mb: Schedule[float] | None = option(
        default=None, key="momentumPerMB", doc="by epoch; 0.9 if not given"
    )
    momentum_as_time_constant: Schedule[float] | None = option(default=None, doc="in samples, by epoch")
    truncated: bool = option(default=False, doc="momentum and rates per minibatch are those of one row of it")
    min_learning_rate_per_sample: float = option(default=1e-9, doc="training ends below it")
    l1_reg_weight: Schedule[float] = option(
        default=Schedule.constant(0.0), key="L1RegWeight", doc="per sample, by epoch"
    )
    l2_reg_weight: Schedule[float] = option(
        default=Schedule.constant(0.0), key="L2RegWeight", doc="per sample, by epoch"
    )
    clipping_threshold_per_sample: float = option(default=math.inf, doc="limit of the gradient of one sample")
    gradient_clipping_with_truncation: bool = option(default=True, doc="limit each element; false: the norm")
    gaussian_noise_inject_std: Schedule[float] = option(default=Schedule.constant(0.0), doc="by epoch")
    dropout_rate: Schedule[float] = option(default=Schedule.constant(0.0), doc="by epoch, in [0, 1)")
    batch_normalization_time_constant: Schedule[float] = option(default=Schedule.constant(0.0), doc="by epoch")
    batch_normalization_blend_time_constant: Schedule[float] = option(default=Schedule.constant(0.0), doc="by epoch")
    disable_reg_in_batch_normalization: bool = option(default=False, aliases=("disableWkInBatchNormal",))
    grad_update_type: str = option(default="none", doc="the update rule: none, or the name of a learner plugin")
    num_subminibatches: int = option(default=1, doc="parts that a minibatch is computed in")
    max_samples_in_ram: int = option(default=0, key="maxSamplesInRAM", doc="limit of a part; 0 is no limit")
    num_mbs_to_show_result: int = option(default=10, key="numMBsToShowResult", doc="minibatches between log lines")
    first_mbs_to_show_result: int = option(default=0, key="firstMBsToShowResult", doc="log each of the first ones")
    save_best_model_per_criterion: bool = option(default=False, doc="copy the best model by each criterion")
    keep_check_point_files: bool = option(default=False, doc="keep the checkpoint of every epoch")
    checkpoint_every_samples: int = option(default=0, doc="samples between checkpoints inside an epoch; 0: none")
    checkpoint_every_minutes: float = option(default=0.0, doc="minutes between checkpoints inside an epoch; 0: none")
    trace_level: int = option(default=0)
    train_criterion_node_name: str = option(default="", doc="default: the first of the network's criteria")
    eval_criterion_node_name: str = option(default="", doc="default: all evaluation nodes of the network")
    use_all_data_for_pre_computed_node: bool = option(default=True, doc="false: one epoch")
    gradient_check: bool = option(default=False, key="gradientcheck", doc="compare gradients with numeric ones")
    sig_figs: float = option(default=6.0, doc="gradientcheck: digits that must agree")
    auto_adjust: AutoAdjust = option(default=AutoAdjust(), doc="what training decides by itself")

    def rate(self, epoch: int, rows: int = 1) -> float:
        """Learning rate per sample of an epoch, if minibatches have so many parallel sequences."""
        if self.learning_rates_per_sample is not None:
            return self.learning_rates_per_sample[epoch]
        assert self.learning_rates_per_mb is not None, "no learning rate was given"
        return schedules.per_sample_rate(self.learning_rates_per_mb[epoch], self._spread(epoch, rows))

    def momentum(self, epoch: int, rows: int = 1) -> float:
        """Momentum per sample of an epoch, in a minibatch of so many parallel sequences."""
        if self.momentum_per_sample is not None:
            return self.momentum_per_sample[epoch]
        if self.momentum_as_time_constant is not None:
            return schedules.momentum_of_time_constant(self.momentum_as_time_constant[epoch])
        per_mb = DEFAULT_MOMENTUM_PER_MB if self.momentum_per_mb is None else self.momentum_per_mb[epoch]
        return schedules.momentum_per_sample(per_mb, self._spread(epoch, rows))

    def _spread(self, epoch: int, rows: int) -> int:
        """Over how many samples a value per minibatch is spread: CNTK takes the size of truncated ones for a row's."""
        size = self.minibatch_size[epoch]
        return size * rows if self.truncated and size > 1 else size

    @property
    def given_rates(self) -> int:
        """Epochs for which the recipe names a learning rate."""
        given = self.learning_rates_per_sample or self.learning_rates_per_mb
        return len(given) if given is not None else 0

    def has_rate(self, epoch: int) -> bool:
        """Whether the recipe decides the learning rate of an epoch."""
        return self.auto_adjust.rate_control is RateControl.NONE or epoch < self.given_rates

    def has_minibatch_size(self, epoch: int) -> bool:
        """Whether the recipe decides the size of an epoch's minibatches."""
        return not self.auto_adjust.auto_adjust_minibatch or epoch < len(self.minibatch_size)

    def parts(self, minibatch_size: int) -> int:
        """Parts that a minibatch of this many samples is computed in."""
        if self.max_samples_in_ram:
            return max(1, math.ceil(minibatch_size / self.max_samples_in_ram))
        return max(1, self.num_subminibatches)

    def program_settings(self, epoch: int) -> Mapping[str, float]:
        """Numbers that operations ask for, by the key of the recipe."""
        return {
            "dropoutRate": self.dropout_rate[epoch],
            "batchNormalizationTimeConstant": self.batch_normalization_time_constant[epoch],
            "batchNormalizationBlendTimeConstant": self.batch_normalization_blend_time_constant[epoch],
        }

    @property
    def clips(self) -> bool:
        """Whether gradients are limited."""
        return math.isfinite(self.clipping_threshold_per_sample)

    @property
    def clips_norm(self) -> bool:
        """Whether the norm of each parameter's gradient is limited, so that it must be known before the update."""
        return self.clips and not self.gradient_clipping_with_truncation

    @property
    def injects_noise(self) -> bool:
        """Whether noise is added to the parameters in any epoch."""
        return _is_on(self.gaussian_noise_inject_std)

    @property
    def has_l1(self) -> bool:
        """Whether there is an L1 weight in any epoch."""
        return _is_on(self.l1_reg_weight)

    @property
    def has_l2(self) -> bool:
        """Whether there is an L2 weight in any epoch."""
        return _is_on(self.l2_reg_weight)


def _is_on(schedule: Schedule[float]) -> bool:
    return any(value > 0 for value, _ in schedule.values)
