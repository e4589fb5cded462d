"""Learner: an update rule with its schedules and parameters, alone or in a trainer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from cntk._members.training import LibraryLearner
from cntk.initializer import next_seed
from cntk.learners._schedules import IGNORE, TrainingParameterSchedule
from cntk_core.api import ArrayMath, Slot, UpdateContext
from cntk_core.api import Learner as Rule
from cntk_core.api.training import LearnerSettings, TrainingPoint


@attrs.frozen
class Limits:
    """What stands around a rule.

    Attributes:
        l1, l2: weights of regularisation, per sample.
        noise: schedule of the standard deviation of what is added to the parameters.
        clip: limit of the gradient, per sample.
        truncate: the limit is one of each element; otherwise of a parameter's norm.
    """

    l1: float = 0.0
    l2: float = 0.0
    noise: TrainingParameterSchedule = attrs.field(factory=lambda: TrainingParameterSchedule(0.0))
    clip: float = math.inf
    truncate: bool = True


class Learner(LibraryLearner):
    """An update rule with its schedules and parameters. The functions of :mod:`cntk.learners` make learners.

    Args:
        parameters: what it learns; at least one, none twice.
        learning_rate: schedule of the rate.
        rule: computes an update.
        momentum: schedule of the momentum, of a rule that has one.
        limits: what stands around the rule.
        minibatch_size: samples that numbers are for where no schedule says so; ``IGNORE``: the rule sees the mean of
            the gradient over the samples. None: it sees the sum.

    Attributes:
        rule: as given.
        noise_seed: of the noise that is added to parameters.
        sweep_end: a sweep ends with the minibatch that is learned.
        parallel: how several ranks train together; None is one.
        communicator: of the ranks, of a learner that is distributed.
        count_all: counts the samples of a minibatch on all ranks.
        unmet: samples of this rank since the models of all were brought together.

    Raises:
        ValueError: there are no parameters, or one is there twice.
    """

    ignored_minibatch_size: ClassVar[int] = IGNORE

    def __init__(
        self,
        parameters: Sequence[Any],
        learning_rate: TrainingParameterSchedule,
        rule: Rule,
        *,
        momentum: TrainingParameterSchedule | None = None,
        limits: Limits | None = None,
        minibatch_size: int | None = None,
    ) -> None:
        self._parameters = _checked(parameters)
        self._rates = learning_rate
        self._momenta = momentum
        self._limits = limits or Limits()
        self._minibatch_size = minibatch_size
        self.rule = rule
        self._samples = self._minibatches = self._sweeps = self.unmet = self._of_others = 0
        self.noise_seed: int = next_seed()
        self._home: _Own | _Housed = _Own()
        self._size = 0
        self.sweep_end = False
        self.parallel: Any = None
        self.communicator: Any = None
        self.count_all: Callable[[int], int] = int
        self._shown: dict[str, float] = {}
        self._writers: list[Any] = []

    @property
    def parameters(self) -> tuple[Any, ...]:
        """What it learns."""
        return self._parameters

    @property
    def minibatch_size(self) -> int:
        """Samples that numbers are for where no schedule says so; 0 if that was not said."""
        return self._minibatch_size or 0

    @minibatch_size.setter
    def minibatch_size(self, size: int) -> None:
        self._minibatch_size = size

    @property
    def is_minibatch_size_explicitly_specified(self) -> bool:
        """Whether the learner was given a minibatch size."""
        return self._minibatch_size is not None

    @property
    def sees_mean(self) -> bool:
        """Whether the rule sees the mean of the gradient over the samples, not their sum."""
        return self._minibatch_size == IGNORE

    @property
    def total_number_of_samples_seen(self) -> int:
        """Samples of all updates; of ranks that learn apart, those of all up to when they came together last."""
        return self._samples + self._of_others

    @property
    def minibatch_count(self) -> int:
        """Updates done."""
        return self._minibatches

    @property
    def sweep_count(self) -> int:
        """Sweeps that have ended."""
        return self._sweeps

    # -- schedules ----------------------------------------------------------------------------------------

    def learning_rate(self) -> float:
        """Return the value of the schedule here, for as many samples as the schedule says."""
        return self._rates.after(self._samples, self._sweeps)

    def reset_learning_rate(self, learning_rate: TrainingParameterSchedule) -> None:
        """Go by another schedule, which begins here.

        Raises:
            ValueError: that is no schedule.
        """
        if not isinstance(learning_rate, TrainingParameterSchedule):
            raise ValueError(
                f"a learning rate is a schedule, as learning_parameter_schedule makes, not {learning_rate!r}"
            )
        if not learning_rate.is_minibatch_size_explicitly_specified and self._minibatch_size:
            learning_rate.minibatch_size = self._minibatch_size
        self._rates = learning_rate.begun_at(self._sweeps if learning_rate.is_sweep_based else self._samples)

    def rate_of(self, samples: int) -> float:
        """Return the factor of the gradient, as the rule sees it, in an update with so many samples."""
        return self._rates.rate(samples, self.learning_rate(), of_mean=self.sees_mean)

    def momentum_of(self, samples: int) -> float:
        """Return what is kept of the smoothed gradient over so many samples; 0 of a rule without momentum."""
        return self.kept(self._momenta, samples) if self._momenta is not None else 0.0

    def kept(self, schedule: TrainingParameterSchedule, samples: int) -> float:
        """Return what a schedule of momenta keeps over so many samples from here."""
        return schedule.share(samples, schedule.after(self._samples, self._sweeps))

    # -- in a trainer -------------------------------------------------------------------------------------

    def settings(self, nodes: Sequence[Any], rule: Rule | None = None) -> LearnerSettings:
        """Return the learner as a trainer of the core takes it.

        Args:
            nodes: of the parameters, in their order.
            rule: in place of the learner's own.
        """
        limits = self._limits
        return LearnerSettings(
            rule or self.rule,
            rate=self._rate_now,
            momentum=self._momentum_now,
            parameters=nodes,
            mean=self.sees_mean,
            l1=limits.l1,
            l2=limits.l2,
            clip=limits.clip,
            clip_norm=not limits.truncate,
            noise=limits.noise.after(self._samples, self._sweeps),
        )

    def _rate_now(self, point: TrainingPoint) -> float:
        self._size = self.count_all(point.minibatch)
        if not self._size:
            return 0.0
        self._show_all()
        return self.rate_of(self._size)

    def _momentum_now(self, point: TrainingPoint) -> float:
        return self.momentum_of(self._size)

    def move_into(self, store: Any, nodes: Mapping[Any, Any], prefix: str) -> None:
        """Have the rule's arrays and numbers in a trainer's store from now on.

        Args:
            store: of the trainer.
            nodes: of the parameters.
            prefix: in front of the names of the numbers there.
        """
        state, arrays = self.state, {parameter: self.slots_of(parameter) for parameter in self._parameters}
        self._home = _Housed(store, nodes, prefix)
        for parameter, slots in arrays.items():
            for name, array in slots.items():
                self._home.slots(parameter, self.rule.slots)[name][...] = array
        for name, number in state.items():
            self._home.put(name, number)

    def move_out(self) -> None:
        """Have the rule's arrays and numbers here again."""
        own = _Own()
        for name, number in self.state.items():
            own.put(name, number)
        for parameter in self._parameters:
            for name, array in self.slots_of(parameter).items():
                own.slots(parameter, self.rule.slots)[name][...] = array
        self._home = own

    def begin(self) -> bool:
        """Begin an update. Returns whether anything is learned: the rate is not 0."""
        self._show_all()
        return self.learning_rate() != 0.0

    def end(self, samples: int, *, sweep_end: bool) -> None:
        """Count the samples of an update, and the sweep that ends with it."""
        self._samples += samples
        self.unmet += samples
        self._minibatches += 1
        self._sweeps += sweep_end

    def meet(self, samples: int) -> None:
        """Count what all ranks have learned since the last time; schedules go by what this one has."""
        self._of_others += samples - self.unmet
        self.unmet = 0

    def add_progress_writers(self, writers: Sequence[Any]) -> None:
        """Tell writers of rates and momenta that change."""
        self._writers.extend(writers)

    def _show_all(self) -> None:
        if not self._writers:
            return
        self._show("Learning rate", self._rates)
        tells = getattr(self.rule, "tells_momentum", False)
        if tells and self._momenta is not None and self.learning_rate() != 0.0:
            self._show("Momentum", self._momenta)

    def _show(self, name: str, schedule: TrainingParameterSchedule) -> None:
        value = schedule.after(self._samples, self._sweeps)
        if self._shown.get(name) == value:
            return
        self._shown[name] = value
        size = schedule.minibatch_size
        unit = f"{size} samples" if size else "minibatch"
        for writer in self._writers:
            writer.write(f"{name} per {unit}", value)

    # -- alone --------------------------------------------------------------------------------------------

    def update(
        self, gradient_values: Mapping[Any, Any], training_sample_count: int, is_sweep_end: bool = False
    ) -> bool:
        """Update the parameters.

        Args:
            gradient_values: for each parameter the sum of its gradient over the samples, in its shape.
            training_sample_count: samples of the minibatch.
            is_sweep_end: a sweep over the data ends here.

        Returns:
            Whether anything was learned.

        Raises:
            ValueError: there are no samples, or the gradient of a parameter is missing.
        """
        if training_sample_count < 1:
            raise ValueError("an update needs the gradient of at least one sample")
        missing = next((each for each in self._parameters if each not in gradient_values), None)
        if missing is not None:
            raise ValueError(f"an update needs the gradient of each parameter; there is none of {missing}")
        if not self.begin():
            return False
        self._advance(training_sample_count)
        for number, parameter in enumerate(self._parameters):
            gradient = np.asarray(_plain(gradient_values[parameter])).reshape(parameter.shape)
            self._update_one(parameter, gradient.astype(parameter.dtype), training_sample_count, number)
        self.end(training_sample_count, sweep_end=is_sweep_end)
        return True

    def _context(self, samples: int) -> UpdateContext:
        return UpdateContext(
            samples, self.rate_of(samples), self.momentum_of(samples), self._minibatches, 0, self.state, "float32"
        )

    def _advance(self, samples: int) -> None:
        for name, number in self.rule.advance(self._context(samples)).items():
            self._home.put(name, number)

    def _update_one(self, parameter: Any, gradient: Any, samples: int, number: int) -> None:
        limits, size = self._limits, 1 if self.sees_mean else samples
        value, m, slots = np.asarray(parameter.value), ArrayMath(np), self.slots_of(parameter)
        gradient = gradient / samples if self.sees_mean else gradient
        gradient = limited(gradient, limits.clip * size, truncate=limits.truncate) + limits.l2 * size * value
        scalars = dict(self.rule.scalars(self._context(samples)))
        for name, each in self.rule.means(m, value, gradient, slots, scalars).items():
            scalars[name] = float(np.mean(each))
        value, changed = self.rule.rule(m, value, gradient, slots, scalars)
        for name, array in changed.items():
            slots[name][...] = array
        noise = limits.noise.after(self._samples, self._sweeps)
        if noise > 0.0:
            random = np.random.default_rng((self.noise_seed, self._minibatches, number))
            value = value + noise * random.standard_normal(value.shape)
        if limits.l1 > 0.0:
            value = np.sign(value) * np.maximum(np.abs(value) - self.rate_of(samples) * limits.l1 * size, 0.0)
        parameter.value = value.astype(parameter.dtype)

    # -- state --------------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, float]:
        """The rule's numbers, by name."""
        return {slot.name: self._home.number(slot) for slot in self.rule.state}

    def slots_of(self, parameter: Any) -> Mapping[str, Any]:
        """Return the rule's arrays for a parameter, by name; what is written into them counts."""
        return self._home.slots(parameter, self.rule.slots)

    def create_checkpoint(self) -> dict[str, Any]:
        """Return all that it takes to go on from here: counts, schedule, arrays, numbers."""
        kept: dict[str, Any] = {
            "sample_count": self._samples,
            "minibatch_count": self._minibatches,
            "sweep_count": self._sweeps,
            "learning_rate_schedule": self._rates.to_dict(),
            "noise_injection_seed": self.noise_seed,
            "smoothed_gradients": [self._together(parameter) for parameter in self._parameters],
        }
        others = {"samples_of_other_ranks": self._of_others} if self._of_others else {}
        return {**kept, **others, **self.state}

    def restore_from_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Go on from a checkpoint of a learner like this one.

        Raises:
            ValueError: it is of another kind of learner, or of other parameters.
        """
        arrays = checkpoint["smoothed_gradients"]
        if len(arrays) != len(self._parameters):
            raise ValueError(f"the checkpoint is of {len(arrays)} parameters; the learner has {len(self._parameters)}")
        for parameter, array in zip(self._parameters, arrays, strict=True):
            self._take_apart(parameter, np.asarray(array))
        self._samples = int(checkpoint["sample_count"])
        self._minibatches = int(checkpoint["minibatch_count"])
        self._of_others, self.unmet = int(checkpoint.get("samples_of_other_ranks", 0)), 0
        self._sweeps = int(checkpoint.get("sweep_count", 0))
        self.noise_seed = int(checkpoint.get("noise_injection_seed", self.noise_seed))
        self._rates = TrainingParameterSchedule.from_dict(checkpoint["learning_rate_schedule"])
        for slot in self.rule.state:
            self._home.put(slot.name, float(checkpoint[slot.name]))

    def _together(self, parameter: Any) -> Any:
        """Return the arrays of a parameter side by side along a new last axis, as one array."""
        slots = self.slots_of(parameter)
        if not slots:
            return np.zeros(0, parameter.dtype)
        return np.stack([np.asarray(slots[slot.name]) for slot in self.rule.slots], axis=-1)

    def _take_apart(self, parameter: Any, array: Any) -> None:
        slots = self.slots_of(parameter)
        wanted = (*parameter.shape, len(slots)) if slots else (0,)
        if array.shape != wanted:
            raise ValueError(
                f"the checkpoint has state of the shape {array.shape} for the parameter '{parameter.name}'; "
                f"this learner's has {wanted}"
            )
        for number, slot in enumerate(self.rule.slots):
            slots[slot.name][...] = array[..., number]


class _Own:
    """Arrays and numbers of a rule that is in no trainer."""

    def __init__(self) -> None:
        self._arrays: dict[Any, dict[str, Any]] = {}
        self._numbers: dict[str, float] = {}

    def slots(self, parameter: Any, slots: Sequence[Slot]) -> Mapping[str, Any]:
        """Return the arrays of a parameter, by name; made when they are first asked for."""
        if parameter not in self._arrays:
            self._arrays[parameter] = {
                slot.name: np.full(parameter.shape, slot.initial, parameter.dtype) for slot in slots
            }
        return self._arrays[parameter]

    def number(self, slot: Slot) -> float:
        """Return a number."""
        return self._numbers.get(slot.name, slot.initial)

    def put(self, name: str, number: float) -> None:
        """Set a number."""
        self._numbers[name] = number


@attrs.frozen(eq=False)
class _Housed:
    """Arrays and numbers of a rule in the store of a trainer."""

    store: Any
    nodes: Mapping[Any, Any]
    prefix: str

    def slots(self, parameter: Any, slots: Sequence[Slot]) -> Mapping[str, Any]:
        """Return the arrays of a parameter as they are now, by name."""
        return {slot.name: self.store.slot(slot.name, self.nodes[parameter]) for slot in slots}

    def number(self, slot: Slot) -> float:
        """Return a number."""
        return float(self.store.state.get(self.prefix + slot.name, slot.initial))

    def put(self, name: str, number: float) -> None:
        """Set a number."""
        self.store.state[self.prefix + name] = number


def limited(gradient: Any, limit: float, *, truncate: bool) -> Any:
    """Return a gradient whose elements, or whose norm, are at most ``limit``."""
    if math.isinf(limit):
        return gradient
    if truncate:
        return np.clip(gradient, -limit, limit)
    norm = float(np.linalg.norm(gradient))
    return gradient * (limit / norm) if norm > limit else gradient


def _checked(parameters: Sequence[Any]) -> tuple[Any, ...]:
    found = tuple(parameters)
    if not found:
        raise ValueError("a learner needs at least one parameter")
    if len(set(found)) < len(found):
        raise ValueError("a learner is given a parameter twice")
    return found


def _plain(value: Any) -> Any:
    """Return a value as an array of NumPy."""
    read: Callable[[], Any] | None = getattr(value, "asarray", None)
    return read() if read is not None else value


class UserLearner(Learner):
    """A learner in Python: a class of one's own overrides :meth:`update`.

    Args:
        parameters: what it learns.
        lr_schedule: of the rate, which :meth:`learning_rate` returns.
        as_numpy: :meth:`update` is given arrays; otherwise values.
    """

    def __init__(
        self, parameters: Sequence[Any], lr_schedule: TrainingParameterSchedule, as_numpy: bool = True
    ) -> None:
        from cntk.learners._rules import Plain

        super().__init__(parameters, lr_schedule, Plain())
        self.as_numpy = as_numpy

    def update(self, gradient_values: Mapping[Any, Any], training_sample_count: int, sweep_end: bool = False) -> bool:
        """Update the parameters, by ``set_value``.

        Args:
            gradient_values: for each parameter the sum of its gradient over the samples.
            training_sample_count: samples of the minibatch.
            sweep_end: a sweep over the data ends here.

        Returns:
            Whether anything was learned.

        Raises:
            NotImplementedError: the class does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it updates: it has no method update")
