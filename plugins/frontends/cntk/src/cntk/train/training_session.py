"""Training sessions: the loop over a source, with progress, checkpoints, cross validation and a test."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from warnings import warn

import attrs

from cntk._inherited import inherit
from cntk.io import INFINITELY_REPEAT, MinibatchSource, MinibatchSourceFromData, UserMinibatchSource
from cntk.learners._schedules import TrainingParameterSchedule, _pairs
from cntk.train._checkpoint import numbered
from cntk.train.trainer import Trainer

_SOURCE = "trainingMinibatchSource"


class DataUnit(enum.IntEnum):
    """What a frequency counts."""

    sample = 1
    minibatch = 2
    sweep = 0

    __str__ = enum.Enum.__str__


Frequency = int | tuple[int, DataUnit] | None


class MinibatchSizeSchedule(TrainingParameterSchedule):
    """Sizes of minibatches: ``schedule[n]`` is the one after ``n`` samples."""

    def __getitem__(self, count: int) -> int:
        return int(super().__getitem__(count))


def minibatch_size_schedule(schedule: int | Sequence[Any], epoch_size: int = 1) -> MinibatchSizeSchedule:
    """Make a schedule of sizes of minibatches.

    Args:
        schedule: one size, or a list with a size for each stretch, or with pairs of a count of stretches and a size.
        epoch_size: samples of a stretch.

    Raises:
        ValueError: something else was given, or stretches for one size.
    """
    if isinstance(schedule, MinibatchSizeSchedule):
        return schedule
    if isinstance(schedule, int):
        if epoch_size != 1:
            raise ValueError("epoch_size is ignored for a schedule that is one number")
        return MinibatchSizeSchedule(schedule)
    if isinstance(schedule, list):
        return MinibatchSizeSchedule(_pairs(schedule), epoch_size)
    raise ValueError(f"sizes of minibatches are a whole number or a list of them, not {type(schedule)}")


def _sizes(given: Any, name: str) -> MinibatchSizeSchedule:
    if isinstance(given, int) or given is None:
        return minibatch_size_schedule(1 if given is None else given)
    if not isinstance(given, MinibatchSizeSchedule):
        raise ValueError(f"{name} is a whole number or what minibatch_size_schedule returns, not {type(given)}")
    return given


def _unpacked(frequency: Frequency) -> tuple[int | None, DataUnit]:
    """Return a frequency and its unit.

    Raises:
        ValueError: it is none.
    """
    if frequency is None or isinstance(frequency, int):
        return frequency, DataUnit.sample
    if len(frequency) == 2 and isinstance(frequency[0], int) and isinstance(frequency[1], DataUnit):
        return frequency
    raise ValueError(f"a frequency is a number of samples, or (number, DataUnit), not {frequency!r}")


class CheckpointConfig:
    """When checkpoints are written.

    Args:
        filename: of the checkpoints; None: there are none.
        frequency: samples between two, or (number, unit); by default one at the end.
        restore: go on from the last one, if there is one.
        preserve_all: keep all, with their numbers behind the name.

    Raises:
        ValueError: a frequency without a name.
    """

    def __init__(
        self, filename: str | None, frequency: Frequency = None, restore: bool = True, preserve_all: bool = False
    ) -> None:
        count, self.unit = _unpacked(frequency)
        if filename is None and count:
            raise ValueError("checkpoints need a filename")
        self.filename = None if filename is None else str(filename)
        self.frequency = 0 if filename is None else sys.maxsize if count is None else count
        self.restore, self.preserve_all = restore, preserve_all


class CrossValidationConfig:
    """When a model is tested between times.

    Args:
        minibatch_source: of the data; or these themselves, in the order of the criterion's arguments.
        frequency: samples between two, or (number, unit); by default at the end.
        minibatch_size: samples of a minibatch, or a schedule of them.
        callback: ``callback(index, average, samples, minibatches)`` after each; training ends when it returns False.
        max_samples: of one cross validation.
        model_inputs_to_streams: for each variable its stream; by default those of training.
        criterion: whose arguments the data are, where no source is given.
        source, mb_size: older names.

    Raises:
        ValueError: a frequency without anything to do; wrong sizes or data.
    """

    def __init__(
        self,
        minibatch_source: Any = None,
        frequency: Frequency = None,
        minibatch_size: Any = 32,
        callback: Callable[[int, float, int, int], Any] | None = None,
        max_samples: int | None = None,
        model_inputs_to_streams: Mapping[Any, Any] | None = None,
        criterion: Any = None,
        source: Any = None,
        mb_size: Any = None,
    ) -> None:
        minibatch_source, minibatch_size = _old_names(minibatch_source, minibatch_size, source, mb_size)
        count, self.unit = _unpacked(frequency)
        idle = minibatch_source is None and callback is None
        if idle and count:
            raise ValueError("a cross validation needs a minibatch_source or a callback")
        self.frequency = 0 if idle else sys.maxsize if count is None else count
        self.sizes = _sizes(minibatch_size, "minibatch_size")
        self.callback = callback
        self.max_samples = sys.maxsize if max_samples is None else max_samples
        self.source, self.streams = sourced(minibatch_source, model_inputs_to_streams, criterion, endless=False)


class TestConfig:
    """A test at the end.

    Args:
        minibatch_source: of the data; or these themselves, in the order of the criterion's arguments.
        minibatch_size: samples of a minibatch, or a schedule of them.
        model_inputs_to_streams: for each variable its stream; by default those of training.
        criterion: whose arguments the data are, where no source is given.
        source, mb_size: older names.

    Raises:
        ValueError: wrong sizes or data.
    """

    __test__ = False

    def __init__(
        self,
        minibatch_source: Any = None,
        minibatch_size: Any = 32,
        model_inputs_to_streams: Mapping[Any, Any] | None = None,
        criterion: Any = None,
        source: Any = None,
        mb_size: Any = None,
    ) -> None:
        minibatch_source, minibatch_size = _old_names(minibatch_source, minibatch_size, source, mb_size)
        self.sizes = _sizes(minibatch_size, "minibatch_size")
        self.source, self.streams = sourced(minibatch_source, model_inputs_to_streams, criterion, endless=False)


def _old_names(minibatch_source: Any, minibatch_size: Any, source: Any, mb_size: Any) -> tuple[Any, Any]:
    for old, new, given in (("source", "minibatch_source", source), ("mb_size", "minibatch_size", mb_size)):
        if given is not None:
            warn(f'DEPRECATED: the argument "{old}" is called "{new}" now', DeprecationWarning, stacklevel=3)
    return (minibatch_source if source is None else source), (minibatch_size if mb_size is None else mb_size)


def sourced(given: Any, streams: Mapping[Any, Any] | None, criterion: Any, *, endless: bool) -> tuple[Any, Any]:
    """Return a source, and the stream of each variable; data become a source.

    Raises:
        ValueError: data come without a criterion, or not one for each of its arguments, or with streams.
    """
    if given is None or isinstance(given, MinibatchSource | UserMinibatchSource):
        return given, streams
    data = given if isinstance(given, tuple) else (given,)
    if criterion is None:
        raise ValueError("data in place of a source need the criterion whose arguments they are")
    variables = list(criterion.arguments)
    if len(variables) != len(data):
        raise ValueError(f"the criterion has {len(variables)} arguments; there are data for {len(data)}")
    if streams is not None:
        raise ValueError("data in place of a source have no streams: leave model_inputs_to_streams out")
    names = [variable.name or f"stream_{number}" for number, variable in enumerate(variables)]
    if len(set(names)) < len(names):
        names = [f"stream_{number}" for number in range(len(variables))]
    length = len(data[0]) if isinstance(data[0], list) else int(data[0].shape[0])
    pairs = {name: (each, variable._type) for name, each, variable in zip(names, data, variables, strict=True)}
    source = MinibatchSourceFromData(pairs, max_samples=INFINITELY_REPEAT if endless else length)
    return source, {variable: source.streams[name] for variable, name in zip(variables, names, strict=True)}


@attrs.define
class _Action:
    """Something that is done now and then.

    Attributes:
        frequency, unit: how often.
        act: does it, with its index; returns whether training goes on.
        index: of the next time.
        last: samples when it was done last.
    """

    frequency: int
    unit: DataUnit
    act: Callable[[int], bool]
    index: int = 0
    last: int = 0


class TrainingSession:
    """The loop of a training; :func:`training_session` makes one.

    Args:
        trainer: what trains.
        mb_source: of the data; or these themselves, in the order of the criterion's arguments.
        mb_size: samples of a minibatch, or a schedule of them.
        model_inputs_to_streams: for each variable its stream.
        max_samples: training ends after so many; None: when the source does.
        progress_frequency: samples between two summaries, or (number, unit); by default one at the end.
        checkpoint_config, cv_config, test_config: what else there is to do.

    Raises:
        ValueError: something is missing or makes no sense.
    """

    def __init__(
        self,
        trainer: Trainer,
        mb_source: Any,
        mb_size: Any,
        model_inputs_to_streams: Mapping[Any, Any] | None,
        max_samples: int | None,
        progress_frequency: Frequency,
        checkpoint_config: CheckpointConfig,
        cv_config: CrossValidationConfig,
        test_config: TestConfig,
    ) -> None:
        if trainer is None:
            raise ValueError("a training session needs a trainer")
        if mb_source is None:
            raise ValueError("a training session needs a source of minibatches")
        self._source, self._streams = sourced(mb_source, model_inputs_to_streams, trainer.loss_function, endless=True)
        if not self._streams:
            raise ValueError("a training session needs the streams of the variables: model_inputs_to_streams")
        if max_samples == 0:
            raise ValueError("max_samples of a training session must not be 0")
        self._trainer = trainer
        self._sizes = _sizes(mb_size, "mb_size")
        self._max_samples = sys.maxsize if max_samples is None else max_samples
        self._checkpoint, self._cv, self._test_config = checkpoint_config, cv_config, test_config
        self._minibatches = self._sweeps = 0
        count, unit = _unpacked(progress_frequency)
        self._actions = [
            _Action(each, each_unit, act)
            for each, each_unit, act in (
                (checkpoint_config.frequency, checkpoint_config.unit, self._save),
                (sys.maxsize if count is None else count, unit, self._report),
                (cv_config.frequency, cv_config.unit, self._validate),
            )
            if each
        ]

    # -- the loop -----------------------------------------------------------------------------------------

    def train(self, device: Any = None) -> None:
        """Train until the samples or the source end, or a callback says so."""
        restored = self._restore()
        trainer, goes_on, updated = self._trainer, True, True
        while updated:
            left = self._max_samples - trainer.total_number_of_samples_seen if goes_on else 0
            self.on_minibatch_start()
            updated = trainer.train_minibatch(self._next(self._source, self._streams, self._sizes, left))
            self.on_minibatch_end()
            goes_on = self._act() and goes_on
        if trainer.total_number_of_samples_seen != restored:
            self._act_at_end()
        kept = self._checkpoint
        if kept.frequency and kept.preserve_all and kept.filename is not None and not Path(kept.filename).exists():
            self._save_to(kept.filename)
        self._test()

    def _next(self, source: Any, streams: Mapping[Any, Any], sizes: MinibatchSizeSchedule, left: int) -> Any:
        """Return the next minibatch by variable, with at most so many samples; nothing at the end."""
        seen = self._trainer.total_number_of_samples_seen
        return self._taken(source, streams, min(sizes[seen], left))

    def _taken(self, source: Any, streams: Mapping[Any, Any], size: int) -> dict[Any, Any]:
        if size <= 0:
            return {}
        if isinstance(source, MinibatchSource):
            rank, ranks = self._trainer._engine.place
            return source.next_minibatch(size, streams, num_data_partitions=ranks, partition_index=rank)
        found = source.next_minibatch(size, 1, 0)
        by_name = {info.m_name: data for info, data in found.items()}
        return {variable: by_name[info.m_name] for variable, info in streams.items()} if found else {}

    def _count(self, unit: DataUnit) -> int:
        if unit is DataUnit.minibatch:
            return self._minibatches
        return self._sweeps if unit is DataUnit.sweep else self._trainer.total_number_of_samples_seen

    def _act(self) -> bool:
        """Do what is to be done after a minibatch. Returns whether training goes on."""
        learner = self._trainer.parameter_learners[0]
        self._minibatches, self._sweeps = learner.minibatch_count, learner.sweep_count
        goes_on = True
        for action in self._actions:
            index = self._count(action.unit) // action.frequency
            if index != action.index:
                goes_on = action.act(action.index) and goes_on
                action.index, action.last = index, self._trainer.total_number_of_samples_seen
        return goes_on

    def _act_at_end(self) -> None:
        seen = self._trainer.total_number_of_samples_seen
        for action in self._actions:
            if self._count(action.unit) % action.frequency and seen != action.last:
                action.act(action.index)

    # -- what is done -------------------------------------------------------------------------------------

    def _report(self, index: int) -> bool:
        self._trainer.summarize_training_progress()
        return True

    def _save(self, index: int) -> bool:
        name = self._checkpoint.filename
        assert name is not None
        self.on_checkpoint_start(index)
        self._save_to(f"{name}{index}" if self._checkpoint.preserve_all else name)
        self.on_checkpoint_end(index)
        return True

    def _save_to(self, name: str) -> None:
        self._trainer.save_checkpoint(name, {_SOURCE: self._source.get_checkpoint_state()})

    def _restore(self) -> int:
        """Go on from the last checkpoint, if there is one. Returns the samples that were learned then."""
        name = self._checkpoint.filename
        if name is None or not self._checkpoint.restore:
            return 0
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        found = name if Path(name).exists() else max(numbered(name), default=(0, None))[1]
        if found is None:
            return 0
        return self.restore_from_checkpoint(str(found))

    def restore_from_checkpoint(self, filename: str) -> int:
        """Go on from a checkpoint of a session. Returns the samples that were learned then."""
        external = self._trainer.restore_from_checkpoint(filename)
        self._source.restore_from_checkpoint(external[_SOURCE])
        seen = self._trainer.total_number_of_samples_seen
        learner = self._trainer.parameter_learners[0]
        self._minibatches, self._sweeps = learner.minibatch_count, learner.sweep_count
        for action in self._actions:
            count = self._count(action.unit)
            action.index = count // action.frequency
            action.last = seen - seen % action.frequency if action.unit is DataUnit.sample else seen
        return seen

    def _validate(self, index: int) -> bool:
        self.on_cross_validation_start(index)
        if self._cv.source is None:
            return self.on_cross_validation_end(index, 0.0, 0, 0)
        before = self._cv.source.get_checkpoint_state()
        total, samples, minibatches = 0.0, 0, 0
        while True:
            size = min(self._cv.sizes[samples], self._cv.max_samples - samples)
            sums, count = self._trainer._tested(self._taken(self._cv.source, self._cv.streams or self._streams, size))
            if not count:
                break
            total, samples, minibatches = total + sums, samples + count, minibatches + 1
        self._cv.source.restore_from_checkpoint(before)
        self._trainer.summarize_test_progress()
        return self.on_cross_validation_end(index, total / samples if samples else 0.0, samples, minibatches)

    # -- what a class of one's own may override -----------------------------------------------------------

    def get_minibatch_size(self) -> int:
        """Return the size of the next minibatch."""
        return self._sizes[self._trainer.total_number_of_samples_seen]

    def on_minibatch_start(self) -> None:
        """Be told that a minibatch is to be learned."""

    def on_minibatch_end(self) -> None:
        """Be told that a minibatch was learned."""

    def on_checkpoint_start(self, index: int) -> None:
        """Be told that a checkpoint is to be written."""

    def on_checkpoint_end(self, index: int) -> None:
        """Be told that a checkpoint was written."""

    def on_cross_validation_start(self, index: int) -> None:
        """Be told that the model is to be tested."""

    def on_cross_validation_end(self, index: int, average_error: float, num_samples: int, num_minibatches: int) -> bool:
        """Call the callback of cross validation. Returns whether training goes on."""
        if self._cv.callback is None:
            return True
        return bool(self._cv.callback(index, average_error, num_samples, num_minibatches))

    def _test(self) -> None:
        config = self._test_config
        if config.source is None:
            return
        samples, count = 0, 1
        while count:
            found = self._taken(config.source, config.streams or self._streams, config.sizes[samples])
            _, count = self._trainer._tested(found)
            samples += count
        self._trainer.summarize_test_progress()


def training_session(
    trainer: Trainer,
    mb_source: Any,
    mb_size: Any,
    model_inputs_to_streams: Mapping[Any, Any] | None = None,
    progress_frequency: Frequency = None,
    max_samples: int | None = None,
    checkpoint_config: CheckpointConfig | None = None,
    cv_config: CrossValidationConfig | None = None,
    test_config: TestConfig | None = None,
) -> TrainingSession:
    """Make a training session; ``train()`` runs it. The arguments are those of :class:`TrainingSession`.

    Raises:
        ValueError: something is missing or makes no sense.
    """
    return TrainingSession(
        trainer,
        mb_source,
        mb_size,
        model_inputs_to_streams,
        max_samples,
        progress_frequency,
        checkpoint_config or CheckpointConfig(None),
        cv_config or CrossValidationConfig(None),
        test_config or TestConfig(None),
    )


inherit(__name__)
