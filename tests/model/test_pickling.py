"""Networks, ops, models and programs are pickled, copied, and sent to other processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from cntk_core.api import register
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CntkError, ModelFormatError, NetworkError, PluginError, UnsupportedError
from cntk_core.model import Model
from cntk_core.network.model_file import save_model
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.recurrence import PAST_VALUE, DelayAttributes
from cntk_core.ops.language.define import elementwise_op
from cntk_core.ops.table import core_op, core_ops
from cntk_core.plan.make import make_plan
from cntk_core.plugins.registering import registrations_kept
from cntk_testing import ReferenceEngine

X = [np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[-1.0, 0.0, 1.0]])]


@elementwise_op("PickledCube", gradient=lambda m, attributes, g, y, x: 3.0 * g * x * x)
def CUBE(m: Any, attributes: Any, x: Any) -> Any:
    """The third power."""
    return x * x * x


def recurrent(op: Any = None) -> Network:
    """h = tanh(W x + past(h)), and another op on it."""
    network = Network(np.float64)
    x = network.add(Input.make("x", (3,)))
    weights = network.add(Parameter.make("W", (3, 2), value=np.arange(6.0).reshape(3, 2) / 10))
    past = network.add(Node("past", PAST_VALUE, [], DelayAttributes((), 1, 0.0)))
    product = network.add(Node("Wx", core_op("Times"), [weights, x], core_op("Times").attributes()))
    total = network.add(Node("sum", core_op("Plus"), [product, past]))
    h = network.add(Node("h", core_op("Tanh"), [total]))
    past.inputs = [h]
    network.mark(network.add(Node("z", op or core_op("Negate"), [h])), "output")
    network.infer()
    return network


def values(network: Network) -> list[Any]:
    found: list[Any] = Model(network, engine=ReferenceEngine()).evaluate(X)["z"]
    return found


def test_a_form_of_an_op_is_pickled_as_the_op():
    reduce = core_op("ReduceElements")
    form = reduce.form_of(reduce.attributes("Sum", -2))
    assert form is not reduce
    assert pickle.loads(pickle.dumps(form)) is reduce
    assert copy.deepcopy(form) is form


def test_ops_are_themselves():
    for op in core_ops():
        assert pickle.loads(pickle.dumps(op)) is op
        assert copy.copy(op) is op is copy.deepcopy(op)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda network: pickle.loads(pickle.dumps(network))])
def test_a_network_and_its_copy_are_apart(again: Callable[[Network], Network]) -> None:
    network = recurrent()
    before = values(network)
    found = again(network)
    assert [node.describe() for node in found] == [node.describe() for node in network]
    assert {role: [node.name for node in group] for role, group in found.roots.items()} == {
        role: [node.name for node in group] for role, group in network.roots.items()
    }
    assert not {id(node) for node in network} & {id(node) for node in found}
    assert found["past"].inputs == [found["h"]]
    assert all(node.op is network[node.name].op for node in found)
    for one, other in zip(values(found), before, strict=True):
        np.testing.assert_array_equal(one, other)
    (weights,) = found.parameters
    assert weights.value is not None
    weights.value[...] = 0.0
    np.testing.assert_array_equal(values(network)[0], before[0])


def test_what_a_program_has_learned_is_in_the_copy():
    network = recurrent()
    store = ParameterStore(network.parameters, network.dtype)
    (weights,) = network.parameters
    store.value(weights)[...] = 7.0
    for found in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        np.testing.assert_array_equal(found["W"].value, np.full((3, 2), 7.0))
        assert found["W"].collect is None


def test_a_network_in_the_making_can_be_copied():
    network = Network(np.float32)
    x = network.add(Input.make("x", (3,)))
    weights = network.add(Parameter.make("W", (0, 2)))
    network.add(Node("z", core_op("Times"), [weights, x], core_op("Times").attributes()))
    found = copy.deepcopy(network)
    network.infer()
    assert (found["W"].shape, found["z"].shape) == ((0, 2), None)
    found.infer()
    assert found["W"].shape == (3, 2)
    with pytest.raises(ModelFormatError, match="the parameter 'W' has no value that could be saved"):
        pickle.dumps(network)


def test_deep_networks_can_be_copied_and_pickled():
    network = Network(np.float32)
    node: Node = network.add(Input.make("x", (3,)))
    for number in range(3000):
        node = network.add(Node(f"n{number}", core_op("Negate"), [node]))
    network.infer()
    assert len(copy.deepcopy(network)) == len(pickle.loads(pickle.dumps(network))) == 3001


def test_a_plugins_op_travels_by_its_name():
    with pytest.raises(PluginError) as error:
        pickle.dumps(CUBE)
    assert str(error.value) == (
        "the operation PickledCube cannot be pickled: it is not found by its name\n"
        "    Register it with cntk_core.api.register, here and where it is read; or make a plugin of it."
    )
    with registrations_kept():
        register(CUBE)
        assert pickle.loads(pickle.dumps(CUBE)) is CUBE
        network = recurrent(CUBE)
        text, alone = pickle.dumps(network), pickle.dumps(CUBE)
        assert pickle.loads(text)["z"].op is CUBE
    with pytest.raises(ModelFormatError) as missing:
        pickle.loads(text)
    assert str(missing.value) == (
        "'the pickled network' uses operations that are not there: PickledCube\n"
        "    Install the plugin that they come from."
    )
    with pytest.raises(PluginError, match="the operation 'PickledCube' is not there"):
        pickle.loads(alone)


def test_the_bytes_are_those_of_the_model_file(tmp_path: Any) -> None:
    network = recurrent()
    save_model(network, tmp_path / "net.dnn")
    assert (tmp_path / "net.dnn").read_bytes() in pickle.dumps(network)


def test_a_damaged_pickle_is_named():
    text = bytearray(pickle.dumps(recurrent()))
    place = text.index(b"InputValue")
    text[place] = ord("J")
    with pytest.raises(ModelFormatError, match="'the pickled network' is damaged"):
        pickle.loads(bytes(text))


@attrs.frozen
class Times:
    """An update that can be pickled."""

    factor: float

    def __call__(self, m: Any, value: Any, gradient: Any, slots: Any, scalars: Any) -> tuple[Any, dict[str, Any]]:
        return value * self.factor, {}


def test_programs_with_rules_of_their_own():
    network = recurrent()
    plan, store = make_plan(network, network.roots["output"]), ParameterStore(network.parameters, network.dtype)
    program = pickle.loads(pickle.dumps(ReferenceEngine().compile(plan, store, UpdateRule((), (), Times(0.5)))))
    assert program.rule.expression == Times(0.5)
    local = UpdateRule((), (), lambda m, value, gradient, slots, scalars: (value, {}))
    with pytest.raises(UnsupportedError) as error:
        pickle.dumps(ReferenceEngine().compile(plan, store, local))
    assert str(error.value) == (
        "a program cannot be pickled with an update rule that pickles cannot hold\n"
        "    A learner's class has to stand in a module, and its options in pickles."
    )

    class Undecorated(ReferenceEngine):
        def compile(self, plan: Any, store: Any, rule: Any = None, *, seed: int = 0) -> Any:
            program = super().compile(plan, store, rule, seed=seed)
            program.made_of = None
            return program

    with pytest.raises(UnsupportedError) as error:
        pickle.dumps(Undecorated().compile(plan, store))
    assert str(error.value) == (
        "ReferenceProgram cannot be pickled: its engine does not say what it was compiled of\n"
        "    Pickle the network, and compile it again."
    )


def _evaluate(model: Model, data: Any) -> Any:
    return model.evaluate(data)["z"]


@pytest.mark.slow
def test_a_model_is_sent_to_another_process():
    model = Model(recurrent(), engine="cpu", settings="numCPUThreads=1")
    wanted = model.evaluate(X)["z"]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(_evaluate, (model, X))
    for one, other, third in zip(found, wanted, copy.deepcopy(model).evaluate(X)["z"], strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(third, other)


def test_errors_can_be_pickled():
    error = NetworkError("there is none", hint="Look for it.")
    found = pickle.loads(pickle.dumps(error))
    assert isinstance(found, CntkError)
    assert str(found) == str(error)
