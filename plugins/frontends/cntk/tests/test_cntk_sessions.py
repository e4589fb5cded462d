"""Sessions of training: when something is done, what callbacks are told, what checkpoints are kept, what is refused."""

from __future__ import annotations

from typing import Any

import cntk as C
import numpy as np
import pytest
from cntk.logging import ProgressWriter

DATA = np.arange(60, dtype=np.float32).reshape(60, 1) / 60


class Told(ProgressWriter):
    """Keeps what it is told of summaries."""

    def __init__(self) -> None:
        super().__init__(1)
        self.sizes: list[int] = []
        self.summaries: list[int] = []
        self.tests: list[tuple[int, int, float]] = []

    def on_write_training_update(self, samples: tuple[int, int], *_: Any) -> None:
        self.sizes.append(samples[1] - samples[0])

    def on_write_training_summary(self, samples: int, *_: Any) -> None:
        self.summaries.append(samples)

    def on_write_test_summary(self, samples: int, updates: int, summaries: int, metric: float, _: Any) -> None:
        self.tests.append((samples, updates, metric))


class Mean:
    """Learns nothing (the slope is 0): its loss of a sample is the sample."""

    def __init__(self) -> None:
        self.x, w = C.input_variable(1, name="x"), C.parameter(1, init=1)
        self.loss, self.told = C.reduce_sum(self.x + 0 * w), Told()
        self.trainer = C.Trainer(self.loss, (self.loss, self.loss), C.sgd([w], 0.1), self.told)

    def learners(self) -> list[Any]:
        """Return learners that have seen nothing."""
        return [C.sgd(self.loss.parameters, 0.1)]

    def session(self, size: Any = 10, **options: Any) -> None:
        C.training_session(self.trainer, (DATA,), size, None, **options).train()


@pytest.mark.parametrize(
    ("frequency", "samples", "summaries"),
    [
        (30, 60, [30, 30]), (30, 70, [30, 30, 10]), (25, 60, [30, 20, 10]), (None, 60, [60]),
        ((2, C.DataUnit.minibatch), 50, [20, 20, 10]), ((1, C.DataUnit.sweep), 120, [60, 60]),
    ],
)  # fmt: skip
def test_summaries_are_made_as_often_as_is_said(frequency: Any, samples: int, summaries: list[int]) -> None:
    mean = Mean()
    mean.session(progress_frequency=frequency, max_samples=samples)
    assert mean.told.summaries == summaries
    assert mean.trainer.total_number_of_samples_seen == samples


def test_the_last_minibatch_is_smaller() -> None:
    mean = Mean()
    mean.session(size=C.minibatch_size_schedule([(1, 20), (1, 30)], 20), max_samples=65)
    assert mean.trainer.total_number_of_samples_seen == 65
    assert mean.told.sizes == [20, 30, 10, 5]  # a sweep ends after 60


def test_validations_take_as_many_samples_as_they_may() -> None:
    mean, told = Mean(), []
    config = C.CrossValidationConfig(
        (DATA,), frequency=30, minibatch_size=20, max_samples=50, criterion=mean.loss,
        callback=lambda *given: told.append(given) or True,
    )  # fmt: skip
    mean.session(max_samples=60, cv_config=config)
    average = pytest.approx(float(DATA[:50].mean()), rel=1e-5)
    assert told == [(0, average, 50, 3), (1, average, 50, 3)]  # each from the first sample on
    assert [each[:2] for each in mean.told.tests] == [(50, 3)] * 2
    whole = Mean()
    config = C.CrossValidationConfig((DATA,), criterion=whole.loss, minibatch_size=C.minibatch_size_schedule([40, 10]))
    whole.session(max_samples=60, cv_config=config)
    assert [each[:2] for each in whole.told.tests] == [(60, 3)]


def test_a_callback_without_data_is_told_zeros_and_may_end_the_training() -> None:
    mean, told = Mean(), []
    config = C.CrossValidationConfig(frequency=20, callback=lambda *given: told.append(given) or len(told) < 2)
    mean.session(max_samples=60, cv_config=config)
    assert told == [(0, 0.0, 0, 0), (1, 0.0, 0, 0)]
    assert mean.trainer.total_number_of_samples_seen == 40


