"""Ops that change the number of frames or take another dynamic axis, and ops that keep values over minibatches."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CntkError, DataError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.monitoring import EPOCH_ACCUMULATOR, TRACE, TraceAttributes
from cntk_core.ops.families.reshaping import LegacyReshapeAttributes
from cntk_core.ops.families.sequences import RECONCILE_DYNAMIC_AXIS
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import frame_layout, sequence_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.reference import ReferenceEngine

TABLE = core_ops()


def reshaping(rows: int, *, framed: bool = True) -> Network:
    network = Network(np.float64)

    def node(name: str, op: str, *inputs: Node, attributes: object = None) -> Node:
        found = TABLE.find("", op)
        assert found is not None
        return network.add(Node(name, found, list(inputs), attributes or found.attributes()))

    weight = network.add(Parameter.make("p", (4,), value=np.arange(1.0, 5.0)))
    source = node("pa", "ElementTimes", weight, network.add(Input.make("a", (4,)))) if framed else weight
    y = node("y", "LegacyReshape", source, attributes=LegacyReshapeAttributes(rows))
    node("cr", "SumElements", node("yy", "ElementTimes", y, y))
    return network


def run(network: Network, layout: SequenceLayout) -> tuple[np.ndarray, np.ndarray, SequenceLayout]:
    network.infer()
    store = ParameterStore(network.parameters, network.dtype)
    data = np.arange(1.0, 1.0 + 4 * layout.frames).reshape(-1, 4)
    plan = make_plan(network, [network["y"], network["cr"]], network["cr"])
    program = ReferenceEngine().compile(plan, store)
    program.compute_gradients(Minibatch({"a": StreamData(data, layout)}, layout.frames))
    return program.value("y"), store.gradient(network.parameters[0]).copy(), program.layout("y")


@pytest.mark.parametrize(("rows", "frames"), [(2, 6), (4, 3), (12, 1), (1, 12)])
def test_a_reshape_that_changes_the_number_of_frames(rows, frames):
    network = reshaping(rows)
    value, gradient, layout = run(network, frame_layout(3))
    data = np.arange(1.0, 13.0).reshape(3, 4)
    np.testing.assert_array_equal(value, (data * np.arange(1.0, 5.0)).reshape(frames, rows))
    np.testing.assert_allclose(gradient, (2.0 * data**2 * np.arange(1.0, 5.0)).sum(axis=0))
    assert layout.frames == frames
    assert network["y"].axis == ("" if rows == 4 else "y")


@pytest.mark.parametrize(
    ("rows", "layout", "text"),
    [
        (
            2,
            sequence_layout([2, 1]),
            "LegacyReshape 'y': Reshape to another number of frames works on single frames, not on sequences\n"
            "    Read the data frame by frame.",
        ),
        (
            8,
            frame_layout(3),
            "LegacyReshape 'y': 3 frames of 4 elements do not fill frames of 8 elements",
        ),
    ],
)
def test_frames_that_cannot_be_made(rows, layout, text):
    with pytest.raises(CntkError) as error:
        run(reshaping(rows), layout)
    assert str(error.value) == text


def test_a_parameter_has_no_frames_to_change():
    with pytest.raises(CntkError) as error:
        reshaping(2, framed=False).infer()
    assert str(error.value) == "LegacyReshape 'y' changes the number of frames, but its input 'p' has none"


# -- another axis -------------------------------------------------------------------------------------------


def reconciled(first: SequenceLayout, second: SequenceLayout) -> tuple[np.ndarray, np.ndarray]:
    values, like = np.arange(1.0, first.frames + 1.0)[:, None], np.zeros((second.frames, 1))
    context = OpContext((True, True), second.frames, layout=second, layouts=(first, second))
    output = run_forward(RECONCILE_DYNAMIC_AXIS, np, [values, like], None, context)
    found = run_gradient(
        RECONCILE_DYNAMIC_AXIS, np, np.ones_like(output), output, [values, like], None, context, [True, False]
    )
    return output[:, 0], found[0][:, 0]


def test_equal_layouts_keep_the_rows():
    first = sequence_layout([3, 2])
    second = SequenceLayout([3, 2], [2, 2, 1], [0, 2, 4], [0, 1], [[0, 0], [1, 0]])
    output, gradient = reconciled(first, second)
    np.testing.assert_array_equal(output, np.arange(1.0, 6.0))
    np.testing.assert_array_equal(gradient, 1.0)


def test_a_single_frame_is_repeated_over_its_sequence():
    output, gradient = reconciled(sequence_layout([1, 1]), sequence_layout([2, 3]))
    # The longer second sequence stands first: steps 2 1 | 2 1 | 2.
    np.testing.assert_array_equal(output, [2.0, 1.0, 2.0, 1.0, 2.0])
    np.testing.assert_array_equal(gradient, [2.0, 3.0])


def test_sequences_of_other_lengths_are_refused():
    with pytest.raises(DataError) as error:
        reconciled(sequence_layout([2, 2]), sequence_layout([3, 2]))
    assert str(error.value) == "ReconcileDynamicAxis: a sequence has 2 frames on one axis and 3 on the other"


# -- over minibatches ---------------------------------------------------------------------------------------


def test_the_mean_of_an_epoch_so_far():
    carried: dict[str, object] = {}
    found = []
    for values in ([1.0, 2.0], [6.0]):
        context = OpContext((True,), len(values), carried=carried)
        found.append(float(run_forward(EPOCH_ACCUMULATOR, np, [np.array(values)[:, None]], None, context)[0]))
    assert found == [1.5, 3.0]


def test_trace_logs_the_first_minibatches_and_now_and_then(capsys):
    carried: dict[str, object] = {}
    attributes = TraceAttributes("h", log_frequency=4, log_first=2, log_gradient_too=True, only_up_to_row=1)
    for number in range(1, 9):
        context = OpContext((True,), 1, carried=carried)
        value = np.array([[number, 0.5]])
        output = run_forward(TRACE, np, [value], attributes, context)
        np.testing.assert_array_equal(output, value)
        run_gradient(TRACE, np, value / 2, output, [value], attributes, context, [True])
    lines = capsys.readouterr().err.splitlines()
    assert lines[:4] == ["Trace --> h", "1", "Trace --> h (gradient)", "0.5"]
    assert [line for line in lines if line.isdigit()] == ["1", "2", "1", "4", "2", "8", "4"]
