"""Trainers, sessions, evaluators, learners in Python, ranks."""

from __future__ import annotations

import math

import cntk as C
import numpy as np
import pytest
from cntk.logging import ProgressWriter

RANDOM = np.random.default_rng(3)
DATA = RANDOM.normal(size=(60, 4)).astype(np.float32)
CLASSES = np.eye(3, dtype=np.float32)[DATA[:, :3].argmax(1)]


class Model:
    """A linear classifier, and its criterion."""

    def __init__(self):
        self.x, self.y = C.input_variable(4, name="x"), C.input_variable(3, name="y")
        self.w, self.b = C.parameter((4, 3), init=C.glorot_uniform(seed=4)), C.parameter(3)
        self.z = C.times(self.x, self.w) + self.b
        self.loss = C.cross_entropy_with_softmax(self.z, self.y)
        self.metric = C.classification_error(self.z, self.y)

    def trainer(self, learner=None, writers=None):
        learner = learner or C.sgd(self.z.parameters, C.learning_parameter_schedule(0.5))
        return C.Trainer(self.z, (self.loss, self.metric), learner, writers)

    def data(self, begin=0, end=60):
        return {self.x: DATA[begin:end], self.y: CLASSES[begin:end]}


class Told(ProgressWriter):
    """Keeps what it is told."""

    def __init__(self, *args):
        super().__init__(*args)
        self.updates, self.summaries, self.tests, self.numbers = [], [], [], []

    def on_write_training_update(self, samples, updates, aggregate_loss, aggregate_metric):
        self.updates.append((samples, updates, aggregate_loss, aggregate_metric))

    def on_write_training_summary(self, samples, updates, summaries, aggregate_loss, aggregate_metric, elapsed):
        self.summaries.append((samples, updates, summaries, aggregate_loss, aggregate_metric))

    def on_write_test_summary(self, samples, updates, summaries, aggregate_metric, elapsed):
        self.tests.append((samples, updates, summaries, aggregate_metric))

    def write(self, key, value):
        self.numbers.append((key, value))


def test_a_step_is_the_formula():
    model = Model()
    w, b = model.w.value, model.b.value
    trainer = model.trainer()
    assert trainer.train_minibatch(model.data(0, 20))
    logits = DATA[:20] @ w + b
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    losses = -np.log((shares * CLASSES[:20]).sum(1))
    assert trainer.previous_minibatch_loss_average == pytest.approx(losses.mean(), rel=1e-5)
    assert trainer.previous_minibatch_sample_count == trainer.total_number_of_samples_seen == 20
    gradient = (shares - CLASSES[:20]) / 20
    np.testing.assert_allclose(model.w.value, w - 0.5 * DATA[:20].T @ gradient, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.b.value, b - 0.5 * gradient.sum(0), rtol=1e-4, atol=1e-6)


def test_values_before_the_update_can_be_had():
    model = Model()
    expected = DATA[:5] @ model.w.value + model.b.value
    updated, found = model.trainer().train_minibatch(model.data(0, 5), outputs=[model.z.output])
    assert updated
    np.testing.assert_allclose(found[model.z.output], expected, rtol=1e-5, atol=1e-6)


def test_data_by_name_and_by_place():
    model, other = Model(), Model()
    model.trainer().train_minibatch({"x": DATA, "y": CLASSES})
    other.trainer().train_minibatch((DATA, CLASSES))
    np.testing.assert_array_equal(model.w.value, other.w.value)


def test_an_empty_minibatch_changes_nothing():
    model = Model()
    trainer, before = model.trainer(), model.w.value
    assert not trainer.train_minibatch({})
    np.testing.assert_array_equal(model.w.value, before)
    with pytest.raises(RuntimeError, match="no minibatch was learned, or the last one was empty"):
        trainer.previous_minibatch_loss_average  # noqa: B018 - it raises


def test_writers_are_told_windows_summaries_and_rates():
    model, told = Model(), Told(2)
    rates = C.learning_rate_schedule([0.3, 0.2], C.UnitType.sample, 40)
    trainer = model.trainer(C.sgd(model.z.parameters, rates), told)
    losses = []
    for begin in range(0, 60, 20):
        trainer.train_minibatch(model.data(begin, begin + 20))
        losses.append(20 * trainer.previous_minibatch_loss_average)
    trainer.summarize_training_progress()
    (window,) = told.updates
    assert window[:2] == ((0, 40), (0, 2))
    assert window[2] == (0.0, pytest.approx(sum(losses[:2]), rel=1e-6))
    (summary,) = told.summaries
    assert summary[:3] == (60, 3, 1)
    assert summary[3] == pytest.approx(sum(losses), rel=1e-6)
    assert told.numbers == [("Learning rate per 1 samples", 0.3), ("Learning rate per 1 samples", 0.2)]
    error = trainer.test_minibatch(model.data())
    trainer.summarize_test_progress()
    assert told.tests == [(60, 1, 1, pytest.approx(60 * error))]