def test_a_test_at_the_end_takes_all_samples() -> None:
    mean = Mean()
    config = C.TestConfig((DATA,), minibatch_size=C.minibatch_size_schedule([(1, 50), (1, 5)], 50), criterion=mean.loss)
    mean.session(max_samples=10, test_config=config)
    ((samples, updates, metric),) = mean.told.tests
    assert (samples, updates) == (60, 3)
    assert metric == pytest.approx(float(DATA.sum()), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"frequency": 20}, ["net"]),
        ({}, ["net"]),
        ({"frequency": 20, "preserve_all": True}, ["net", "net0", "net1", "net2"]),
        ({"frequency": (2, C.DataUnit.minibatch), "preserve_all": True}, ["net", "net0", "net1", "net2"]),
        ({"preserve_all": True}, ["net", "net0"]),
    ],
)
def test_checkpoints_are_kept_or_written_anew(tmp_path: Any, options: dict[str, Any], names: list[str]) -> None:
    mean = Mean()
    mean.session(max_samples=60, checkpoint_config=C.CheckpointConfig(str(tmp_path / "new" / "net"), **options))
    found = sorted(path.name for path in (tmp_path / "new").iterdir() if path.suffix != ".ckp")
    assert found == names


def test_a_training_goes_on_where_the_checkpoint_is(tmp_path: Any) -> None:
    config = C.CheckpointConfig(str(tmp_path / "net"), frequency=20)
    Mean().session(max_samples=40, checkpoint_config=config)
    again, validated = Mean(), []
    callback = C.CrossValidationConfig(frequency=30, callback=lambda *given: validated.append(given) or True)
    again.session(max_samples=80, checkpoint_config=config, cv_config=callback, progress_frequency=20)
    assert again.told.summaries == [20, 20]
    assert validated == [(1, 0.0, 0, 0), (2, 0.0, 0, 0)]
    done = Mean()
    done.session(max_samples=80, checkpoint_config=config, progress_frequency=30)
    assert done.told.summaries == []  # nothing is left
    anew = Mean()
    anew.session(max_samples=20, checkpoint_config=C.CheckpointConfig(str(tmp_path / "net"), restore=False))
    assert anew.trainer.total_number_of_samples_seen == 20


def test_sizes_of_minibatches() -> None:
    pairs = C.minibatch_size_schedule([(2, 10), (1, 30)], 20)
    assert [pairs[seen] for seen in (0, 39, 40, 999)] == [10, 10, 30, 30]
    assert C.minibatch_size_schedule(7)[100] == 7
    assert C.minibatch_size_schedule(pairs) is pairs
    with pytest.raises(ValueError, match=r"^epoch_size is ignored for a schedule that is one number$"):
        C.minibatch_size_schedule(7, 2)


