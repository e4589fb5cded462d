"""Schedules of learning rates and momenta: a value for each stretch of samples or sweeps, and what it is a value of."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from enum import Enum, unique
from typing import Any, ClassVar

FULL_DATA_SWEEP = 0
"""Length of a stretch that is one sweep over the data."""

IGNORE = 0
"""Minibatch size of a value that is for a minibatch of any size."""


@unique
class UnitType(Enum):
    """What a value of a schedule is for."""

    sample = "sample"
    minibatch = "minibatch"


class TrainingParameterSchedule:
    """A value for each point in training; ``schedule[n]`` is the one after ``n`` samples, or sweeps.

    Args:
        values: one number for ever, or pairs of a number of stretches and the value in them. The last value stays.
        epoch_size: samples of a stretch; ``FULL_DATA_SWEEP``: stretches are sweeps.
        minibatch_size: samples that a value is for; 0: a minibatch, however large.

    Raises:
        ValueError: there is no value, or it is for no stretch.
    """

    ignored_minibatch_size: ClassVar[int] = IGNORE
    full_data_sweep: ClassVar[int] = FULL_DATA_SWEEP

    def __init__(
        self,
        values: float | Sequence[tuple[int, float]],
        epoch_size: int = FULL_DATA_SWEEP,
        minibatch_size: int = IGNORE,
    ) -> None:
        pairs = [(1, float(values))] if isinstance(values, int | float) else [(int(n), float(v)) for n, v in values]
        if not pairs:
            raise ValueError("a schedule has at least one value")
        if any(count < 1 for count, _ in pairs):
            raise ValueError("each value of a schedule is for at least one stretch")
        length = epoch_size or 1
        self.epoch_size = epoch_size
        self.minibatch_size = minibatch_size
        self.is_minibatch_size_explicitly_specified = True
        self._ends: list[int] = []
        self._values = [value for _, value in pairs]
        end = 0
        for count, _ in pairs:
            end += count * length
            self._ends.append(end)

    def __getitem__(self, count: int) -> float:
        return self._values[min(bisect_right(self._ends, count), len(self._values) - 1)]

    def __repr__(self) -> str:
        return f"TrainingParameterSchedule({self._values}, of {self.minibatch_size or 'any'} samples)"

    @property
    def is_sweep_based(self) -> bool:
        """Whether stretches are sweeps."""
        return self.epoch_size == FULL_DATA_SWEEP

    def after(self, samples: int, sweeps: int) -> float:
        """Return the value after so many samples, which are in so many sweeps."""
        return self[sweeps if self.is_sweep_based else samples]

    def rate(self, samples: int, value: float, *, of_mean: bool) -> float:
        """Return the learning rate of an update, for a value of this schedule.

        Args:
            samples: of the minibatch.
            value: of the schedule.
            of_mean: the gradient is a mean over the samples, not their sum.
        """
        if of_mean:
            return value * samples / self.minibatch_size if self.minibatch_size else value
        return value / (self.minibatch_size or samples)

    def share(self, samples: int, value: float) -> float:
        """Return what is kept over a minibatch, for a momentum of this schedule."""
        return value ** (samples / self.minibatch_size) if self.minibatch_size else value

    def begun_at(self, count: int) -> TrainingParameterSchedule:
        """Return this schedule as it is if its first stretch begins after so many samples or sweeps."""
        moved = TrainingParameterSchedule(self._values[0], self.epoch_size, self.minibatch_size)
        moved._values = list(self._values)
        moved._ends = [count + end for end in self._ends]
        moved.is_minibatch_size_explicitly_specified = self.is_minibatch_size_explicitly_specified
        return moved

    def to_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: ends of the stretches with their values, lengths and sizes."""
        return {
            "epoch_size": self.epoch_size,
            "minibatch_size": self.minibatch_size,
            "schedule": {str(end): value for end, value in zip(self._ends, self._values, strict=True)},
        }

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> TrainingParameterSchedule:
        """Return the schedule that :meth:`to_dict` has described."""
        found = sorted((int(end), float(value)) for end, value in kept["schedule"].items())
        made = cls(found[0][1], int(kept["epoch_size"]), int(kept.get("minibatch_size", IGNORE)))
        made._ends, made._values = [end for end, _ in found], [value for _, value in found]
        return made


training_double_parameter_schedule = TrainingParameterSchedule


