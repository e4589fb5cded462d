"""What is known of dynamic axes while a program runs: at its beginning, and after operations that make one."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from cntk_core.errors import DataError
from cntk_core.network.network import Network
from cntk_core.network.node import BATCH, Input, Node, Parameter
from cntk_core.ops.families.reshaping import LegacyReshapeAttributes
from cntk_core.ops.language.layouts import frame_layout, sequence_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.table import core_op
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Plan
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_engines.axes import Axes, stream_of, time_steps
from cntk_kit_engines.plan_values import ValueSizes, constants_of, contexts_of, elements_of
from cntk_kit_engines.stages import check_axes, meetings_of, stages_of


class Made:
    """A network of inputs, and nodes by operation and name."""

    def __init__(self, *inputs: Input) -> None:
        self.network = Network(np.float64)
        for one in inputs:
            self.network.add(one)

    def __call__(self, name: str, op: str, *inputs: str, attributes: Any = None) -> Node:
        found = core_op(op)
        nodes = [self.network[one] for one in inputs]
        return self.network.add(Node(name, found, nodes, found.attributes() if attributes is None else attributes))

    def plan(self, *roots: str) -> Plan:
        self.network.infer()
        return make_plan(self.network, [self.network[name] for name in roots])


def data(layout: SequenceLayout, dim: int = 1, rows: int | None = None) -> StreamData:
    return StreamData(np.zeros((layout.frames if rows is None else rows, dim)), layout)


def minibatch(**streams: StreamData) -> Minibatch:
    return Minibatch(streams, 1)


WORDS = sequence_layout([3, 1, 2])


def kinds() -> tuple[Plan, Made]:
    """Inputs of all kinds; frames of four numbers are cut into two, and some steps of the words are taken."""
    made = Made(
        Input.make("w", (1,), axis="words"),
        Input.make("x", (4,)),
        Input.make("s", (1,), axis=BATCH),
        Input.make("f", (1,), framed=False),
    )
    made("halves", "LegacyReshape", "x", attributes=LegacyReshapeAttributes(2))
    made("where", "Where", "w")
    made("index", "PackedIndex", "w", "where")
    made("taken", "GatherPacked", "index", "w")
    made("both", "Plus", "s", "f")
    return made.plan("halves", "taken", "both"), made


def given(**changes: StreamData) -> Minibatch:
    streams = {"w": data(WORDS), "x": data(frame_layout(5), 4), "s": data(frame_layout(3)), "f": data(frame_layout(1))}
    return minibatch(**{**streams, **changes})


def test_axes_of_inputs_and_what_follows_are_known_at_once() -> None:
    plan, made = kinds()
    axes = Axes(plan)
    assert (axes.frames, axes.begun) == ({}, 0)
    streams = axes.take(given())
    assert {node.name: stream.data.shape for node, stream in streams.items()} == {
        "w": (6, 1),
        "x": (5, 4),
        "s": (3, 1),
        "f": (1, 1),
    }
    assert axes.frames == {"words": 6, "": 5, BATCH: 3, "halves": 10}
    assert axes.layouts["words"] is WORDS
    assert axes.begun == 1
    rows = {node.name: axes.rows_for(node) for node in plan.network}
    assert rows == {"w": 6, "x": 5, "s": 3, "f": 1, "halves": 10, "where": 6, "index": -1, "taken": -1, "both": 3}
    axes.take(given(x=data(frame_layout(2), 4)))
    assert (axes.frames["halves"], axes.begun) == (4, 2)
    axes.make(made.network["where"], sequence_layout([2, 1]))
    assert (axes.frames["where"], axes.rows_for(made.network["taken"])) == (3, 3)


def test_an_axis_that_follows_from_one_that_is_made() -> None:
    made = Made(Input.make("w", (4,), axis="words"), Input.make("c", (1,), axis="words"))
    made("where", "Where", "c")
    made("index", "PackedIndex", "w", "where")
    made("taken", "GatherPacked", "index", "w")
    made("halves", "LegacyReshape", "taken", attributes=LegacyReshapeAttributes(2))
    plan = made.plan("halves")
    axes = Axes(plan)
    axes.take(minibatch(w=data(WORDS, 4), c=data(WORDS)))
    assert axes.frames == {"words": 6}
    axes.make(made.network["where"], frame_layout(3))
    assert axes.frames == {"words": 6, "where": 3, "halves": 6}
    assert [(stage.first, stage.end, stage.axes, stage.makes) for stage in stages_of(plan)] == [
        (0, 1, ("words",), made.network["where"]),
        (1, len(plan.steps), ("halves", "where", "words"), None),
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"s": data(WORDS)}, "the input 's' has the axes [batch], but its stream has sequences"),
        ({"f": data(frame_layout(3))}, "the input 'f' has no dynamic axis, but its stream has 3 frames"),
    ],
)
def test_inputs_without_sequences_are_given_none(changes: dict[str, StreamData], said: str) -> None:
    with pytest.raises(DataError) as caught:
        Axes(kinds()[0]).take(given(**changes))
    assert str(caught.value) == said


def test_streams_of_one_axis_are_equally_long() -> None:
    made = Made(Input.make("a", (1,)), Input.make("b", (1,)))
    made("sum", "Plus", "a", "b")
    axes = Axes(made.plan("sum"))
    with pytest.raises(DataError) as caught:
        axes.take(minibatch(a=data(frame_layout(3)), b=data(frame_layout(2))))
    assert str(caught.value) == ("the streams of one minibatch differ in length: 'b' has 2 frames, another has 3")


def test_streams_by_name_without_case() -> None:
    one, two = data(frame_layout(1)), data(frame_layout(2))
    node = Input.make("Features", (1,))
    assert stream_of(minibatch(features=one, Features=two), node) is two
    assert stream_of(minibatch(x=two, FEATURES=one), node) is one
    with pytest.raises(DataError) as caught:
        stream_of(minibatch(x=one, y=two), node)
    assert str(caught.value) == "the minibatch has no stream for the input 'Features'\n    Streams: x, y"


def test_the_longest_sequences_and_the_number_of_samples() -> None:
    plan, _ = kinds()
    axes = Axes(plan)
    axes.take(given(s=data(frame_layout(0))))
    assert axes.longest(["words", "", "nowhere"]) == {"words": 3, "": 1}
    assert axes.longest(["\0words", "\0", f"\0{BATCH}"]) == {"\0words": 6, "\0": 5, f"\0{BATCH}": 1}
    assert set(axes.longest()) == {*axes.layouts, *(f"\0{axis}" for axis in axes.layouts)}


def test_contexts_have_the_sequences_of_a_node_and_of_its_inputs() -> None:
    plan, made = kinds()
    axes = Axes(plan)
    axes.take(given())
    context = OpContext((True, False), 3)
    axes.place(context, made.network["both"])
    assert context.layouts == (axes.layouts[BATCH], None)
    assert context.layout is axes.layouts[BATCH]
    axes.place(context, made.network["where"])  # what it makes is not known before
    assert context.layouts == (WORDS,)
    assert context.layout is WORDS
    axes.place(context, made.network["halves"])
    assert context.layouts == (axes.layouts[""],)
    assert context.layout is axes.layouts["halves"]


@pytest.mark.parametrize(("direction", "found"), [(1, [(0, 3), (3, 5), (5, 6)]), (-1, [(5, 6), (3, 5), (0, 3)])])
def test_rows_of_time_steps(direction: int, found: list[tuple[int, int]]) -> None:
    assert [(rows.start, rows.stop) for rows in time_steps(WORDS, direction)] == found


def test_a_plan_is_cut_where_an_axis_is_made() -> None:
    plan, made = kinds()
    first, last = stages_of(plan)
    place = next(index for index, step in enumerate(plan.steps) if step.nodes[0].name == "where")
    assert (first.first, first.end, last.first, last.end) == (0, place + 1, place + 1, len(plan.steps))
    assert first.axes == tuple(sorted(["words", "", BATCH, "halves"]))
    assert last.axes == tuple(sorted([*first.axes, "where"]))
    assert (first.makes, last.makes) == (made.network["where"], None)


def test_axes_that_meet_have_the_same_sequences() -> None:
    made = Made(Input.make("x", (1,), axis="text"), Input.make("y", (1,)))
    made("where", "Where", "x")
    made("index", "PackedIndex", "x", "where")
    made("last", "GatherPacked", "index", "x")
    both = made("both", "Plus", "last", "y")
    meetings = meetings_of(made.plan("both"))
    assert meetings == ((both, (made.network["last"], made.network["y"])),)
    check_axes(meetings, {"where": sequence_layout([2, 1]), "": sequence_layout([2, 1])})
    with pytest.raises(DataError) as caught:
        check_axes(meetings, {"where": sequence_layout([2, 1]), "": sequence_layout([1, 2])})
    assert str(caught.value).splitlines()[0] == "Plus 'both': the sequences of 'last' and 'y' differ in length"


def test_contexts_constants_and_sizes() -> None:
    plan, made = kinds()
    axes = Axes(plan)
    axes.take(given())
    contexts = contexts_of(plan, axes)
    assert {node.name: (one.framed, one.frames) for node, one in contexts.items()} == {
        "halves": ((True,), 10),
        "where": ((True,), 6),
        "both": ((True, False), 3),
    }
    constant = made.network.add(Node("c", core_op("Plus"), [], value=np.arange(6, dtype=np.float32)))
    constant.shape = (2, 3)
    made.network.add(Parameter.make("P", (2,), value=np.zeros(2)))
    (found,) = constants_of(attrs.evolve(plan, network=made.network), np.float64).items()
    assert found[0] is constant
    assert (found[1].dtype, found[1].tolist()) == (np.float64, [[0, 1, 2], [3, 4, 5]])
    sizes = ValueSizes()
    sizes.frames, sizes.longest = axes.frames, {}
    x, fixed = made.network["x"], made.network["f"]
    assert (elements_of(x), sizes.rows(x), sizes.shape(x)) == (4, 5, (5, 4))
    assert (elements_of(fixed), sizes.rows(fixed), sizes.shape(fixed)) == (1, 1, (1,))