MISTAKES: dict[str, tuple[Any, str]] = {
    "no trainer": (lambda m: C.training_session(None, (DATA,), 10), "a training session needs a trainer"),
    "no source": (
        lambda m: C.training_session(m.trainer, None, 10), "a training session needs a source of minibatches"
    ),
    "no samples": (lambda m: m.session(max_samples=0), "max_samples of a training session must not be 0"),
    "no streams": (
        lambda m: C.training_session(m.trainer, C.io.MinibatchSourceFromData({"x": DATA}), 10),
        "a training session needs the streams of the variables: model_inputs_to_streams",
    ),
    "too many arrays": (
        lambda m: C.training_session(m.trainer, (DATA, DATA), 10),
        "the criterion has 1 arguments; there are data for 2",
    ),
    "streams of data": (
        lambda m: C.training_session(m.trainer, (DATA,), 10, {m.x: None}),
        "data in place of a source have no streams: leave model_inputs_to_streams out",
    ),
    "sizes": (
        lambda m: m.session(size="many"),
        "mb_size is a whole number or what minibatch_size_schedule returns, not <class 'str'>",
    ),
    "sizes of a test": (
        lambda m: C.TestConfig(minibatch_size=2.5),
        "minibatch_size is a whole number or what minibatch_size_schedule returns, not <class 'float'>",
    ),
    "a frequency": (
        lambda m: m.session(progress_frequency=(1, 2), max_samples=10),
        r"a frequency is a number of samples, or \(number, DataUnit\), not \(1, 2\)",
    ),
    "a frequency of three": (
        lambda m: m.session(progress_frequency=(1, C.DataUnit.sweep, 2), max_samples=10),
        r"a frequency is a number of samples, or \(number, DataUnit\), not .*",
    ),
    "checkpoints without a name": (lambda m: C.CheckpointConfig(None, 3), "checkpoints need a filename"),
    "an idle validation": (
        lambda m: C.CrossValidationConfig(frequency=3), "a cross validation needs a minibatch_source or a callback"
    ),
    "data without a criterion": (
        lambda m: C.TestConfig((DATA,)), "data in place of a source need the criterion whose arguments they are"
    ),
    "no size": (lambda m: m.loss.train((DATA,), minibatch_size=None), "training needs a minibatch_size"),
    "two ends": (
        lambda m: m.loss.train((DATA,), max_samples=3, max_epochs=1), "max_samples and max_epochs exclude each other"
    ),
    "no size of a test": (lambda m: m.loss.test((DATA,), minibatch_size=None), "a test needs a minibatch_size"),
    "no size of an epoch": (
        lambda m: m.loss.train(C.io.MinibatchSourceFromData({"x": DATA})),
        "training from a source needs epoch_size or max_samples",
    ),
    "an endless test": (
        lambda m: m.loss.test(C.io.MinibatchSourceFromData({"x": DATA}, max_samples=C.io.INFINITELY_REPEAT)),
        "a test needs a source that ends: max_samples or max_sweeps",
    ),
    "streams twice": (
        lambda m: m.loss.test(C.io.MinibatchSourceFromData({"x": DATA}), streams=[1], model_inputs_to_streams={m.x: 1}),
        "streams and model_inputs_to_streams exclude each other",
    ),
    "a strange callback": (
        lambda m: m.loss.train((DATA,), callbacks=[3]),
        "a callback is a progress writer or a configuration of a session, not 3",
    ),
    "two callbacks of a kind": (
        lambda m: m.loss.train((DATA,), callbacks=[C.CheckpointConfig(None), C.CheckpointConfig(None)]),
        "there is more than one CheckpointConfig",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_refused(name: str) -> None:
    make, message = MISTAKES[name]
    with pytest.raises(ValueError, match=f"^{message}$"):
        make(Mean())


def test_older_names_of_arguments() -> None:
    mean = Mean()
    with pytest.warns(DeprecationWarning, match="is called") as told:
        config = C.TestConfig(source=(DATA,), mb_size=7, criterion=mean.loss)
    assert [str(each.message) for each in told] == [
        'DEPRECATED: the argument "source" is called "minibatch_source" now',
        'DEPRECATED: the argument "mb_size" is called "minibatch_size" now',
    ]
    assert config.sizes[0] == 7


def test_a_function_trains_itself() -> None:
    mean = Mean()
    found = mean.loss.train(
        (DATA,), 10, parameter_learners=mean.learners(), progress_frequency=30, callbacks=[mean.told]
    )
    first, second = float(DATA[:30].mean()), float(DATA[30:].mean())
    assert [each.samples for each in found.epoch_summaries] == [30, 30] == mean.told.summaries
    assert sum(each.loss for each in found.epoch_summaries) == pytest.approx(first + second, rel=1e-5)
    assert [each.samples for each in found.updates] == [30, 30]
    assert [each.loss for each in found.updates] == [each.loss for each in found.epoch_summaries]
    assert "test_summary" not in found
    half = mean.loss.train((DATA,), 10, parameter_learners=mean.learners(), max_epochs=0.5)
    assert [each.samples for each in half.epoch_summaries] == [30]
    finer = mean.loss.train(
        (DATA,), 10, parameter_learners=mean.learners(), progress_frequency=(2, C.DataUnit.minibatch)
    )
    assert [each.samples for each in finer.epoch_summaries] == [20, 20, 20]
    config = C.TestConfig((DATA,), criterion=mean.loss)
    both = C.combine([mean.loss, mean.loss + 0])
    tested = both.train((DATA,), 10, parameter_learners=mean.learners(), max_samples=5, callbacks=[config])
    assert tested.epoch_summaries[0].samples == 5
    assert (tested.test_summary.samples, tested.test_summary.metric) == (60, pytest.approx(DATA.mean(), rel=1e-5))
    listed = mean.loss.train(([*DATA],), 10, parameter_learners=mean.learners())
    assert [each.samples for each in listed.epoch_summaries] == [60]


def test_a_function_tests_itself_with_streams_of_a_source() -> None:
    mean = Mean()
    source = C.io.MinibatchSourceFromData({"other": DATA * 0, "mine": DATA}, max_samples=60)
    found = mean.loss.test(source, 25, streams=[source.streams.mine], callbacks=[mean.told])
    assert (found.samples, found.metric) == (60, pytest.approx(DATA.mean(), rel=1e-5))
    assert [each[:2] for each in mean.told.tests] == [(60, 3)]
