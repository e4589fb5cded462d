"""Copies and parts of models, as a fine-tuning begins with, and models that threads share."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from cntk_builder_python import (
    LSTM,
    BatchNormalization,
    Dense,
    Graph,
    Recurrence,
    Sequential,
    cross_entropy_with_softmax,
    relu,
)

from cntk_core.api import Model
from cntk_core.errors import NetworkError
from cntk_core.trainer import LearnerSettings, Trainer
from cntk_testing import ReferenceEngine

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(40, 4))
ADAM = LearnerSettings("adam", rate=0.05, mean=True)


def classes(count: int) -> Any:
    return np.eye(count)[RANDOM.integers(0, count, len(X))]


@pytest.fixture
def trained() -> Model:
    graph = Graph(np.float64)
    features, labels = graph.input("x", 4), graph.label("y", 3)
    layers = Sequential(Dense(6, name="low"), BatchNormalization(name="bn"), relu, Dense(5, relu, name="mid"))
    z = Dense(3, name="top")(layers(features).named("h"))
    graph.criterion(cross_entropy_with_softmax(z, labels), "ce")
    graph.output(z, "z")
    trainer = Trainer(graph.finish(), "ce", ADAM, engine=ReferenceEngine())
    for _ in range(3):
        trainer.train_minibatch({"x": X, "y": classes(3)})
    return trainer.model


def parameters(model: Model) -> dict[str, Any]:
    return {one.name: np.array(one.value) for one in model.network.parameters}


def test_a_clone_is_apart(trained: Model) -> None:
    made = trained.clone()
    wanted = trained.evaluate({"x": X})["z"]
    np.testing.assert_array_equal(made.evaluate({"x": X})["z"], wanted)
    made.network["top.W"].value = np.zeros((5, 3))
    assert len(np.unique(made.evaluate({"x": X})["z"], axis=0)) == 1  # the bias alone
    np.testing.assert_array_equal(trained.evaluate({"x": X})["z"], wanted)
    assert [node.name for node in made.network] == [node.name for node in trained.network]
    assert made.engine is trained.engine


def test_a_part_has_what_its_outputs_need(trained: Model) -> None:
    part = trained.clone("h")
    assert [node.name for node in part.network.inputs] == ["x"]
    assert part.network.roots["output"] == [part.network["h"]]
    assert part.network.roots["criterion"] == part.network.roots["label"] == []
    assert "top.W" not in part.network
    np.testing.assert_array_equal(part.evaluate(X)["h"], trained.evaluate({"x": X}, "h")["h"])
    both = trained.clone(["mid.W", trained.network["h"]]).network.roots["output"]
    assert [node.name for node in both] == ["mid.W", "h"]


def fine_tuned(part: Model) -> Model:
    graph = Graph(network=part.network)
    z = Dense(2, name="new")(graph["h"])
    graph.criterion(cross_entropy_with_softmax(z, graph.label("kind", 2)), "newCe")
    graph.output(z, "newZ")
    trainer = Trainer(graph.finish(), "newCe", ADAM, engine=ReferenceEngine())
    for _ in range(5):
        trainer.train_minibatch({"x": X, "kind": classes(2)})
    return trainer.model


def test_what_is_frozen_stays_bit_equal(trained: Model) -> None:
    part = trained.clone("h", freeze=True)
    before = parameters(part)
    tuned = fine_tuned(part)
    after = parameters(tuned)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)
    first = {"new.W", "new.b"}
    assert set(after) == {*before, *first}
    assert after["new.b"].any()  # it began with zeros
    saved = tuned.clone("newZ")
    assert [node.name for node in saved.network.inputs] == ["x"]
    np.testing.assert_array_equal(saved.evaluate(X)["newZ"], tuned.evaluate({"x": X}, "newZ")["newZ"])


def test_freezing_ends_at_a_node(trained: Model) -> None:
    part = trained.clone("h", freeze="BatchNormalization")
    before, after = parameters(part), parameters(fine_tuned(part))
    same = {name for name in before if np.array_equal(before[name], after[name])}
    assert same == {name for name in before if not name.startswith("mid")}
    assert len(same) == 7


def test_statistics_that_were_given_stay_although_nothing_was_counted(trained: Model) -> None:
    trained.network["bn.runCount"].value = np.zeros((1,))
    part = trained.clone("h", freeze=True)
    before, after = parameters(part), parameters(fine_tuned(part))
    for name in ("bn.runMean", "bn.runVariance"):
        assert before[name].any()
        np.testing.assert_array_equal(after[name], before[name])


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        (("H1",), {}, "the network has no node 'H1'; did you mean 'h'?"),
        ((), {"freeze": "top.V"}, "the network has no node 'top.V'; did you mean 'top.W'?"),
        (("h",), {"freeze": "top.W"}, "the network has no node 'top.W'"),
        ((3,), {}, "3 is no node of the network\n    Give a node, a term of its graph, or a name."),
    ],
)
def test_mistakes(trained: Model, arguments: Any, named: Any, message: str) -> None:
    with pytest.raises(NetworkError) as error:
        trained.clone(*arguments, **named)
    assert str(error.value).startswith(message)


def test_what_people_see(trained: Model) -> None:
    assert repr(trained) == "<Model x, y -> z, 23 nodes>"
    html = trained._repr_html_()
    assert "<pre>x = InputValue () : [4 x *]\n" in html
    assert "\ntop.W = LearnableParameter () : [3 x 5]\n" in html
    assert html.count("<svg") == 1


def recurrent() -> Model:
    graph = Graph()
    graph.output(Dense(3)(Recurrence(LSTM(8))(graph.input("x", 4))), "z")
    return Model(graph.finish(), engine="cpu")


def evaluate_beside_each_other(models: list[Model], times: int) -> None:
    """Each thread has sequences of its own, of other lengths than the others have, and gets their values each time."""
    data = [[RANDOM.normal(size=(length, 4)) for length in range(1, count + 2)] for count in range(len(models))]
    wanted = [models[0].evaluate(one)["z"] for one in data]

    def evaluate(number: int) -> None:
        for _ in range(times):
            for found, expected in zip(models[number].evaluate(data[number])["z"], wanted[number], strict=True):
                np.testing.assert_array_equal(found, expected)

    with ThreadPoolExecutor(len(models)) as pool:
        list(pool.map(evaluate, range(len(models))))


def test_threads_share_a_model() -> None:
    evaluate_beside_each_other([recurrent()] * 8, 20)


def test_threads_have_models_of_one_network_and_copies() -> None:
    model = recurrent()
    evaluate_beside_each_other([model, Model(model.network, engine="cpu"), model.clone(), copy.deepcopy(model)] * 2, 10)


@pytest.mark.thorough  # they share one on the cpu, above, and the tests of that engine have several programs of it
@pytest.mark.slow
def test_threads_share_a_network_on_xla() -> None:
    model = recurrent()
    evaluate_beside_each_other([Model(model.network, engine="xla") for _ in range(4)], 10)
