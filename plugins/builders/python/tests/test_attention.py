"""Attention over whole sequences, and reductions of them: values against the formulas, sequence by sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cntk_builder_python import (
    Attention,
    Dense,
    Graph,
    LuongAttention,
    MultiHeadAttention,
    Recurrence,
    Term,
    positional_encoding,
    sequence,
    splice,
    squared_error,
    tanh,
)

from cntk_core.api import BuildError, Minibatch, ParameterStore, StreamData
from cntk_core.api.engines import make_plan, sequence_layout
from cntk_testing import ReferenceEngine, check_gradients
from cntk_testing.inside import pack, unpack

WORDS, STEPS = [3, 1, 4], [2, 5, 1]
"""Lengths of the sequences that are looked at, and of those that look."""


def values(lengths: list[int], width: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(length, width)) for length in lengths]


def stream(sequences: list[np.ndarray]) -> StreamData:
    layout = sequence_layout([len(each) for each in sequences])
    return StreamData(pack(sequences, layout), layout)


def run(graph: Graph, term: Term, **inputs: list[np.ndarray]) -> tuple[list[np.ndarray], Callable[[str], np.ndarray]]:
    """The value of a term, sequence by sequence, and a function that gives a parameter's."""
    network = graph.finish()
    store = ParameterStore(network.parameters, np.float64)
    program = ReferenceEngine().compile(make_plan(network, [term.node]), store)
    streams = {name: stream(each) for name, each in inputs.items()}
    program.evaluate(Minibatch(streams, streams["x"].layout.frames))
    found = unpack(program.value(term.node.name), program.layout(term.node.name))
    return found, lambda name: store.value(network[name])


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def both(graph: Graph) -> tuple[Term, Term]:
    return graph.input("e", 3, axis="source"), graph.input("x", 2)


E, X = values(WORDS, 3, 1), values(STEPS, 2, 2)


def test_additive_attention_to_whole_sequences():
    graph = Graph(np.float64)
    encoded, x = both(graph)
    found, value = run(graph, Attention(5, name="a")(encoded, x)(x), e=E, x=X)
    w, u, v = (value(f"a.{key}") for key in "WUv")
    scores = [np.tanh((e @ w)[None] + (x @ u)[:, None]) @ v.ravel() for e, x in zip(E, X, strict=True)]
    same(found, [softmax(each) @ e for each, e in zip(scores, E, strict=True)])


@pytest.mark.parametrize("units", [3, None])
def test_attention_by_products(units: int | None):
    graph = Graph(np.float64)
    encoded, x = both(graph)
    state = x if units else splice(x, x[0:1])
    found, value = run(graph, LuongAttention(units, name="a")(encoded)(state), e=E, x=X)
    states = [x @ value("a.W") if units else np.concatenate([x, x[:, :1]], axis=1) for x in X]
    same(found, [softmax(state @ e.T) @ e for state, e in zip(states, E, strict=True)])


def test_attention_in_a_loop_is_attention_step_by_step():
    graph = Graph(np.float64)
    encoded, x = both(graph)
    context, dense = LuongAttention(3, name="a")(encoded), Dense(4, tanh, name="d")
    h = Recurrence(lambda h, x: dense(splice(h, x, context(h))), initial_state=np.full(4, 0.3))(x)
    found, value = run(graph, h, e=E, x=X)
    expected = []
    for e, xs in zip(E, X, strict=True):
        states = [np.full(4, 0.3)]
        for row in xs:
            seen = softmax(states[-1] @ value("a.W") @ e.T) @ e
            states.append(np.tanh(np.concatenate([states[-1], row, seen]) @ value("d.W") + value("d.b")))
        expected.append(np.array(states[1:]))
    same(found, expected)


def of_heads(value: Any, x: np.ndarray, seen: np.ndarray, heads: int, *, causal: bool) -> np.ndarray:
    def part(key: str, rows: np.ndarray) -> np.ndarray:
        return rows @ value(f"m.{key}.W") + value(f"m.{key}.b")

    query, key, content = part("query", x), part("key", seen), part("value", seen)
    parts = []
    for own in np.split(np.arange(query.shape[1]), heads):
        scores = query[:, own] @ key[:, own].T / np.sqrt(len(own))
        if causal:
            scores[np.triu_indices(len(x), 1, len(seen))] = -np.inf
        parts.append(softmax(scores) @ content[:, own])
    return part("out", np.concatenate(parts, axis=1))