def test_parameters_that_are_used_elsewhere_in_between():
    """Another function takes the parameters over with others; the trainer goes on with its own state."""
    model, alone = Model(), Model()
    make = lambda m: C.momentum_sgd(m.z.parameters, 0.1, 0.9)  # noqa: E731
    trainer, undisturbed = model.trainer(make(model)), alone.trainer(make(alone))
    for begin in range(0, 60, 20):
        trainer.train_minibatch(model.data(begin, begin + 20))
        undisturbed.train_minibatch(alone.data(begin, begin + 20))
        scaled = C.times(model.z, C.parameter((3, 2), init=1))
        assert scaled.eval({model.x: DATA[:2]}).shape == (2, 2)
    np.testing.assert_allclose(model.w.value, alone.w.value, rtol=1e-6)


class Descent(C.learners.UserLearner):
    """Plain descent, in Python."""

    def update(self, gradient_values, training_sample_count, sweep_end):
        for parameter, gradient in gradient_values.items():
            parameter.set_value(parameter.value - self.learning_rate() / training_sample_count * gradient)
        return True


def test_a_learner_in_python_and_a_universal_one():
    models = [Model() for _ in range(3)]
    rate = C.learning_rate_schedule(0.5, C.UnitType.minibatch)
    learners = [
        C.sgd(models[0].z.parameters, rate),
        Descent(models[1].z.parameters, rate),
        C.universal(
            lambda ps, gs: C.combine([C.assign(p, p - 0.5 / 20 * g) for p, g in zip(ps, gs, strict=True)]),
            models[2].z.parameters,
        ),
    ]
    for model, learner in zip(models, learners, strict=True):
        trainer = model.trainer(learner)
        for begin in range(0, 60, 20):
            assert trainer.train_minibatch(model.data(begin, begin + 20))
    for model in models[1:]:
        np.testing.assert_allclose(model.w.value, models[0].w.value, rtol=1e-5, atol=1e-7)
    with pytest.raises(NotImplementedError, match="UserLearner does not say how it updates: it has no method update"):
        C.learners.UserLearner(models[0].z.parameters, rate).update({}, 1, False)


def test_a_session_reports_validates_and_tests():
    model, told = Model(), Told()
    validated = []
    C.training_session(
        model.trainer(writers=told),
        (DATA, CLASSES),
        mb_size=20,
        model_inputs_to_streams=None,
        progress_frequency=60,
        max_samples=120,
        cv_config=C.CrossValidationConfig(
            (DATA, CLASSES), frequency=40, criterion=model.loss, callback=lambda *found: validated.append(found) or True
        ),
        test_config=C.TestConfig((DATA, CLASSES), minibatch_size=30, criterion=model.loss),
    ).train()
    assert [summary[:3] for summary in told.summaries] == [(60, 3, 1), (60, 3, 2)]
    assert [(index, samples, count) for index, _, samples, count in validated] == [(0, 60, 2), (1, 60, 2), (2, 60, 2)]
    assert [each[:3] for each in told.tests] == [(60, 2, 1), (60, 2, 2), (60, 2, 3), (60, 2, 4)]


def test_a_callback_ends_a_session():
    model = Model()
    trainer = model.trainer()
    config = C.CrossValidationConfig(frequency=20, callback=lambda *_: False)
    C.training_session(trainer, (DATA, CLASSES), 20, None, max_samples=600, cv_config=config).train()
    assert trainer.total_number_of_samples_seen == 20


@pytest.mark.parametrize(
    ("frequency", "summaries"), [((2, C.DataUnit.minibatch), 3), ((1, C.DataUnit.sweep), 2), (None, 1)]
)
def test_frequencies_count_minibatches_and_sweeps_too(frequency, summaries):
    model, told = Model(), Told()
    session = C.training_session(
        model.trainer(writers=told), (DATA, CLASSES), 20, None, progress_frequency=frequency, max_samples=120
    )
    session.train()
    assert len(told.summaries) == summaries


def test_sizes_of_minibatches_by_samples():
    sizes = C.minibatch_size_schedule([10, 20], 30)
    assert [sizes[n] for n in (0, 29, 30, 1000)] == [10, 10, 20, 20]
    with pytest.raises(ValueError, match="sizes of minibatches are a whole number or a list of them"):
        C.minibatch_size_schedule("many")


