"""What learners, trainers, evaluators and sessions have of the original's library."""

from __future__ import annotations

from typing import Any

_LEARNER = 3
_SWEEP, _SAMPLE, _MINIBATCH = range(3)


class LibraryLearner:
    """Members of all learners."""

    _home: Any
    _minibatches: int
    _sweeps: int
    _parameters: tuple[Any, ...]
    rule: Any
    slots_of: Any

    def current_version(self) -> int:
        """Return the number of the way in which the original's checkpoints have it."""
        return _LEARNER

    def is_compatible_mode(self) -> bool:
        """Return whether its rule sees the mean of the gradient over the samples."""
        return bool(self.sees_mean)  # type: ignore[attr-defined]  # of the class that has these members

    def total_number_of_minibatches_seen(self) -> int:
        """Return how many updates there were."""
        return self._minibatches

    def total_number_of_sweeps_seen(self) -> int:
        """Return how many sweeps have ended."""
        return self._sweeps

    def reset_smoothed_gradients(self) -> None:
        """Let what the rule keeps of gradients begin anew."""
        for parameter in self._parameters:
            for slot in self.rule.slots:
                self.slots_of(parameter)[slot.name][...] = slot.initial
        for slot in self.rule.state:
            self._home.put(slot.name, slot.initial)

    def set_need_to_update_master_parameter(self) -> None:
        """Do nothing: parameters are kept once."""


class LibraryWriters:
    """Members of trainers and evaluators."""

    _writers: list[Any]

    def progress_writers(self) -> list[Any]:
        """Return what is told of the progress."""
        return list(self._writers)


class LibraryTrainer(LibraryWriters):
    """Members of :class:`cntk.Trainer`."""

    _learners: tuple[Any, ...]

    def total_number_of_units_seen(self, unit: Any) -> int:
        """Return how many sweeps, samples or minibatches were learned.

        Args:
            unit: a :class:`cntk.train.DataUnit`, or its number.

        Raises:
            ValueError: there is no such unit.
        """
        learner, number = self._learners[0], int(getattr(unit, "value", unit))
        counts = {
            _SWEEP: learner._sweeps,
            _SAMPLE: learner.total_number_of_samples_seen,
            _MINIBATCH: learner._minibatches,
        }
        if number not in counts:
            raise ValueError(f"a unit of data is a sweep (0), a sample (1) or a minibatch (2), not {unit!r}")
        return int(counts[number])
