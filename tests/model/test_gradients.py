"""Gradients in Python: of any nodes by any others, laid out as the inputs were given."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.errors import CntkError, DataError, NetworkError
from cntk_core.model import Model, gradients
from cntk_core.network.node import Input
from cntk_core.ops.language.shapes import Free
from cntk_testing import ReferenceEngine
from cntk_testing.networks import Sketch, dropout
from cntk_testing.sequence_networks import SequenceSketch

SEQUENCES = [np.arange(9.0).reshape(3, 3) / 9, np.ones((1, 3)), np.linspace(-1.0, 1.0, 6).reshape(2, 3)]


def recurrent():
    made = SequenceSketch("float64")
    state = made.elman(made.x, 3)
    made.network.rename(state, "state")
    for name, parameter in zip(("bias", "W", "R"), made.network.parameters, strict=True):
        made.network.rename(parameter, name)
    made.op("SumElements", made.op("Exp", state), name="total")
    made.network.infer()
    made.network.mark(state, "output")
    return made.network


def differences(evaluate, array, step=1e-6):
    found = np.zeros(array.shape)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + step
        above = evaluate()
        array[index] = kept - step
        found[index] = (above - evaluate()) / (2 * step)
        array[index] = kept
    return found


def test_gradients_by_an_input_come_as_its_sequences():
    network = recurrent()
    model = Model(network, engine="cpu")
    data = [each.copy() for each in SEQUENCES]
    found = model.gradients({"x": data}, "x", "total")
    for sequence, gradient in zip(data, found["x"], strict=True):
        expected = differences(lambda: model.evaluate({"x": data}, "total")["total"].item(), sequence)
        np.testing.assert_allclose(gradient, expected, atol=1e-6)
    same = gradients(network, "total", "x", {"x": data}, engine="cpu")
    np.testing.assert_array_equal(same["x"][0], found["x"][0])


def test_seeds_are_given_as_values_are():
    model = Model(recurrent(), engine="cpu")
    tape = model.differentiable(["x", "state", "W"], ["state", "total"])
    values = tape.forward({"x": SEQUENCES})
    assert [each.shape for each in values["state"]] == [(3, 2), (1, 2), (2, 2)]
    weights = [np.cos(np.arange(each.size)).reshape(each.shape) for each in values["state"]]
    weighted = tape.backward({"STATE": weights})
    # The last steps have no way to the value but their own.
    np.testing.assert_allclose([each[-1] for each in weighted["state"]], [each[-1] for each in weights])
    by_total = tape.backward({"total": 2.0})
    both = tape.backward({"state": weights, "total": np.full(1, 2.0)})
    for name in ("x", "state"):
        for one, other, together in zip(weighted[name], by_total[name], both[name], strict=True):
            np.testing.assert_allclose(together, one + other)
    np.testing.assert_allclose(both["W"], weighted["W"] + by_total["W"])
    ones = tape.backward()
    np.testing.assert_allclose(ones["W"], tape.backward({"state": 1.0, "total": 1.0})["W"])


def test_one_array_of_samples_gives_one_array():
    made = Sketch("float64")
    x = made.input("x", 4)
    network = made.finish(None, made.op("Tanh", made.dense(x, (4, 2), 0), name="z")).network
    rows = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
    model = Model(network, engine="cpu")
    seed = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    found = model.gradients({"x": rows}, ["x"], "z", {"z": seed})["x"]
    z = model.evaluate({"x": rows}, "z")["z"]
    np.testing.assert_allclose(found, (seed * (1 - z * z)) @ network["W0"].value.T)


def test_inputs_of_every_kind_have_gradients():
    made = Sketch("float64")
    image = made.network.add(Input.make("image", (2, Free("height"))))
    scale = made.network.add(Input.make("scale", (2, 1), framed=False))
    product = made.op("ElementTimes", image, scale)
    network = made.finish(None, made.op("SumElements", made.op("ElementTimes", product, product), name="total")).network
    model = Model(network, engine="cpu")
    tape = model.differentiable(["image", "scale"], "total")
    for height in (3, 5, 3):
        rows = np.arange(4.0 * height).reshape(2, 2, height)
        factor = np.array([[0.5], [2.0]])
        tape.forward({"image": rows, "scale": factor})
        found = tape.backward()
        np.testing.assert_allclose(found["image"], 2 * rows * factor**2)
        np.testing.assert_allclose(found["scale"], 2 * factor * (rows**2).sum(axis=(0, 2))[:, None])


def test_elements_are_dropped_in_training_alone():
    network = dropout("float64").network
    model = Model(network, engine="cpu")
    tape = model.differentiable("d0", "d0", settings={"dropoutRate": 0.4})
    data = {"x": np.ones((20, 6))}
    dropped = [(tape.forward(data, training=True)["d0"] == 0.0).sum() for _ in range(3)]
    assert len(set(dropped)) > 1
    assert min(dropped) > 20
    assert not (tape.forward(data)["d0"] == 0.0).any()


def test_parameters_can_be_changed_between_minibatches():
    network = recurrent()
    tape = Model(network, engine="cpu").differentiable(["W", "R"], "total")
    totals = []
    for _ in range(4):
        totals.append(tape.forward({"x": SEQUENCES})["total"].item())
        for name, gradient in tape.backward().items():
            network[name].value -= 0.05 * gradient
    assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize(
    ("ask", "kind", "message"),
    [
        (lambda model: model.gradients({"x": SEQUENCES}, "y", "total"), NetworkError, "the network has no node 'y'"),
        (
            lambda model: model.gradients({"x": SEQUENCES}, "total", "state"),
            NetworkError,
            "there is no gradient by 'total': 'state' does not depend on it",
        ),
        (
            lambda model: model.gradients({"x": SEQUENCES}, "x", "total", {"totals": 1.0}),
            NetworkError,
            "the plan has no root 'totals'; did you mean 'total'?",
        ),
        (
            lambda model: model.gradients({"x": SEQUENCES}, "x", "state", {"state": [np.ones((3, 2)), 1.0]}),
            DataError,
            "'state' has sequences of 3, 1, 2 frames; given are sequences of 3, a number",
        ),
        (
            lambda model: model.gradients(
                {"x": SEQUENCES}, "x", "state", {"state": [np.ones((n, 5)) for n in (3, 1, 2)]}
            ),
            DataError,
            "the seed of 'state' has the shape (6, 5); its value is (6, 2)",
        ),
        (
            lambda model: model.differentiable("x", "total").backward(),
            NetworkError,
            "there is nothing to go back through",
        ),
        (lambda model: model.gradients({}, "x", "total"), DataError, "there are no values for the input 'x'"),
    ],
)
def test_mistakes(ask, kind, message):
    with pytest.raises(CntkError) as caught:
        ask(Model(recurrent(), engine="cpu"))
    assert isinstance(caught.value, kind)
    assert caught.value.message == message


@pytest.mark.parametrize("engine", ["cpu", "xla", ReferenceEngine()], ids=["cpu", "xla", "reference"])
def test_values_of_several_minibatches_are_kept(engine):
    model = Model(recurrent(), engine=engine)
    tape = model.differentiable(["x", "W"], "total")
    minibatches = [SEQUENCES, SEQUENCES[:2], [2.0 * each for each in SEQUENCES]]
    expected = [model.gradients({"x": one}, ["x", "W"], "total") for one in minibatches]
    kept = [tape.keep({"x": one}) for one in minibatches]
    model.evaluate({"x": SEQUENCES[1:]}, "total")
    tape.forward({"x": SEQUENCES[1:]})
    for one, wanted in reversed(list(zip(kept, expected, strict=True))):
        for _ in range(2):
            found = one.backward({"total": 1.0})
            np.testing.assert_array_equal(found["W"], wanted["W"])
            for gradient, its in zip(found["x"], wanted["x"], strict=True):
                np.testing.assert_array_equal(gradient, its)
    assert kept[0].values["total"].item() == model.evaluate({"x": SEQUENCES}, "total")["total"].item()
    programs = {id(one.program) for one in kept}
    del kept, one
    assert {id(each) for each in tape._free} == programs  # they serve again
    again = tape.keep({"x": SEQUENCES[:2]})
    assert id(again.program) in programs
    np.testing.assert_array_equal(again.backward()["W"], expected[1]["W"])


def test_what_is_kept_has_dropped_elements_of_its_own():
    made = dropout("float64")
    tape = Model(made.network, engine=ReferenceEngine()).differentiable(
        "x", made.criterion.name, settings={"dropoutRate": 0.5}
    )
    data = {name: stream.data for name, stream in made.minibatch(6).streams.items()}
    kept = [tape.keep(data, training=True) for _ in range(2)]
    found = [one.backward()["x"] for one in kept]
    assert not np.array_equal(*found)
    np.testing.assert_array_equal(kept[0].backward()["x"], found[0])


def test_arrays_may_be_written_to_before_the_gradients_are_asked_for():
    made = Sketch("float32")
    x = made.input("x", 4)
    network = made.finish(None, made.op("SumElements", made.op("Exp", x), name="z")).network
    tape = Model(network, engine="cpu").differentiable("x", "z")
    rows = np.ones((3, 4), np.float32)
    tape.forward({"x": rows})
    rows[...] = 7.0
    np.testing.assert_allclose(tape.backward()["x"], np.full((3, 4), np.e), rtol=1e-6)
