"""Sessions with learners and functions in Python and with assignments: models, checkpoints, validation."""

from __future__ import annotations

import numpy as np
import pytest
import small
from small import TABLE, Lines, ListReader, make_data, make_network, make_session, operation

from cntk_core.contract.learner import Slot
from cntk_core.contract.user_learner import UserLearner
from cntk_core.network.model_file import load_model
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.table import core_ops
from cntk_kit_builders.user_function import UserFunction, op_of


class Momentum(UserLearner):
    requires_api = "1.0"
    slots = (Slot("smoothed_gradient"),)
    state = (Slot("steps"),)

    def advance(self, context):
        return {"steps": context.state["steps"] + 1}

    def update(self, parameters):
        for each in parameters:
            smoothed = each.slots["smoothed_gradient"]
            smoothed[...] = each.context.momentum * smoothed + each.gradient
            rate = each.context.learning_rate / (1 + each.context.state["steps"])
            each.value -= rate * smoothed


class Counting(UserFunction):
    updates = (1,)

    def forward(self, context, x, count):
        if context.training:
            count += len(x)
        return x

    def backward(self, context, gradient):
        return gradient, None


def assigning():
    """The classifier, whose output layer sees how far its hidden layer is from the mean of the epoch so far."""
    network = make_network()
    hidden, z = network["h"], network["Wh"]
    kept = network.add(Parameter.make("kept", (1, 5), value=np.full((1, 5), 0.5), learning_rate_multiplier=0.0))
    z.inputs[1] = operation(network, "centred", "Minus", hidden, kept)
    mean = operation(network, "mean", "EpochAccumulator", hidden)
    network.mark(operation(network, "assign", "Assign", kept, mean), "output")
    network.infer()
    return network


def counting():
    network = make_network()
    count = network.add(Parameter.make("count", (1,), value=np.zeros(1), learning_rate_multiplier=0.0))
    function = network.add(Node("function", op_of(Counting), [network["h"], count], Counting()))
    network["Wh"].inputs[1] = function
    network.infer()
    return network


@pytest.fixture(autouse=True)
def table(monkeypatch):
    table = core_ops()
    table.add(op_of(Counting))
    monkeypatch.setattr(small, "TABLE", table)
    return table


def train(folder, epochs, **changes):
    lines = Lines()
    make_session(folder, lines, max_epochs=epochs, **changes).run()
    return lines


def stop_after(folder, epochs, **changes):
    train(folder, epochs, **changes)
    (folder / "net.dnn").replace(folder / f"net.dnn.{epochs}")
    (folder / "net.dnn.ckp").replace(folder / f"net.dnn.{epochs}.ckp")


@pytest.mark.parametrize(
    "changes",
    [{"learner": Momentum()}, {"network": assigning}, {"network": counting}],
    ids=["learner", "assign", "state"],
)
def test_a_restart_ends_in_the_same_bytes(tmp_path, changes):
    train(tmp_path / "a", 3, **changes)
    stop_after(tmp_path / "b", 1, **changes)
    train(tmp_path / "b", 3, **changes)
    assert (tmp_path / "a/net.dnn").read_bytes() == (tmp_path / "b/net.dnn").read_bytes()


def test_a_learner_in_python_learns(tmp_path):
    lines = train(tmp_path, 4, learner=Momentum())
    losses = [float(line.split("ce = ")[1].split()[0]) for line in lines.with_text("Finished Epoch")]
    assert losses[-1] < losses[0]


def test_what_is_assigned_is_in_the_model_and_validation_leaves_it_alone(tmp_path):
    train(tmp_path / "a", 1, network=assigning)
    train(tmp_path / "b", 1, network=assigning, cv_reader=ListReader(make_data(seed=9)))
    models = [load_model(tmp_path / name / "net.dnn", TABLE.find) for name in "ab"]
    assert models[0]["kept"].value.tolist() != [[0.5] * 5]
    np.testing.assert_array_equal(models[0]["kept"].value, models[1]["kept"].value)


def test_a_function_counts_the_samples_that_it_has_learned_from(tmp_path, table):
    train(tmp_path, 3, network=counting, cv_reader=ListReader())
    assert load_model(tmp_path / "net.dnn", table.find)["count"].value.tolist() == [3 * small.FRAMES]
