"""Options of the block ``DataParallelASGD``."""

from __future__ import annotations

from typing import Literal

from cntk_core.api import Schedule, option, options

DEFAULT_PERIOD = 256
"""Samples between two exchanges, as in the original."""


@options
class WarmUp:
    """How much of a worker's update counts at the beginning (``AdjustLearningRateAtBeginning``)."""

    adjust_type: Literal["none", "linearly", "staircase"] = option(default="staircase", doc="how the part grows")
    adjust_coefficient: float = option(default=0.1, doc="the part with which it begins")
    adjust_per_minibatches: int = option(
        default=256, aliases=("adjustNBMinibatch",), doc="exchanges of a stair, or of the whole way to 1"
    )

    def __attrs_post_init__(self) -> None:
        if self.adjust_coefficient < 0:
            raise ValueError("adjustCoefficient must not be negative")
        if self.adjust_per_minibatches < 1:
            raise ValueError("adjustPerMinibatches must be at least 1")

    def factor(self, exchanges: int) -> float:
        """Return the part that counts in a worker's ``exchanges``-th exchange (from 1), at most 1."""
        first, length = self.adjust_coefficient, self.adjust_per_minibatches
        if self.adjust_type == "linearly":
            return min(1.0, first + (1.0 - first) / length * exchanges)
        if self.adjust_type == "staircase":
            return min(1.0, first * (exchanges // length + 1))
        return 1.0


@options
class SimulatedTime:
    """Simulated durations that decide in which order the server sees what workers send (``simulatedTime``)."""

    seed: int = option(default=1, doc="of the random durations")
    seconds_per_sample: float = option(default=0.001, doc="of simulated time that a worker learns")
    jitter: float = option(default=0.1, doc="standard deviation of the logarithm of a minibatch's duration")
    slowness: tuple[float, ...] = option(
        default=(1.0,), doc="what the durations of each rank are multiplied with; the last one is for all others, too"
    )
    latency: float = option(default=0.0, doc="seconds that a message takes")

    def __attrs_post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError("seed must not be negative")
        if self.seconds_per_sample <= 0:
            raise ValueError("secondsPerSample must be more than 0")
        if self.jitter < 0 or self.latency < 0:
            raise ValueError("jitter and latency must not be negative")
        if not self.slowness or min(self.slowness) <= 0:
            raise ValueError("every number of slowness must be more than 0")


@options
class AsynchronousOptions:
    """Options of the block ``DataParallelASGD``."""

    sync_period_per_worker: Schedule[int] | None = option(
        default=None, doc=f"samples of a worker between two exchanges with the server, by epoch; {DEFAULT_PERIOD}"
    )
    sync_period: Schedule[int] | None = option(default=None, doc="older name of syncPeriodPerWorker")
    use_pipeline: bool = option(default=False, doc="go on learning while the server answers")
    sim_model_average: bool = option(
        default=False, doc="the workers wait for each other, and the server averages their models"
    )
    adjust_learning_rate_at_beginning: WarmUp | None = option(
        default=None, doc="let the updates of workers count in part at the beginning"
    )
    staleness: int | None = option(
        default=None, doc="exchanges that a worker may be ahead of the slowest; without it nobody waits"
    )
    delay_compensation: Literal["none", "constant", "adaptive"] = option(
        default="none", doc="mend gradients of an older model: with a constant lambda, or one by their mean square"
    )
    compensation_lambda: float | None = option(
        default=None, doc="lambda of the delay compensation; 0.04 if constant, 2 if adaptive"
    )
    compensation_decay: float = option(default=0.95, doc="of the mean square, with adaptive delay compensation")
    simulated_time: SimulatedTime | None = option(
        default=None, doc="simulated times decide on the order of events, so that a run is the same every time"
    )

    def __attrs_post_init__(self) -> None:
        if self.sync_period is not None and self.sync_period_per_worker is not None:
            raise ValueError("syncPeriod is an older name of syncPeriodPerWorker; give one of them")
        if any(samples < 1 for samples, _ in self.period.values):
            raise ValueError("syncPeriodPerWorker must be at least 1")
        if self.staleness is not None and self.staleness < 0:
            raise ValueError("staleness must not be negative")
        if self.sim_model_average and self.staleness:
            raise ValueError("with simModelAverage the workers wait for each other; staleness can only be 0")
        if self.sim_model_average and self.delay_compensation != "none":
            raise ValueError("with simModelAverage there is no delay that delayCompensation could mend")
        if self.compensation_lambda is not None and self.delay_compensation == "none":
            raise ValueError("compensationLambda needs delayCompensation=constant or adaptive")
        if self.compensation_lambda is not None and self.compensation_lambda < 0:
            raise ValueError("compensationLambda must not be negative")
        if not 0.0 <= self.compensation_decay < 1.0:
            raise ValueError("compensationDecay must be at least 0 and less than 1")

    @property
    def period(self) -> Schedule[int]:
        """Samples of a worker between two exchanges, by epoch."""
        return self.sync_period_per_worker or self.sync_period or Schedule.constant(DEFAULT_PERIOD)

    @property
    def bound(self) -> int | None:
        """Exchanges that a worker may be ahead of the slowest; None for any number."""
        return 0 if self.sim_model_average else self.staleness
