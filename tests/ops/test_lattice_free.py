"""LatticeFreeMMI against all paths of a small graph, one by one, and against finite differences."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.lattice_free import LATTICE_FREE_MMI, LatticeFreeAttributes, read_graph
from cntk_core.ops.language.framing import run_forward
from cntk_core.ops.language.layouts import sequence_layout, slot_layout
from cntk_core.ops.language.op import OpContext
from cntk_testing.gradients import check_op_gradients

CLASSES = 4
GRAPH = """
# two states have the same class
start 0 0.75
start 1 0.25
class 0 2
class 1 0
class 2 2
arc 0 0 0.5
arc 0 1 0.5
arc 1 2 0.25
arc 1 1 0.75
arc 2 0 1
"""
LAYOUTS = {
    "whole": sequence_layout([3, 1, 4]),
    "several to a slot": slot_layout([[2, 3], [1]]),
    "nothing": sequence_layout([0]),
}


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "den.graph"
    path.write_text(GRAPH)
    return str(path)


def context_of(layout: Any) -> OpContext:
    return OpContext((True, True), layout.frames, layout=layout, layouts=(layout, layout))


def values(layout: Any) -> list[Any]:
    rng = np.random.default_rng(4)
    labels = np.eye(CLASSES)[rng.integers(CLASSES, size=layout.frames)]
    return [labels, 2.0 * rng.normal(size=(layout.frames, CLASSES))]


def sequences(layout: Any) -> list[Any]:
    from cntk_core.ops.families.ctc import sequences_of

    return sequences_of(context_of(layout))


def mass(path: str, scores: Any, leak: float) -> float:
    """Of all paths; from each state each other may come by a leak behind each frame."""
    graph = read_graph(path)
    steps = np.eye(len(graph.start)) + leak * graph.start
    total = 0.0
    for states in product(range(len(graph.start)), repeat=len(scores)):
        chance = graph.start[states[0]]
        for before, after in pairwise(states):
            chance *= steps[before] @ graph.arcs[:, after]
        chance *= steps[states[-1]].sum()
        total += chance * np.exp(sum(scores[t, graph.classes[state]] for t, state in enumerate(states)))
    return float(total)


@pytest.mark.parametrize("leak", [0.0, 0.1])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_value_is_that_of_all_paths(graph, name, leak):
    labels, scores = values(LAYOUTS[name])
    expected = 0.0
    for rows in sequences(LAYOUTS[name]):
        spoken = scores[rows][labels[rows] > 0].sum()
        expected += np.log(mass(graph, scores[rows], leak)) - spoken
    attributes = LatticeFreeAttributes(graph, leak)
    found = run_forward(LATTICE_FREE_MMI, np, [labels, scores], attributes, context_of(LAYOUTS[name]))
    np.testing.assert_allclose(found, [expected], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", LAYOUTS)
def test_gradients(graph, name):
    layout = LAYOUTS[name]
    attributes = LatticeFreeAttributes(graph, 0.05)
    check_op_gradients(LATTICE_FREE_MMI, values(layout), (True, True), attributes, context=lambda: context_of(layout))


def test_large_scores_do_not_overflow(graph):
    labels, scores = values(LAYOUTS["whole"])
    context = context_of(LAYOUTS["whole"])
    found = run_forward(LATTICE_FREE_MMI, np, [labels, 1e4 * scores], LatticeFreeAttributes(graph), context)
    assert np.isfinite(found).all()


MISTAKES = {
    "word": ("hello 1 2", ":14: 'hello 1 2' is no line of a graph"),
    "words": ("arc 0 1", ":14: 'arc 0 1' is no line of a graph"),
    "more words": ("start 0 0.5 0.5", ":14: 'start 0 0.5 0.5' is no line of a graph"),
    "name": ("start one 0.5", ":14: 'start one 0.5' is no line of a graph"),
    "class": ("class 3 two", ":14: 'class 3 two' is no line of a graph"),
    "nothing": ("arc 0 1 0", ":14: 'arc 0 1 0' is no line of a graph"),
    "chance": ("arc 0 1 2", ":14: 'arc 0 1 2' is no line of a graph"),
    "state": ("arc 0 7 0.5", ": the states of the graph are not 0, 1, 2, ... with a class each, or none is a start"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_of_graphs(graph, name):
    line, message = MISTAKES[name]
    Path(graph).write_text(GRAPH + "\n" + line)
    with pytest.raises(DataError) as caught:
        read_graph(graph)
    assert caught.value.message == graph + message


def test_a_class_that_is_not_there(graph):
    layout = LAYOUTS["whole"]
    inputs = [one[:, :2] for one in values(layout)]
    with pytest.raises(DataError) as caught:
        run_forward(LATTICE_FREE_MMI, np, inputs, LatticeFreeAttributes(graph), context_of(layout))
    assert caught.value.message == "LatticeFreeMMI: the graph has the class 2, and there are 2 scores"


def test_no_graph(tmp_path):
    with pytest.raises(DataError) as caught:
        read_graph(str(tmp_path / "none"))
    assert caught.value.message == (
        f"LatticeFreeMMI: cannot read the graph '{tmp_path}/none': no such file or directory"
    )
    for attributes, message in (
        (LatticeFreeAttributes(), "graphFile is missing"),
        (LatticeFreeAttributes("x", 1.0), "leakyCoefficient must be at least 0 and below 1, not 1"),
    ):
        with pytest.raises(ShapeError) as wrong:
            LATTICE_FREE_MMI.infer(((3,), (3,)), attributes)
        assert wrong.value.message == message