def _pairs(schedule: Any) -> Any:
    """Return a list of values as pairs: one stretch each where nothing is said."""
    return [(1, each) if isinstance(each, int | float) else each for each in schedule]


def _made(schedule: Any, minibatch_size: int, epoch_size: int | None, what: str = "schedule") -> Any:
    """Make a schedule of a number or a list.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(schedule, int | float):
        if epoch_size is not None:
            warnings.warn("epoch_size is ignored for a schedule that is one number", RuntimeWarning, stacklevel=3)
        return TrainingParameterSchedule(schedule, minibatch_size=minibatch_size)
    if isinstance(schedule, list):
        length = FULL_DATA_SWEEP if epoch_size is None else epoch_size
        return TrainingParameterSchedule(_pairs(schedule), length, minibatch_size)
    raise ValueError(f"{what} is a number or a list of numbers, not {type(schedule)}")


def training_parameter_schedule(
    schedule: Any, unit: UnitType | str = UnitType.minibatch, epoch_size: int | None = None
) -> TrainingParameterSchedule:
    """Make a schedule of values per sample or per minibatch.

    Args:
        schedule: a number; a list with a number for each stretch, or with pairs of a count of stretches and a number.
        unit: what the values are for.
        epoch_size: samples of a stretch; by default a sweep.

    Raises:
        ValueError: neither a number nor a list; no such unit.
    """
    if isinstance(schedule, TrainingParameterSchedule):
        schedule.is_minibatch_size_explicitly_specified = True
        return schedule
    made = _made(schedule, 1 if UnitType(unit) is UnitType.sample else IGNORE, epoch_size)
    assert isinstance(made, TrainingParameterSchedule)
    return made


def learning_parameter_schedule(
    schedule: Any, minibatch_size: int | None = None, epoch_size: int | None = None
) -> TrainingParameterSchedule:
    """Make a schedule of values that are for minibatches of a size.

    Args:
        schedule: as :func:`training_parameter_schedule` takes it.
        minibatch_size: samples that the values are for. None: what the learner says, or any.
        epoch_size: samples of a stretch; by default a sweep.

    Raises:
        ValueError: neither a number nor a list.
    """
    if isinstance(schedule, TrainingParameterSchedule):
        return schedule
    made = _made(schedule, minibatch_size or IGNORE, epoch_size)
    assert isinstance(made, TrainingParameterSchedule)
    made.is_minibatch_size_explicitly_specified = minibatch_size is not None
    return made


def learning_parameter_schedule_per_sample(schedule: Any, epoch_size: int | None = None) -> TrainingParameterSchedule:
    """Make a schedule of values per sample. Raises ValueError: neither a number nor a list."""
    return learning_parameter_schedule(schedule, 1, epoch_size)


def learning_rate_schedule(lr: Any, unit: UnitType | str, epoch_size: int | None = None) -> TrainingParameterSchedule:
    """Make a schedule of learning rates (:func:`training_parameter_schedule`)."""
    return training_parameter_schedule(lr, unit, epoch_size)


def momentum_schedule(
    momentum: Any, epoch_size: int | None = None, minibatch_size: int | None = None
) -> TrainingParameterSchedule:
    """Make a schedule of momenta (:func:`learning_parameter_schedule`)."""
    return learning_parameter_schedule(momentum, minibatch_size, epoch_size)


def momentum_schedule_per_sample(momentum: Any, epoch_size: int | None = None) -> TrainingParameterSchedule:
    """Make a schedule of momenta of a sample: of N samples, the power N is kept."""
    return momentum_schedule(momentum, epoch_size, 1)


def momentum_as_time_constant_schedule(momentum: Any, epoch_size: int | None = None) -> TrainingParameterSchedule:
    """Make a schedule of momenta that are given as time constants, in samples: ``exp(-1 / T)`` of each sample is kept.

    Raises:
        ValueError: neither a number nor a list.
    """
    if not isinstance(momentum, TrainingParameterSchedule):
        momentum = _made(momentum, 1, epoch_size, "momentum")
        momentum._values = [_kept_of_sample(value) for value in momentum._values]
    momentum.is_minibatch_size_explicitly_specified = True
    assert isinstance(momentum, TrainingParameterSchedule)
    return momentum


def _kept_of_sample(time_constant: float) -> float:
    return math.exp(-1.0 / time_constant) if time_constant else 0.0