def test_functions_train_and_test_themselves():
    model = Model()
    criterion = C.combine([model.loss, model.metric])
    learner = C.sgd(criterion.parameters, C.learning_parameter_schedule(0.5))
    found = criterion.train((DATA, CLASSES), minibatch_size=20, max_epochs=3, parameter_learners=[learner])
    losses = [each.loss for each in found.epoch_summaries]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    measured = criterion.test((DATA, CLASSES))
    assert measured.samples == 60
    scores = DATA @ model.w.value + model.b.value
    assert measured.metric == pytest.approx((scores.argmax(1) != CLASSES.argmax(1)).mean())


def test_an_evaluator_averages():
    model = Model()
    evaluator = C.Evaluator(model.loss, told := Told())
    whole = evaluator.test_minibatch(model.data())
    halves = [evaluator.test_minibatch(model.data(begin, begin + 30)) for begin in (0, 30)]
    assert whole == pytest.approx(sum(halves) / 2, rel=1e-5)
    evaluator.summarize_test_progress()
    assert told.tests == [(120, 3, 1, pytest.approx(120 * whole, rel=1e-5))]


@pytest.mark.parametrize("rule", ["momentum_sgd", "adam"])
def test_a_trainer_goes_on_from_its_checkpoint(tmp_path, rule):
    make = getattr(C, rule)
    rates = [0.3, 0.2]
    first, second = Model(), Model()
    one = first.trainer(make(first.z.parameters, C.learning_parameter_schedule(rates, epoch_size=40), 0.9))
    other = second.trainer(make(second.z.parameters, C.learning_parameter_schedule(0.1), 0.9))
    for begin in (0, 20, 40):
        one.train_minibatch(first.data(begin, begin + 20))
    state = {"number": math.pi, "nested": {"text": "b"}, "several": [1, 2.5, True], "array": np.arange(3.0)}
    one.save_checkpoint(str(tmp_path / "net"), state)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net", "net.ckp"]
    found = other.restore_from_checkpoint(str(tmp_path / "net"))
    np.testing.assert_array_equal(found.pop("array"), state.pop("array"))
    assert found == state
    assert other.total_number_of_samples_seen == 60
    assert other.parameter_learners[0].learning_rate() == 0.2
    for model, trainer in ((first, one), (second, other)):
        trainer.train_minibatch(model.data(0, 20))
    np.testing.assert_allclose(second.w.value, first.w.value, rtol=1e-6)
    with pytest.raises(ValueError, match="an external state holds what a file cannot: <object object at"):
        one.save_checkpoint(str(tmp_path / "net"), {"bad": object()})
    assert other.restore_from_checkpoint(str(tmp_path / "net"))["number"] == math.pi


def test_a_session_goes_on_from_a_checkpoint(tmp_path):
    def session(told, samples):
        model = Model()
        config = C.CheckpointConfig(str(tmp_path / "net"), frequency=40, preserve_all=True)
        trainer = model.trainer(writers=told)
        C.training_session(trainer, (DATA, CLASSES), 20, None, max_samples=samples, checkpoint_config=config).train()
        return model

    session(Told(1), 80)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["net", "net.ckp", "net0", "net0.ckp", "net1", "net1.ckp"]
    for name in ("net", "net.ckp", "net1", "net1.ckp"):
        (tmp_path / name).unlink()
    told = Told(1)
    again = session(told, 80)
    assert [update[0] for update in told.updates] == [(0, 20), (20, 40)]
    for path in tmp_path.iterdir():
        path.unlink()
    np.testing.assert_allclose(again.w.value, session(Told(1), 80).w.value, rtol=1e-6)


def test_one_rank_is_a_team_of_its_own():
    model = Model()
    communicator = C.distributed.mpi_communicator()
    assert (communicator.num_workers(), communicator.rank(), communicator.is_main()) == (1, 0, True)
    assert [each.global_rank for each in communicator.workers()] == [0]
    learner = C.data_parallel_distributed_learner(C.sgd(model.z.parameters, 0.5), num_quantization_bits=1)
    assert model.trainer(learner).train_minibatch(model.data())
    C.Communicator.finalize()


