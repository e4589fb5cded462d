"""Recurrent layers: gradients, and values against the formulas step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cntk_builder_python import (
    GRU,
    LSTM,
    Attention,
    BiRecurrence,
    Delay,
    Dense,
    Embedding,
    Fold,
    For,
    Graph,
    Recurrence,
    RecurrenceFrom,
    RecurrentLSTMLayer,
    RecurrentLSTMLayerStack,
    RNNStep,
    Sequential,
    Stabilizer,
    Term,
    cross_entropy_with_softmax,
    sequence,
    splice,
    squared_error,
    tanh,
)
from cntk_builder_python.recurrence import state_names

from cntk_core.api import CntkError, Minibatch, ParameterStore, StreamData
from cntk_core.api.engines import make_plan, sequence_layout
from cntk_testing import ReferenceEngine, check_gradients

LENGTHS = ([2, 0, 1], pytest.param([3, 1, 4], marks=pytest.mark.slow))


def batch(lengths: list[int], **widths: int) -> Minibatch:
    random = np.random.default_rng(sum(lengths))
    layout = sequence_layout(lengths)
    return Minibatch(
        {name: StreamData(random.standard_normal((layout.frames, width)), layout) for name, width in widths.items()},
        layout.frames,
    )


def evaluate(graph: Graph, term: Term, data: Minibatch) -> tuple[Any, ParameterStore]:
    network = graph.finish()
    for number, parameter in enumerate(network.parameters):
        if not parameter.value.any():  # biases that are not zero make the formulas tell more
            parameter.value = np.random.default_rng(number).standard_normal(parameter.shape) * parameter.learned
    store = ParameterStore(network.parameters, np.float64)
    program = ReferenceEngine().compile(make_plan(network, [term.node]), store)
    program.evaluate(data)
    return program.value(term.node.name), store


def sigma(x):
    return 1 / (1 + np.exp(-x))


def learned_start(x: Term) -> Term:
    return Recurrence(GRU(2), initial_state="learned")(x)


def from_encoder(x: Term) -> Term:
    h, c = Fold(LSTM(2), return_full_state=True)(x)
    return RecurrenceFrom(LSTM(2))(h, c, x)


def attending(x: Term) -> Term:
    encoded = Recurrence(LSTM(2))(x)
    lstm, context = LSTM(2), Attention(2, 2, enable_self_stabilization=True)(encoded, x)
    return Recurrence(lambda h, c, x: lstm(h, c, x, context(h)))(x)


def own_step(x: Term) -> Term:
    dense = Dense(2)
    return Recurrence(lambda h, x: tanh(dense(splice(h, x))), initial_state=np.array([0.1, -0.2]))(x)


MODELS: dict[str, Callable[[Term], Term]] = {
    "rnn": Recurrence(RNNStep(2)),
    "rnn projected, stabilized": Recurrence(RNNStep(2, 3, activation=tanh, enable_self_stabilization=True)),
    "lstm": Recurrence(LSTM(2), initial_state=0.1),
    "lstm with everything": RecurrentLSTMLayer(
        1, 2, go_backwards=True, use_peepholes=True, train_initial_state=True, enable_self_stabilization=True
    ),
    "gru": Recurrence(GRU(2), go_backwards=True),
    "gru stabilized": Recurrence(GRU(2, enable_self_stabilization=True)),
    "bidirectional": BiRecurrence(LSTM(2), GRU(2)),
    "stack": RecurrentLSTMLayerStack((2, 1), (2, 3)),
    "for": For(range(2), lambda i: Recurrence(RNNStep(2 + i))),
    "delays": Sequential(Dense(2), lambda x: splice(Delay(2, 0.5)(x), x, Delay(-1)(x))),
    "learned start": learned_start,
    "from an encoder": from_encoder,
    "attention": attending,
    "own step": own_step,
    "reverse": Sequential(Dense(2), sequence.reverse, Recurrence(RNNStep(2))),
    "held": lambda x: sequence.broadcast_as(Fold(RNNStep(2), go_backwards=True)(x), x) * Dense(2)(x),
    "scattered": Sequential(Dense(2), lambda x: sequence.scatter(sequence.first(x), sequence.is_last(x))),
}


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.thinned(2)
@pytest.mark.sampled(8)
def test_gradients(name: str, lengths: list[int]):
    graph = Graph(np.float64)
    z = Dense(2)(MODELS[name](graph.input("x", 2)))
    criterion = graph.criterion(cross_entropy_with_softmax(z, graph.label("y", 2)), "ce")
    network = graph.finish()
    data = batch(lengths, x=2, y=2)
    labels = data.streams["y"].data
    labels[...] = np.abs(labels) / np.abs(labels).sum(axis=1, keepdims=True)  # the gradient takes them to sum to 1
    check_gradients(network, criterion.node, data)


def test_lstm_is_the_formula():
    graph = Graph(np.float64)
    h = Recurrence(LSTM(2, 3, use_peepholes=True, name="cell"), initial_state=0.25)(graph.input("x", 2))
    data = batch([4], x=2)
    found, store = evaluate(graph, h, data)
    weights = {key: store.value(graph.network[f"cell.{key}"]) for key in ("W", "H", "B", "Ci", "Cf", "Co", "Wmr")}
    dh, dc = np.full(2, 0.25), np.full(3, 0.25)
    for x, row in zip(data.streams["x"].data, found, strict=True):
        i, candidate, f, o = np.split(weights["B"] + x @ weights["W"] + dh @ weights["H"], 4)
        c = sigma(f + weights["Cf"] * dc) * dc + sigma(i + weights["Ci"] * dc) * np.tanh(candidate)
        dh, dc = sigma(o + weights["Co"] * c) * np.tanh(c) @ weights["Wmr"], c
        np.testing.assert_allclose(row, dh, rtol=1e-12)


def test_gru_is_the_formula():
    graph = Graph(np.float64)
    h = Recurrence(GRU(3, name="cell"), go_backwards=True)(graph.input("x", 2))
    data = batch([4], x=2)
    found, store = evaluate(graph, h, data)
    weights = {key: store.value(graph.network[f"cell.{key}"]) for key in ("W", "H", "H1", "B")}
    dh = np.zeros(3)
    for x, row in zip(data.streams["x"].data[::-1], found[::-1], strict=True):
        z, r, candidate = np.split(weights["B"] + x @ weights["W"], 3)
        by_state = np.split(dh @ weights["H"], 2)
        z, r = sigma(z + by_state[0]), sigma(r + by_state[1])
        dh = (1 - z) * np.tanh(candidate + (dh * r) @ weights["H1"]) + z * dh
        np.testing.assert_allclose(row, dh, rtol=1e-12)


def test_rnn_is_the_formula():
    graph = Graph(np.float64)
    h = Recurrence(RNNStep(3, name="cell"))(graph.input("x", 2))
    data = batch([4], x=2)
    found, store = evaluate(graph, h, data)
    w, h_, b = (store.value(graph.network[f"cell.{key}"]) for key in ("W", "H", "B"))
    dh = np.zeros(3)
    for x, row in zip(data.streams["x"].data, found, strict=True):
        dh = sigma(b + x @ w + dh @ h_)
        np.testing.assert_allclose(row, dh, rtol=1e-12)


def test_attention_is_the_formula():
    """Of an encoder with three steps in a window of four: the fourth counts for nothing."""
    graph = Graph(np.float64)
    encoded, x = graph.input("e", 3, axis="source"), graph.input("x", 2)
    context = Attention(5, 4, name="a")(encoded, x)(x)
    data = Minibatch({**batch([3], e=3).streams, **batch([2], x=2).streams}, 2)
    found, store = evaluate(graph, context, data)
    w, u, v = (store.value(graph.network[f"a.{key}"]) for key in "WUv")
    e = data.streams["e"].data
    for x, row in zip(data.streams["x"].data, found, strict=True):
        scores = np.exp(np.tanh(e @ w + x @ u) @ v)
        np.testing.assert_allclose(row, (scores / scores.sum() * e).sum(axis=0), rtol=1e-9)


def test_parts_of_sequences():
    graph = Graph(np.float64)
    x = graph.input("x", 1)
    roots = {
        "first": sequence.first(x),
        "last": sequence.last(x),
        "reverse": sequence.reverse(x),
        "before": sequence.past_value(x, 9.0),
        "after": sequence.future_value(x, 9.0, 2),
        "everywhere": sequence.broadcast_as(sequence.last(x), x),
    }
    roots["unpacked"], roots["there"] = sequence.unpack(x, -1.0)
    roots["packed"] = sequence.to_sequence_like(roots["unpacked"] * 2.0, x)
    roots["padded"] = sequence.to_sequence(roots["unpacked"])
    roots["ones"] = sequence.to_sequence(roots["unpacked"], sequence.first(x) * 0.0 + 1.0)
    network = graph.finish()
    program = ReferenceEngine().compile(
        make_plan(network, [term.node for term in roots.values()]), ParameterStore(network.parameters, np.float64)
    )
    layout = sequence_layout([3, 1])  # packed: a0 b0 a1 a2
    program.evaluate(Minibatch({"x": StreamData(np.array([[1.0], [5], [2], [3]]), layout)}, 4))
    found = {name: program.value(term.node.name).ravel().tolist() for name, term in roots.items()}
    assert found == {
        "first": [1, 5],
        "last": [3, 5],
        "reverse": [3, 5, 2, 1],
        "before": [9, 9, 1, 2],
        "after": [3, 9, 9, 9],
        "everywhere": [3, 5, 3, 3],
        "unpacked": [1, 2, 3, 5, -1, -1],
        "there": [1, 1, 1, 1, 0, 0],
        "packed": [2, 10, 4, 6],
        "padded": [1, 5, 2, -1, 3, -1],
        "ones": [1, 5],
    }


def test_a_recurrence_applied_twice_shares_its_parameters():
    graph = Graph()
    layer = RecurrentLSTMLayer(3, train_initial_state=True, name="l")
    layer(layer(graph.input("x", 3)))
    names = ["l.previousHook.initialH", "l.previousHook.initialC", "l.lstm.B", "l.lstm.W", "l.lstm.H"]
    assert [parameter.name for parameter in graph.network.parameters] == names


def test_a_layer_in_another_graph_makes_its_parameters_there():
    model = Sequential(Embedding(3), BiRecurrence(GRU(2, enable_self_stabilization=True), LSTM(2)), Stabilizer())
    first, second = Graph(), Graph()
    for graph in (first, second):
        graph.output(model(graph.input("x", 3)), "z")
    names = [[node.name for node in graph.finish()] for graph in (first, second)]
    assert names[0] == names[1]
    assert not set(first.network) & set(second.network)


def test_an_embedding_with_given_vectors_does_not_learn():
    graph = Graph()
    vectors = np.arange(6.0).reshape(3, 2)
    Embedding(weights=vectors)(graph.input("x", 3, sparse=True))
    (embedding,) = graph.finish().parameters
    assert (embedding.name, embedding.learned) == ("embedding.E", False)
    np.testing.assert_array_equal(embedding.value, vectors)


def test_states_are_the_parameters_that_have_to_be_given():
    def step(h: Any, c: Any, x: Any, gain: float = 1.0, *, scale: Any) -> Any:
        return h, c

    assert state_names(step) == ("h", "c")


def one_step(graph: Graph, **how: Any) -> Any:
    return Recurrence(LSTM(3), **how)(graph.input("x", 2))


def not_closed(graph: Graph) -> None:
    squared_error(graph.input("x", 2), graph.feedback(name="before"))
    graph.finish()


def closed_twice(graph: Graph) -> None:
    before = graph.feedback(name="before")
    h = before.resolve_to(graph.input("x", 2) + before)
    before.resolve_to(h)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda graph: one_step(graph, initial_state=(0.0,)), "1 initial states for 2 states (h, c)"),
        (
            lambda graph: one_step(graph, initial_state="zero"),
            "'zero' is no initial state\n    It is a number, an array, a term, \"learned\", or a tuple of these.",
        ),
        (
            lambda graph: Recurrence(lambda h, x: (h, x))(graph.input("x", 2)),
            "2 results of the step function for 1 state (h)",
        ),
        (
            lambda graph: Recurrence(lambda x: x),
            "a step function takes one or more states and the input, not (x)\n"
            "    For example: lambda h, x: tanh(dense(splice(h, x)))",
        ),
        (
            not_closed,
            "the loop through 'before' is not closed\n    Say with resolve_to(term) what it is a delay of.",
        ),
        (closed_twice, "the loop through 'before' is closed already: it is the delay of 'Plus'"),
        (lambda graph: graph.feedback(0), "a loop needs a time step other than 0"),
        (
            lambda graph: graph.input("x", 2)[::2],
            "a part of a term is a range without a step, such as x[0:10]\n    For one element write x[3:4].",
        ),
        (
            lambda graph: graph.parameter((0, 3), init=np.zeros((2, 4))),
            "first values of shape (2, 4) do not fit a parameter (0, 3)",
        ),
    ],
)
def test_mistakes(mistake: Callable[[Graph], object], message: str):
    with pytest.raises(CntkError) as error:
        mistake(Graph())
    assert error.value.where is not None
    assert error.value.where.file == __file__
    assert str(error.value) == f"{error.value.where}: {message}"


def test_cells_that_would_share_parameters():
    cell = GRU(3)
    with pytest.raises(TypeError, match="BiRecurrence needs two cells"):
        BiRecurrence(cell, cell)


def test_a_term_is_not_iterated_over():
    with pytest.raises(TypeError, match="a term cannot be iterated over"):
        list(Graph().input("x", 2))


def test_widths_that_do_not_fit_are_told_with_the_line():
    graph = Graph()
    Recurrence(lambda h, x: h + x, initial_state=np.zeros(3))(graph.input("x", 2))
    with pytest.raises(CntkError) as error:
        graph.finish()
    assert "the initial state [3] does not fit the value [2]" in str(error.value)
