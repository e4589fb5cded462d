"""A trainer with learners and functions in Python, and with assignments."""

from __future__ import annotations

import numpy as np
from small import make_data, make_network, operation

from cntk_core.contract.learner import Slot
from cntk_core.contract.user_learner import UserLearner
from cntk_core.model import Model
from cntk_core.network.node import Parameter
from cntk_core.trainer import LearnerSettings, Trainer
from cntk_testing.reference import ReferenceEngine


class Descent(UserLearner):
    requires_api = "1.0"
    state = (Slot("steps"),)

    def __init__(self):
        super().__init__()
        self.seen = []

    def advance(self, context):
        return {"steps": context.state["steps"] + 1}

    def update(self, parameters):
        self.seen.append(({each.name for each in parameters}, parameters[0].context.state["steps"]))
        for each in parameters:
            each.value -= each.context.learning_rate * each.gradient


def test_learners_in_python_stand_beside_others():
    data, rate = make_data(), 0.05
    first, second = make_network(), make_network()
    python = Descent()
    ours = Trainer(
        first,
        None,
        [
            LearnerSettings(python, rate, parameters=["W0", "b0"], mean=True),
            LearnerSettings(Descent(), rate / 43, parameters=["W1"]),
            LearnerSettings("sgd", rate, momentum=0.0, mean=True),
        ],
        engine=ReferenceEngine(),
    )
    plain = Trainer(second, None, LearnerSettings("sgd", rate, momentum=0.0, mean=True), engine=ReferenceEngine())
    for _ in range(3):
        ours.train_minibatch(data)
        plain.train_minibatch(data)
    for one, other in zip(first.parameters, second.parameters, strict=True):
        np.testing.assert_allclose(one.value, other.value, rtol=1e-12, err_msg=one.name)
    assert python.seen == [({"W0", "b0"}, step) for step in (1, 2, 3)]


def test_a_trainer_assigns_what_is_marked_and_tests_leave_it_alone():
    network = make_network()
    kept = network.add(Parameter.make("kept", (1, 5), value=np.zeros((1, 5)), learning_rate_multiplier=0.0))
    mean = operation(network, "mean", "EpochAccumulator", network["h"])
    network.mark(operation(network, "assign", "Assign", kept, mean), "output")
    network.infer()
    trainer = Trainer(network, None, LearnerSettings("sgd", 0.05), engine=ReferenceEngine())
    data = make_data()
    expected = Model(network, engine=ReferenceEngine()).evaluate({"features": data["features"]}, ["h"])["h"]
    assert not kept.value.any()
    trainer.train_minibatch(data)
    np.testing.assert_allclose(kept.value, np.mean(expected, axis=0).reshape(1, 5), rtol=1e-12)
    before = kept.value.copy()
    trainer.test_minibatch(make_data(seed=8))
    np.testing.assert_array_equal(kept.value, before)


def test_gradients_by_any_nodes_assign_when_they_have_flowed_back():
    network = make_network()
    kept = network.add(Parameter.make("kept", (1, 5), value=np.zeros((1, 5)), learning_rate_multiplier=0.0))
    mean = operation(network, "mean", "EpochAccumulator", network["h"])
    assign = operation(network, "assign", "Assign", kept, mean)
    shifted = operation(network, "shifted", "Minus", network["h"], assign)
    network.infer()
    features = make_data()["features"]
    model = Model(network, engine=ReferenceEngine())
    found = model.differentiable("features", "shifted")
    found.forward({"features": features})
    assert not kept.value.any()
    gradient = found.backward()["features"]
    assert kept.value.any()
    # The assignment is no root: its own gradient is that of what reads it.
    np.testing.assert_array_equal(gradient, model.gradients({"features": features}, "features", "h")["features"])
    assert shifted.shape == (1, 5)