def test_what_is_refused():
    model = Model()
    with pytest.raises(ValueError, match="learners have parameters that the criterion does not depend on"):
        C.Trainer(model.z, model.loss, C.sgd([C.parameter(3)], 0.1))
    with pytest.raises(ValueError, match="a criterion is a loss, or a loss and a metric, not 3 functions"):
        C.Trainer(None, (model.loss, model.metric, model.z), C.sgd(model.z.parameters, 0.1))
    trainer = C.Trainer(model.z, model.loss, C.sgd(model.z.parameters, 0.1))
    with pytest.raises(ValueError, match="a trainer without a metric tests nothing"):
        trainer.test_minibatch(model.data())
    with pytest.raises(ValueError, match="there are no data for"):
        trainer.train_minibatch({model.x: DATA})
    with pytest.raises(ValueError, match="there are data for 'z', which is no argument"):
        trainer.train_minibatch({"x": DATA, "y": CLASSES, "z": DATA})
    with pytest.raises(ValueError, match="checkpoints need a filename"):
        C.CheckpointConfig(None, frequency=5)
    with pytest.raises(ValueError, match="a cross validation needs a minibatch_source or a callback"):
        C.CrossValidationConfig(frequency=5)
    with pytest.raises(ValueError, match="a test needs a source that ends: max_samples or max_sweeps"):
        model.loss.test(C.io.MinibatchSourceFromData({"x": DATA, "y": CLASSES}))


def test_a_loss_over_the_whole_minibatch():
    model = Model()
    loss = C.reduce_sum(model.loss, axis=C.Axis.all_axes()) * 1.0
    trainer = C.Trainer(None, loss, C.sgd(loss.parameters, C.learning_parameter_schedule(0.5)))
    assert trainer.train_minibatch(model.data(0, 20))
    assert trainer.total_number_of_samples_seen == 20
    assert math.isfinite(trainer.previous_minibatch_loss_average)


def test_trainers_that_share_some_parameters_are_made_once():
    """Each has parameters that the other has not; neither takes the shared ones from the other at every step."""
    random = np.random.default_rng(5)
    first = {name: random.standard_normal((2, 2)).astype(np.float32) for name in ("shared", "one", "two")}
    held = {name: C.parameter((2, 2), init=value) for name, value in first.items()}
    x, y = C.input_variable(2), C.input_variable(2)
    trainers = {}
    for name in ("one", "two"):
        loss = C.squared_error(C.times(C.times(x, held["shared"]), held[name]), y)
        used = [held["shared"], held[name]]
        rate = C.learning_parameter_schedule_per_sample(0.01)
        trainers[name] = C.Trainer(None, (loss, loss), C.momentum_sgd(used, rate, C.momentum_schedule(0.5)))
    slots = {key: np.zeros((2, 2), np.float32) for name in ("one", "two") for key in ((name, name), (name, "shared"))}
    made = []
    for rows in (4, 3, 4, 5):
        given, wanted = (random.standard_normal((rows, 2)).astype(np.float32) for _ in range(2))
        for name, trainer in trainers.items():
            trainer.train_minibatch({x: given, y: wanted})
            error = 2 * (given @ first["shared"] @ first[name] - wanted)
            changes = {"shared": given.T @ error @ first[name].T, name: (given @ first["shared"]).T @ error}
            for key, gradient in changes.items():
                slots[name, key] = 0.5 * slots[name, key] + 0.5 * gradient
                first[key] = first[key] - 0.01 * slots[name, key]
            made.append(trainer._engine._made)
    for name, value in first.items():
        np.testing.assert_allclose(held[name].value, value, rtol=1e-4, atol=1e-5)
    assert made[2] is not made[0]  # the other has taken the shared ones
    assert made[2::2] == [made[2]] * 3
    assert made[3::2] == [made[3]] * 3


def test_arrays_of_another_form_than_before():
    """A minibatch of the form of the last one takes a short way; all others are looked at."""
    x, y = C.input_variable(2), C.input_variable(1)
    w = C.parameter((2, 1), init=0.5)
    loss = C.squared_error(C.times(x, w), y)
    trainer = C.Trainer(None, (loss, loss), C.sgd([w], C.learning_parameter_schedule_per_sample(0.1)))
    value = np.full((2, 1), 0.5, np.float32)
    wide = {"dtype": np.float64}
    for rows, how in ((3, {}), (3, {}), (2, {}), (2, wide), (2, wide), (4, {"order": "F"}), (4, {}), (1, {})):
        given = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2) / 10
        wanted = np.ones((rows, 1), np.float32)
        trainer.train_minibatch({x: np.array(given, **how), y: np.array(wanted, **how)})
        value = value - 0.1 * given.T @ (2 * (given @ value - wanted))
        np.testing.assert_allclose(w.value, value, rtol=1e-5)
    for wrong in ({x: given}, {x: given[:, :1], y: wanted}, {x: given, y: wanted, w: given}):
        with pytest.raises(ValueError, match=r"no data for|does not fit|no argument"):
            trainer.train_minibatch(wrong)
    assert trainer.train_minibatch({x: given, y: wanted}, is_sweep_end=True)
    assert trainer.parameter_learners[0].sweep_count == 1
