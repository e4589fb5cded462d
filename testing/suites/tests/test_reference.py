"""The reference engine."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sample_networks import add, classifier, minibatch

from cntk_core.contract.learner import Slot, UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError, NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Parameter
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.reference import ReferenceEngine


def momentum(m, value, gradient, slots, scalars):
    smoothed = scalars["momentum"] * slots["smoothed"] + gradient
    return value - scalars["rate"] * smoothed, {"smoothed": smoothed}


RULE = UpdateRule(slots=(Slot("smoothed"),), scalars=("rate", "momentum"), expression=momentum)


def program_of(network, criterion, roots=(), *, rule=None, fuse=True, seed=0, dtype=np.float64):
    plan = make_plan(network, [network[name] for name in roots], criterion, fuse=fuse)
    store = ParameterStore(network.parameters, dtype)
    return ReferenceEngine().compile(plan, store, rule, seed=seed), store


def test_values_are_those_of_the_formulas():
    network, criterion = classifier()
    program, store = program_of(network, criterion, ["z", "err"])
    data = minibatch()
    program.evaluate(data)
    w0, b0, w1, b1 = (store.value(network[name]) for name in ("W0", "b0", "W1", "b1"))
    x, labels = data.streams["x"].data, data.streams["Labels"].data
    hidden = 1 / (1 + np.exp(-(x @ w0 + b0)))
    scores = (hidden * np.tanh(b0)) @ w1 + b1[0]
    np.testing.assert_allclose(program.value("Z"), scores)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(program.value("ce"), [-np.log((chances * labels).sum(axis=1)).sum()])
    totals = program.read_totals()
    assert totals == {"err": float((scores.argmax(1) != labels.argmax(1)).sum()), "ce": program.value("ce")[0]}
    assert program.read_totals() == {"err": 0.0, "ce": 0.0}


def test_totals_add_up_over_minibatches():
    network, criterion = classifier()
    program, _ = program_of(network, criterion)
    single = []
    for seed in (1, 2):
        program.evaluate(minibatch(seed=seed))
        single.append(float(program.value("ce")[0]))
    assert program.read_totals()["ce"] == pytest.approx(sum(single))


def test_fusion_changes_nothing():
    results = []
    for fuse in (True, False):
        network, criterion = classifier()
        program, store = program_of(network, criterion, ["z"], fuse=fuse)
        program.compute_gradients(minibatch())
        results.append([program.value("z"), *(store.gradient(p).copy() for p in network.parameters)])
    for fused, plain in zip(*results, strict=True):
        np.testing.assert_array_equal(fused, plain)


def test_an_update_uses_the_rule_and_its_slots():
    network, criterion = classifier()
    program, store = program_of(network, criterion, rule=RULE)
    weight = network["W0"]
    expected, smoothed = store.value(weight).copy(), np.zeros((4, 5))
    numbers = [{"rate": 0.1, "momentum": 0.5} for _ in program.plan.trained]
    for _ in range(2):
        program.compute_gradients(minibatch())
        smoothed = 0.5 * smoothed + store.gradient(weight)
        expected = expected - 0.1 * smoothed
        program.update(numbers)
        np.testing.assert_allclose(store.value(weight), expected)
        np.testing.assert_allclose(store.slot("smoothed", weight), smoothed)
    assert weight.value is not None
    np.testing.assert_array_equal(weight.value, store.value(weight))


def test_training_steps_lower_the_criterion():
    network, criterion = classifier(dtype=np.float32)
    program, store = program_of(network, criterion, rule=RULE, dtype=np.float32)
    numbers = [{"rate": 0.05, "momentum": 0.5} for _ in program.plan.trained]
    values = []
    for _ in range(20):
        program.train_step(minibatch(), numbers)
        values.append(program.read_totals()["ce"])
    assert values[-1] < 0.8 * values[0]
    assert store.values.dtype == np.float32
    assert program.value("ce").dtype == np.float64


def test_sparse_streams_are_read():
    network, criterion = classifier()
    program, _ = program_of(network, criterion)
    data = minibatch()
    program.evaluate(data)
    expected = program.value("ce")
    sparse = scipy.sparse.csr_array(data.streams["Labels"].data)
    streams = {"x": data.streams["x"], "labels": StreamData(sparse, data.streams["x"].layout)}
    program.evaluate(Minibatch(streams, data.samples))
    np.testing.assert_array_equal(program.value("ce"), expected)


def test_dropout_is_on_in_training_alone_and_follows_seed_and_step():
    def run(seed, step=0, rate=0.5):
        network, criterion = classifier(dropout=True)
        program, _ = program_of(network, criterion, seed=seed)
        program.settings["dropoutRate"] = rate
        program.step = step
        program.compute_gradients(minibatch())
        trained = float(program.value("ce")[0])
        assert program.step == step + 1
        program.evaluate(minibatch())
        return trained, float(program.value("ce")[0])

    first = run(1)
    assert first == run(1)
    assert first[0] != first[1]
    assert run(2)[0] != first[0]
    assert run(1, step=1)[0] != first[0]
    assert run(2)[1] == first[1]
    plain = run(1, rate=0.0)
    assert plain[0] == plain[1] == first[1]


def test_a_precomputed_value_is_a_constant():
    network = Network(np.float64)
    x = network.add(Input.make("x", (2,)))
    mean = add(network, "mean", "Mean", x)
    weight = network.add(Parameter.make("w", (2,), value=np.array([2.0, 3.0])))
    product = add(network, "p", "ElementTimes", add(network, "d", "Minus", x, mean), weight)
    criterion = add(network, "c", "SumElements", product)
    network.infer()
    mean.value = np.array([1.0, 1.0])
    program, store = program_of(network, criterion, ["p"])
    program.compute_gradients(Minibatch({"x": StreamData(np.array([[1.0, 2.0], [3.0, 4.0]]), frame_layout(2))}, 2))
    np.testing.assert_array_equal(program.value("p"), [[0.0, 3.0], [4.0, 9.0]])
    np.testing.assert_array_equal(store.gradient(weight), [2.0, 4.0])


def test_mistakes():
    network, criterion = classifier()
    program, _ = program_of(network, criterion)
    with pytest.raises(NetworkError) as error:
        program.value("ce")
    assert str(error.value) == "the root 'ce' has not been computed yet"
    with pytest.raises(NetworkError) as error:
        program.value("cee")
    assert str(error.value) == "the plan has no root 'cee'; did you mean 'ce'?"
    with pytest.raises(NetworkError) as error:
        program.update([])
    assert str(error.value) == "the program was compiled without an update rule"
    with pytest.raises(DataError) as error:
        program.evaluate(Minibatch({"x": minibatch().streams["x"]}, 6))
    assert str(error.value) == "the minibatch has no stream for the input 'labels'\n    Streams: x"
    evaluation = ReferenceEngine().compile(make_plan(network, [network["z"]]), ParameterStore(network.parameters, "f8"))
    with pytest.raises(NetworkError) as error:
        evaluation.compute_gradients(minibatch())
    assert str(error.value) == "the plan has no gradients: it was made without a criterion"
