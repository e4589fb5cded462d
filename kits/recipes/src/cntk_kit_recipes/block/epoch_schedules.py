"""Rules that give a number for each epoch: cosine, steps, and others, as plugins."""

from __future__ import annotations

import math

from cntk_core.config import Schedule, at_least, option, options
from cntk_core.contract.schedule import EpochSchedule
from cntk_core.errors import OptionError


@options
class ListOptions:
    """Options of ``type = "list"``."""

    values: Schedule[float] = option(doc="as without a rule: 0.1*3:0.01")


class ListSchedule(EpochSchedule):
    """The values of a list; the last one holds on."""

    options, requires_api = ListOptions, "1.0"

    def value(self, epoch: int, epochs: int) -> float:
        """Return the value of the list."""
        return float(self.settings.values[epoch])


@options
class CosineOptions:
    """Options of ``type = "cosine"``."""

    start: float = option(doc="value of the first epoch")
    end: float = option(default=0.0, doc="value that the last epoch comes near to")
    epochs: int = option(default=0, doc="length of a half wave; 0 is maxEpochs. Then it begins again")


class CosineSchedule(EpochSchedule):
    """``end + (start - end) (1 + cos(pi t / T)) / 2`` for epoch t of T (Loshchilov and Hutter 2017, SGDR)."""

    options, requires_api = CosineOptions, "1.0"

    def value(self, epoch: int, epochs: int) -> float:
        """Return the value on the half wave."""
        length = self.settings.epochs or max(epochs, 1)
        wave = (1.0 + math.cos(math.pi * (epoch % length) / length)) / 2.0
        return float(self.settings.end + (self.settings.start - self.settings.end) * wave)


@options
class StepOptions:
    """Options of ``type = "step"``."""

    start: float = option(doc="value of the first epochs")
    factor: float = option(default=0.1, doc="by which it is multiplied")
    every: int = option(default=1, doc="so many epochs")

    def __attrs_post_init__(self) -> None:
        """Raise OptionError for steps without length."""
        if self.every < 1:
            raise OptionError(f"'every' must be at least 1, not {self.every}")


class StepSchedule(EpochSchedule):
    """``start * factor ** floor(t / every)``."""

    options, requires_api = StepOptions, "1.0"

    def value(self, epoch: int, epochs: int) -> float:
        """Return the value of the step."""
        return float(self.settings.start * self.settings.factor ** (epoch // self.settings.every))


@options
class ExponentialOptions:
    """Options of ``type = "exponential"``."""

    start: float = option(doc="value of the first epoch")
    factor: float = option(doc="by which each epoch multiplies it")


class ExponentialSchedule(EpochSchedule):
    """``start * factor ** t``."""

    options, requires_api = ExponentialOptions, "1.0"

    def value(self, epoch: int, epochs: int) -> float:
        """Return the value of the epoch."""
        return float(self.settings.start * self.settings.factor**epoch)


@options
class PolynomialOptions:
    """Options of ``type = "polynomial"``."""

    start: float = option(doc="value of the first epoch")
    end: float = option(default=0.0, doc="value that is reached after the last epoch")
    power: float = option(default=1.0, doc="1 is a straight line")


class PolynomialSchedule(EpochSchedule):
    """``end + (start - end) (1 - t / T) ** power`` for epoch t of T."""

    options, requires_api = PolynomialOptions, "1.0"

    def value(self, epoch: int, epochs: int) -> float:
        """Return the value of the epoch."""
        left = max(1.0 - epoch / max(epochs, 1), 0.0)
        return float(self.settings.end + (self.settings.start - self.settings.end) * left**self.settings.power)


@options
class WarmupOptions:
    """Options of ``type = "linearWarmup"``."""

    start: float = option(default=0.0, doc="value before the first epoch")
    peak: float = option(doc="value that is reached in the last of the warm-up epochs")
    end: float = option(default=0.0, doc="value that is reached after the last epoch")
    warmup_epochs: int = option(default=1, doc="so many epochs rise", validator=at_least(1))


class LinearWarmupSchedule(EpochSchedule):
    """A straight line up to ``peak`` in ``warmupEpochs`` epochs, and another one down to ``end`` after the last."""

    options, requires_api = WarmupOptions, "1.0"

    def value(self, epoch: int, epochs: int) -> float:
        """Return the value on one of the two lines."""
        chosen = self.settings
        rising = chosen.warmup_epochs
        if epoch < rising:
            return float(chosen.start + (chosen.peak - chosen.start) * (epoch + 1) / rising)
        left = max(epochs - epoch, 0) / max(epochs - rising + 1, 1)
        return float(chosen.end + (chosen.peak - chosen.end) * left)