@pytest.mark.parametrize("causal", [True, False])
def test_several_heads_look_at_their_own_sequence(causal: bool):
    graph = Graph(np.float64)
    found, value = run(graph, MultiHeadAttention(6, 3, causal=causal, name="m")(graph.input("x", 2)), x=X)
    same(found, [of_heads(value, x, x, 3, causal=causal) for x in X])


def test_several_heads_look_at_other_sequences():
    graph = Graph(np.float64)
    encoded, x = both(graph)
    found, value = run(graph, MultiHeadAttention(4, 2, name="m")(x, encoded), e=E, x=X)
    same(found, [of_heads(value, x, e, 2, causal=False) for x, e in zip(X, E, strict=True)])


def test_a_layer_applied_twice_has_the_same_weights():
    graph = Graph(np.float64)
    heads, x = MultiHeadAttention(2, 1), graph.input("x", 2)
    heads(heads(x))
    assert sum(parameter.learned for parameter in graph.network.parameters) == 8


def test_positions():
    graph = Graph(np.float64)
    found, _ = run(graph, positional_encoding(graph.input("x", 2), 6, longest=100.0), x=X)
    expected = []
    for x in X:
        angles = np.arange(len(x))[:, None] / 100.0 ** (np.arange(0, 6, 2) / 6)
        expected.append(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))
    same(found, expected)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (sequence.reduce_sum, lambda x: x.sum(axis=0)),
        (sequence.reduce_mean, lambda x: x.mean(axis=0)),
        (sequence.reduce_max, lambda x: x.max(axis=0)),
        (lambda x: sequence.reduce(x, "Min"), lambda x: x.min(axis=0)),
        (lambda x: sequence.reduce(x, "Prod"), lambda x: x.prod(axis=0)),
        (lambda x: sequence.reduce(x, "LogSum"), lambda x: np.log(np.exp(x).sum(axis=0))),
        (lambda x: sequence.reduce(x, "Argmax"), lambda x: x.argmax(axis=0)),
        (lambda x: sequence.reduce(x, "Argmin"), lambda x: x.argmin(axis=0)),
        (lambda x: sequence.times(x, x[0:1]), lambda x: x[:, :1].T @ x),
    ],
)
def test_sequences_are_reduced(term: Callable[[Term], Term], expected: Callable[[np.ndarray], np.ndarray]):
    graph = Graph(np.float64)
    found, _ = run(graph, term(graph.input("x", 2)), x=X)
    same(found, [expected(x)[None] for x in X])


def test_shares_of_the_steps_of_a_sequence():
    graph = Graph(np.float64)
    found, _ = run(graph, sequence.softmax(graph.input("x", 2)), x=X)
    same(found, [softmax(x.T).T for x in X])


@pytest.mark.parametrize(
    "layer",
    [
        lambda e, x: Recurrence(lambda h, y: tanh(Dense(2, name="d")(splice(h, y, Attention(2, name="a")(e, x)(h)))))(
            x
        ),
        lambda e, x: MultiHeadAttention(2, 2)(x, e),
    ],
    ids=["in a loop", "heads"],
)
def test_gradients(layer: Callable[[Term, Term], Term]):
    graph = Graph(np.float64)
    encoded, x = both(graph)
    criterion = squared_error(layer(encoded, x), x)
    streams = {"e": stream(values([2, 1], 3, 3)), "x": stream(values([1, 3], 2, 4))}
    check_gradients(graph.finish(), criterion.node, Minibatch(streams, 4))


def test_what_does_not_fit():
    with pytest.raises(BuildError, match=r"^.*: 6 units cannot be parted among 4 heads$"):
        MultiHeadAttention(6, 4)
    with pytest.raises(BuildError, match=r"^.*: positions are told by pairs of waves, not by 5 numbers$"):
        positional_encoding(Graph().input("x", 2), 5)
