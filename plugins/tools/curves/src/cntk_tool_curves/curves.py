"""Learning curves, whatever they were read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs


@attrs.frozen
class Epoch:
    """What an epoch gave.

    Attributes:
        number: from 1.
        criteria: averages per sample by node name; the training criterion comes first.
        validation: the same on the validation set; empty without one.
        rate: learning rate per sample, None if it is not known.
        seconds: wall-clock time.
    """

    number: int
    criteria: Mapping[str, float]
    validation: Mapping[str, float] = attrs.field(factory=dict)
    rate: float | None = None
    seconds: float = 0.0


@attrs.frozen
class Reading:
    """The criteria of some minibatches within an epoch.

    Attributes:
        epoch: from 1.
        minibatch: the last of them, from 1.
        criteria: averages per sample by node name.
    """

    epoch: int
    minibatch: int
    criteria: Mapping[str, float]


class Curves:
    """The learning curves of one training.

    An epoch that is told again replaces what was told of it and of the epochs after it: so a training that was stopped
    and went on, or that went back to an earlier model, has one curve.

    Args:
        name: of the training: the command of the recipe.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._epochs: dict[int, Epoch] = {}
        self._readings: list[Reading] = []

    @property
    def epochs(self) -> list[Epoch]:
        """Finished epochs, in order."""
        return [self._epochs[number] for number in sorted(self._epochs)]

    @property
    def readings(self) -> list[Reading]:
        """What was shown within epochs, in order."""
        return self._readings

    def add_epoch(self, epoch: Epoch) -> None:
        """Take in an epoch that has ended."""
        self._epochs = {number: kept for number, kept in self._epochs.items() if number < epoch.number}
        self._epochs[epoch.number] = epoch

    def add_validation(self, number: int, validation: Mapping[str, float]) -> None:
        """Take in the criteria of the validation set after an epoch; those of an unknown epoch are left out."""
        if number in self._epochs:
            self._epochs[number] = attrs.evolve(self._epochs[number], validation=dict(validation))

    def add_reading(self, reading: Reading) -> None:
        """Take in what was shown within an epoch."""
        last = self._readings[-1] if self._readings else None
        place = (reading.epoch, reading.minibatch)
        if last is not None and place <= (last.epoch, last.minibatch):
            self._readings = [kept for kept in self._readings if (kept.epoch, kept.minibatch) < place]
        self._readings.append(reading)

    def names(self) -> list[str]:
        """Names of the criteria, the training criterion first."""
        told = [epoch.criteria for epoch in self.epochs] + [reading.criteria for reading in self._readings]
        return unique(name for criteria in told for name in criteria)

    def reading_curve(self, name: str) -> tuple[list[float], list[float]]:
        """Return the places, in epochs, and the values of a criterion within the epochs."""
        lengths: dict[int, int] = {}
        for reading in self._readings:
            lengths[reading.epoch] = max(lengths.get(reading.epoch, 0), reading.minibatch)
        longest = max(lengths.values(), default=0)
        # Nobody knows yet how many minibatches the last epoch has if it goes on; then it is as long as the longest.
        going_on = [number for number in lengths if number not in self._epochs]
        lengths.update(dict.fromkeys(going_on, longest))
        shown = [reading for reading in self._readings if name in reading.criteria]
        places = [reading.epoch - 1 + reading.minibatch / lengths[reading.epoch] for reading in shown]
        return places, [reading.criteria[name] for reading in shown]

    def __bool__(self) -> bool:
        return bool(self._epochs or self._readings)


def unique(names: Iterable[str]) -> list[str]:
    """Return the names, each once, in the order in which they first come."""
    return list(dict.fromkeys(names))
