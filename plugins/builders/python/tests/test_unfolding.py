"""Loops of unknown length, in a network and around one."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_python import Graph, UnfoldFrom, hardmax, sequence, tanh, unfold

from cntk_core.api import BuildError, DataError
from cntk_testing.inside import Model

LIKE = [np.zeros((4, 1)), np.zeros((2, 1)), np.zeros((6, 1))]


def counted(graph, **options):
    like = graph.input("like", 1)
    return UnfoldFrom(lambda s: s + 1.0, **options)(0.0, like)


def evaluated(graph, z, data):
    graph.output(z, "z")
    return [rows.ravel().tolist() for rows in Model(graph.finish()).evaluate(data)["z"]]


def test_a_sequence_has_the_length_of_another():
    graph = Graph(np.float64)
    assert evaluated(graph, counted(graph), {"like": LIKE}) == [[1, 2, 3, 4], [1, 2], [1, 2, 3, 4, 5, 6]]


@pytest.mark.parametrize(("increase", "lengths"), [(2, [8, 4, 12]), (1.5, [6, 3, 9]), (0.5, [2, 1, 3])])
def test_it_may_be_longer_or_shorter(increase, lengths):
    graph = Graph(np.float64)
    found = evaluated(graph, counted(graph, length_increase=increase), {"like": LIKE})
    assert found == [[float(n + 1) for n in range(length)] for length in lengths]


def test_it_ends_when_the_predicate_holds():
    graph = Graph(np.float64)
    z = counted(graph, until_predicate=lambda s: graph.apply("GreaterEqual", s, 3.0))
    assert evaluated(graph, z, {"like": LIKE}) == [[1, 2, 3], [1, 2], [1, 2, 3]]


def test_each_sequence_begins_with_a_state_of_its_own():
    graph = Graph(np.float64)
    x = graph.input("x", 1)
    z = UnfoldFrom(lambda s: s + s, until_predicate=lambda s: graph.apply("Greater", s, 10.0))(sequence.last(x), x)
    found = evaluated(graph, z, {"x": [np.array([[0.0], [0.0], [3.0]]), np.array([[0.0], [7.0]])]})
    assert found == [[6, 12], [14]]


def test_what_is_emitted_may_be_none_of_several_states():
    graph = Graph(np.float64)
    z = UnfoldFrom(lambda a, b: (a * 10.0, b, a + b))((1.0, 1.0), graph.input("like", 1))
    assert evaluated(graph, z, {"like": LIKE[:2]}) == [[10, 10, 20, 30], [10, 10]]


def test_a_generator_gives_as_many_values_as_there_are_states():
    graph = Graph()
    with pytest.raises(BuildError) as caught:
        UnfoldFrom(lambda s: (s, s, s))(0.0, graph.input("like", 1))
    assert caught.value.message == "the generator of UnfoldFrom gave 3 values for 1 states"


def decoder(graph, previous, hidden):
    """One step of a decoder of words 0 to 4: the next word and the next hidden state."""
    rng = np.random.default_rng(3)
    weights = [graph.parameter(shape, init=rng.normal(size=shape), name="W") for shape in ((5, 8), (8, 8), (8, 5))]
    state = tanh(previous @ weights[0] + hidden @ weights[1])
    return hardmax(state @ weights[2]), state


def test_a_greedy_decoder_gives_the_same_as_one_loop_and_step_by_step():
    rng = np.random.default_rng(4)
    thoughts, first = rng.normal(size=(6, 8)), np.tile(np.eye(5)[0], (6, 1))
    graph = Graph(np.float64)
    x = graph.input("thought", 8)
    loop = UnfoldFrom(
        lambda word, hidden: decoder(graph, word, hidden), until_predicate=lambda word: word[4:5], length_increase=9
    )((np.eye(5)[0], sequence.first(x)), x)
    graph.output(loop, "words")
    expected = Model(graph.finish()).evaluate({"thought": list(thoughts[:, None])})["words"]

    graph = Graph(np.float64)
    word, hidden = decoder(graph, graph.input("previous", 5), graph.input("hidden", 8))
    graph.output(word, "word")
    graph.output(hidden, "next")
    model, rows = Model(graph.finish()), []

    def evaluate(data):
        rows.append(len(data["previous"][0]))
        return model.evaluate(data)

    found = unfold(
        evaluate,
        {"previous": first, "hidden": thoughts},
        {"previous": "word", "hidden": "next"},
        step="word",
        until=lambda words: words[:, 4] == 1,
        most=9,
    )
    assert len({len(each) for each in found}) > 1
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    # Sequences that have ended are not computed any more.
    assert rows == [sum(len(each) > step for each in found) for step in range(max(map(len, found)))]


def test_what_stays_the_same_goes_with_its_sequence():
    def evaluate(data):
        return {"y": [data["s"][0] + data["c"][0]]}

    found = unfold(
        evaluate,
        {"s": np.zeros((2, 1))},
        {"s": "y"},
        step="y",
        until=lambda y: y >= 4,
        most=5,
        given={"c": np.array([[2.0], [1.0]])},
    )
    assert [each.ravel().tolist() for each in found] == [[2, 4], [1, 2, 3, 4]]
    assert unfold(evaluate, {"s": np.zeros((0, 1))}, {"s": "y"}, step="y", until=np.any, most=3) == []


def test_states_have_to_fit():
    def evaluate(data):
        raise AssertionError

    with pytest.raises(DataError) as caught:
        unfold(evaluate, {"s": np.zeros((2, 1))}, {}, step="y", until=np.any, most=5)
    assert caught.value.message == "no output is the next state of 's'"
    with pytest.raises(DataError) as caught:
        unfold(
            evaluate,
            {"s": np.zeros((2, 1))},
            {"s": "y"},
            step="y",
            until=np.any,
            most=5,
            given={"c": np.zeros((3, 1))},
        )
    assert caught.value.message == "the inputs have different numbers of sequences: {'c': 3, 's': 2}"
