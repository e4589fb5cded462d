"""Every learner in training: engines agree, sparse gradients, a restart ends in the same bytes."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from cntk_engine_cpu import CpuEngine
from cntk_learner_adagrad import AdaGrad, AdaGradOptions
from cntk_learner_adam import AdaDelta, Adam, AdaMax, AdamOptions, AdamW
from cntk_learner_fsadagrad import FSAdaGrad, FSAdaGradOptions
from cntk_learner_rmsprop import RmsProp, RmsPropOptions
from cntk_learner_sgd import SGD, SGDOptions
from small import Lines, make_session, settings

from cntk_core.contract.learner import UpdateContext
from cntk_core.training.loop.update import clip_factor, compose_update, first_state, scalars_for
from cntk_testing.engine_contract import start
from cntk_testing.networks import classifier
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sparse_networks import SPARSE_SAMPLES, with_sparse_streams

LEARNERS = {
    "sgd": SGD(),
    "nag": SGD(SGDOptions(use_nag=True)),
    "adagrad": AdaGrad(),
    "adagrad plain": AdaGrad(AdaGradOptions(norm_with_ave_multiplier=False)),
    "rmsprop": RmsProp(),
    "rmsprop plain": RmsProp(RmsPropOptions(norm_with_ave_multiplier=False)),
    "fsadagrad": FSAdaGrad(FSAdaGradOptions(variance_time_constant=200.0)),
    "adam": Adam(),
    "adam with beta1": Adam(AdamOptions(beta1=0.8, unit_gain=False)),
    "adamax": AdaMax(),
    "adadelta": AdaDelta(),
    "adamw": AdamW(),
}
SIZES = (7, 3, 12, 1, 12, 5)
CHOICES = {
    "plain": {},
    "limited": {"clipping_threshold_per_sample": 0.02, "l2_reg_weight": 0.001, "l1_reg_weight": 0.0005},
    "norm": {"clipping_threshold_per_sample": 0.02, "gradient_clipping_with_truncation": False},
}
ENGINES = {
    "compiled": {"cpu_kernels": "compiled"},
    "numpy": {"cpu_kernels": "numpy", "cpu_products": "blas"},
}


class Steps:
    """Trains a sample step by step, as the session does."""

    def __init__(self, engine, sample, learner, chosen):
        self.learner, self.chosen = learner, chosen
        self.run = start(engine, sample, rule=compose_update(learner, chosen))
        self.state = first_state(learner)

    def step(self, data, number):
        dtype = self.run.store.dtype.name
        context = UpdateContext(data.samples, 0.01, 0.9**data.samples, number, 0, self.state, dtype)
        self.state = self.learner.advance(context)
        context = attrs.evolve(context, state=self.state)
        program = self.run.program
        if self.chosen.clips_norm:
            program.compute_gradients(data)
            program.update([self.scalars(parameter, context) for parameter in self.run.plan.trained])
        else:
            program.train_step(data, [self.scalars(parameter, context) for parameter in self.run.plan.trained])

    def scalars(self, parameter, context):
        factor = 1.0
        if self.chosen.clips_norm:
            limit = self.chosen.clipping_threshold_per_sample * context.samples
            factor = clip_factor(self.run.store, parameter, limit)
        return scalars_for(self.learner, self.chosen, parameter, context, clip_factor=factor)


def assert_same_training(make_sample, dtype, engine, learner, chosen):
    made = make_sample(dtype), make_sample(dtype)
    ours = Steps(CpuEngine(CpuEngine.options(**ENGINES[engine])), made[0], learner, chosen)
    exact = Steps(ReferenceEngine(), made[1], learner, chosen)
    first = ours.run.values()
    tolerance = 1e-9 if dtype == "float64" else 2e-4
    for number, frames in enumerate(SIZES):
        for each in (ours, exact):
            sample = each.run.sample
            each.step(with_sparse_streams(sample.minibatch(frames, number), sample, number), number)
        for index, (found, wanted) in enumerate(zip(ours.run.values(), exact.run.values(), strict=True)):
            parameter = ours.run.store.parameters[index]
            change = np.linalg.norm(wanted.astype(np.float64) - first[index])
            rounding = np.finfo(dtype).eps * np.linalg.norm(first[index]) * (number + 1)
            error = np.linalg.norm(found.astype(np.float64) - wanted)
            assert error <= tolerance * change + rounding, f"'{parameter.name}' in step {number}: {error} of {change}"
            if parameter in ours.run.plan.trained:
                assert change > 0 or parameter in ours.run.plan.sparse, f"'{parameter.name}' does not change"
    for one, other in zip(ours.run.plan.trained, exact.run.plan.trained, strict=True):
        for slot in learner.slots:
            found, wanted = ours.run.store.slot(slot.name, one), exact.run.store.slot(slot.name, other)
            np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=10 * tolerance, err_msg=slot.name)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.sampled(6)
@pytest.mark.thinned(2)
def test_every_parameter_changes_as_with_the_reference(name, choice, engine):
    assert_same_training(classifier, "float64", engine, LEARNERS[name], settings(**CHOICES[choice]))


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.sampled(6)
def test_single_precision_changes_every_parameter_nearly_so(name):
    assert_same_training(classifier, "float32", "compiled", LEARNERS[name], settings())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sample", SPARSE_SAMPLES)
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.sampled(6)
@pytest.mark.thinned(3)
def test_sparse_gradients(name, sample, engine):
    assert_same_training(SPARSE_SAMPLES[sample], "float64", engine, LEARNERS[name], settings())


@pytest.mark.parametrize("name", LEARNERS)
def test_rows_that_do_not_occur_keep_everything_unless_weights_decay(name):
    """The mean of a multiplier goes over the rows that occur: 8 other rows, or 800, make no difference."""
    learner, changes = LEARNERS[name], []
    steps = Steps(ReferenceEngine(), SPARSE_SAMPLES["product"]("float64"), learner, settings())
    store = steps.run.store
    weights = next(p for p in steps.run.plan.trained if p in steps.run.plan.sparse)
    for number in range(3):
        data = with_sparse_streams(steps.run.sample.minibatch(2, number), steps.run.sample, number)
        occurring = np.unique(data.streams["x"].data.indices)
        others = np.setdiff1d(np.arange(9), occurring)
        before = [array.copy() for array in (weights.value, *(store.slot(s.name, weights) for s in learner.slots))]
        steps.step(data, number)
        after = [weights.value, *(store.slot(s.name, weights) for s in learner.slots)]
        changes.append(after[0][occurring] - before[0][occurring])
        if not learner.everywhere:
            for old, new in zip(before, after, strict=True):
                np.testing.assert_array_equal(new[others], old[others])
        else:
            assert (after[0][others] != before[0][others]).all()
        assert changes[-1].any()


def test_the_mean_of_a_sparse_gradient_is_that_of_its_rows():
    learner = AdaGrad()
    steps = Steps(ReferenceEngine(), SPARSE_SAMPLES["product"]("float64"), learner, settings())
    weights = next(p for p in steps.run.plan.trained if p in steps.run.plan.sparse)
    data = with_sparse_streams(steps.run.sample.minibatch(2, 0), steps.run.sample, 0)
    rows = np.unique(data.streams["x"].data.indices)
    before = weights.value.copy()
    steps.step(data, 0)
    gradient = steps.run.store.gradient(weights)[rows]
    multiplier = 1 / np.sqrt(gradient**2 + 1e-16)
    expected = before[rows] - 0.01 / multiplier.mean() * multiplier * gradient
    np.testing.assert_allclose(weights.value[rows], expected, rtol=1e-12)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.sampled(4)
def test_two_epochs_and_two_more_are_four(name, tmp_path):
    def train(folder, epochs, **more):
        session = make_session(folder, Lines(), learner=LEARNERS[name], max_epochs=epochs, minibatch_size=8, **more)
        session.run()
        return (folder / "net.dnn").read_bytes()

    straight = train(tmp_path / "straight", 4)
    stopped = train(tmp_path / "stopped", 2)
    assert stopped != straight
    assert train(tmp_path / "stopped", 4, resume=True) == straight


@pytest.mark.parametrize("name", ["fsadagrad", "adam", "adamax", "adamw"])
def test_numbers_of_a_learner_matter_after_a_restart(name, tmp_path, monkeypatch):
    """What a checkpoint keeps beside the slots is needed: without it the resumed run ends elsewhere."""

    def train(folder, epochs, **more):
        make_session(folder, Lines(), learner=LEARNERS[name], max_epochs=epochs, **more).run()
        return (folder / "net.dnn").read_bytes()

    straight = train(tmp_path / "straight", 4)
    train(tmp_path / "stopped", 2)
    monkeypatch.setattr("cntk_core.training.files.checkpoint._STATE", "elsewhere/")
    assert train(tmp_path / "stopped", 4, resume=True) != straight


def test_a_roll_back_takes_the_numbers_back():
    steps = Steps(ReferenceEngine(), classifier("float64"), Adam(), settings())
    store = steps.run.store
    store.state = {"bias1": 0.5}
    kept = store.snapshot()
    store.state = {"bias1": 0.25, "bias2": 0.125}
    store.restore(kept)
    assert store.state == {"bias1": 0.5}


class Counting(SGD):
    """Counts how often it is asked for its numbers."""

    asked = 0

    def scalars(self, context):
        self.asked += 1
        return super().scalars(context)


class Wandering(Counting):
    """As anybody may write it: what it needs may depend on anything."""

    steady = False


@pytest.mark.parametrize(("learner", "once"), [(Counting(), True), (Wandering(), False)])
def test_numbers_that_stay_are_computed_once(tmp_path, learner, once) -> None:
    """Once for each epoch, and for the smaller minibatch at the end of an epoch, not for each step."""
    session = make_session(tmp_path, learner=learner, max_epochs=2, minibatch_size=4)
    before = learner.asked
    session.run()
    assert learner.asked - before == (4 if once else 22) + 1  # for their names
