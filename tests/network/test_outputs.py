"""Outputs of an op that has several, in networks: where they lie, what goes wrong, how they are saved."""

from __future__ import annotations

import copy
import pickle

import attrs
import numpy as np
import pytest

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError, ModelFormatError, NetworkError
from cntk_core.model import Model
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node
from cntk_core.ops.families.ordering import TopKAttributes
from cntk_core.ops.families.outputs import OUTPUT_MULTIPLEXER, MultiplexerAttributes, define_outputs
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.families.sequences import UNPACK_SEQUENCE
from cntk_core.ops.families.unary import TANH
from cntk_core.ops.language.layouts import slot_layout
from cntk_core.ops.language.shapes import FREE, Longest
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.gradients import check_gradients_by
from cntk_testing.python_ops import OWN_AXES, SEVERAL_OUTPUTS, SUMMARY
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import CLASSES, SequenceSketch, sequences_for


@define_outputs(
    "Halves", {"whole": lambda shapes, attributes: shapes[0], "half": lambda shapes, attributes: (shapes[0][-1] // 2,)}
)
def HALVES(xp, inputs, attributes, context):
    """The whole and a half."""
    return inputs[0], inputs[0][..., : inputs[0].shape[-1] // 2].reshape(len(inputs[0]), -1)


def find(language, name):
    return HALVES if name == "Halves" else core_ops().find(language, name)


def halves(shape=(6,), index=1):
    network = Network()
    x = network.add(Input.make("x", shape))
    source = network.add(Node("source", HALVES, [x]))
    output = network.add(Node("output", OUTPUT_MULTIPLEXER, [source], MultiplexerAttributes(index)))
    return network, x, source, output


def test_inference_finds_the_place_of_an_output():
    network, _, source, output = halves()
    network.infer()
    assert source.shape == (9,)
    assert output.shape == (3,)
    assert output.framed
    assert output.attributes == MultiplexerAttributes(1, 6, 9, (3,))


def test_an_output_is_found_again_when_the_network_changes():
    network, x, source, output = halves()
    network.infer()
    x.shape = (2, 4)
    network.infer()
    assert output.attributes == MultiplexerAttributes(1, 8, 10, (2,))
    source.op, source.attributes = TANH, TANH.attributes()
    output.attributes = MultiplexerAttributes(0, 8, 10, (2,))
    network.infer()
    assert output.shape == (2, 4)
    assert output.attributes == MultiplexerAttributes(0)


def test_an_output_in_a_loop_is_found_when_its_delay_says_what_it_is():
    network = Network()
    past = network.add(Node("past", core_ops().find("", "PastValue"), [], DelayAttributes((4,))))
    x = network.add(Input.make("x", (4,)))
    both = network.add(Node("both", core_ops().find("", "Plus"), [x, past]))
    source = network.add(Node("source", HALVES, [both]))
    past.inputs = [network.add(Node("output", OUTPUT_MULTIPLEXER, [source], MultiplexerAttributes(0)))]
    network.infer()
    assert (source.shape, network["output"].shape) == ((6,), (4,))


@pytest.mark.parametrize("index", [2, -1])
def test_an_output_that_is_not_there_is_refused(index):
    network, *_ = halves(index=index)
    with pytest.raises(NetworkError) as caught:
        network.infer()
    assert str(caught.value) == (
        f"OutputMultiplexer 'output': Halves has no output {index}\n    Outputs: 0 is whole, 1 is half."
    )


def test_an_op_with_one_output_has_no_other():
    network = Network()
    x = network.add(Input.make("x", (2,)))
    network.add(Node("output", OUTPUT_MULTIPLEXER, [x], MultiplexerAttributes(1)))
    with pytest.raises(NetworkError) as caught:
        network.infer()
    assert str(caught.value) == "OutputMultiplexer 'output': InputValue has no output 1\n    Outputs: 0 is its value."


def test_outputs_as_long_as_the_longest_sequence_are_refused():
    network = Network()
    x = network.add(Input.make("x", (4,)))
    open_value = network.add(Node("open", UNPACK_SEQUENCE, [x], UNPACK_SEQUENCE.attributes()))
    network.add(Node("source", HALVES, [open_value]))
    with pytest.raises(NetworkError, match="its dimensions would depend on the longest sequence of a minibatch"):
        network.infer()


def test_a_model_file_keeps_outputs(tmp_path):
    network, *_ = halves()
    network.infer()
    save_model(network, tmp_path / "net.dnn")
    loaded = load_model(tmp_path / "net.dnn", find)
    assert loaded["output"].attributes == MultiplexerAttributes(1, 6, 9, (3,))
    assert loaded["output"].shape == (3,)
    np.testing.assert_array_equal(loaded["source"].shape, (9,))


def test_a_model_file_whose_op_is_not_there_says_so(tmp_path):
    network, *_ = halves()
    network.infer()
    save_model(network, tmp_path / "net.dnn")
    with pytest.raises(ModelFormatError, match=r"uses operations that are not there: Halves"):
        load_model(tmp_path / "net.dnn", core_ops().find)


ONE_COMPUTATION = {**OWN_AXES, "largest": SEVERAL_OUTPUTS["largest"]}


@pytest.mark.parametrize("name", ONE_COMPUTATION)
def test_gradients_of_outputs_agree_with_differences(name):
    sample = ONE_COMPUTATION[name]("float64")
    data = sequences_for(sample, [3, 1, 2])
    roots = [*(node for node in sample.network if node.op.name == "OutputMultiplexer"), sample.criterion]
    places = [node for node in roots if node.inputs[0].op.name == "TopK" and node.attributes.output_index == 1]
    roots = [node for node in roots if node not in places]
    by = [node for node in sample.network if not node.inputs and node.name != "labels"]
    check_gradients_by(sample.network, roots, by, data, tolerance=1e-6)


def summary():
    return OWN_AXES["summary"]("float64").network


def test_outputs_have_axes_and_shapes_of_their_own():
    network = summary()
    frames, means, total = (node for node in network if node.op.name == "OutputMultiplexer")
    assert [node.axis for node in (frames, means)] == ["", means.name]
    assert not total.framed
    assert [node.attributes.rows for node in (frames, means, total)] == ["", "sequence", "minibatch"]
    assert means.describe() == f"{means.name} = OutputMultiplexer (summary) : [2 x *]"
    assert total.describe() == f"{total.name} = OutputMultiplexer (summary) : [1]"
    masked = OWN_AXES["masked"]("float64").network
    memory, there = (node for node in masked if node.op.name == "OutputMultiplexer")
    assert memory.inputs[0] is there.inputs[0]
    assert [node.shape for node in (memory, there)] == [(Longest(""), 2), (Longest(""), 1)]


def values_of(network, data):
    roots = [node for node in network if node.op.name in ("OutputMultiplexer", "CrossEntropyWithSoftmax")]
    program = ReferenceEngine().compile(make_plan(network, roots), ParameterStore(network.parameters, network.dtype))
    program.evaluate(data)
    return [program.value(node.name) for node in roots]


@pytest.mark.parametrize("name", ["largest", "masked", "summary"])
def test_outputs_are_saved_copied_and_cloned(name, tmp_path):
    sample = ONE_COMPUTATION[name]("float64")
    network, data = sample.network, sequences_for(sample, [3, 1, 2])
    expected = values_of(network, data)
    save_model(network, tmp_path / "net.dnn")
    copies = [
        load_model(tmp_path / "net.dnn", lambda _, name: SUMMARY if name == SUMMARY.name else find("", name)),
        copy.deepcopy(network),
        *([pickle.loads(pickle.dumps(network))] if name != "summary" else []),  # whose op is no plugin
    ]
    for made in copies:
        assert [node.describe() for node in made] == [node.describe() for node in network]
        for ours, wanted in zip(values_of(made, data), expected, strict=True):
            np.testing.assert_array_equal(ours, wanted)


def test_an_output_of_its_own_axis_becomes_another_one_when_the_network_changes():
    network = summary()
    means = next(node for node in network if node.attributes == MultiplexerAttributes(1, 2, 4, (2,), "sequence"))
    means.attributes = attrs.evolve(means.attributes, output_index=0)
    network.infer()
    assert (means.attributes, means.axis) == (MultiplexerAttributes(0, 0, 2, (2,)), "")
    assert means.op is OUTPUT_MULTIPLEXER


def test_an_op_with_outputs_of_other_axes_is_not_in_a_loop():
    made = SequenceSketch("float64")
    past, close = made.delay(dim=3)
    source = made.network.add(Node("summary", SUMMARY, [made.op("Plus", made.x, past)]))
    sample = made.finish(None, close(made.op("OutputMultiplexer", source, attributes=MultiplexerAttributes(0))))
    with pytest.raises(NetworkError, match=r"'summary' \(TestingSummary\) cannot be in the loop of"):
        make_plan(sample.network, sample.roots)


def test_outputs_may_have_sizes_that_each_minibatch_brings(tmp_path):
    network = Network(np.float64)
    x = network.add(Input.make("x", (FREE, 4)))
    both = network.add(Node("both", core_ops().find("", "TopK"), [x], TopKAttributes(2, output="both")))
    for index, name in enumerate(("values", "places")):
        output = network.add(Node(name, OUTPUT_MULTIPLEXER, [both], MultiplexerAttributes(index)))
        network.mark(output, "output")
    network.infer()
    assert network["places"].describe() == "places = OutputMultiplexer (both) : [2 x ? x *]"
    save_model(network, tmp_path / "net.dnn")
    for made in (network, load_model(tmp_path / "net.dnn", core_ops().find)):
        model = Model(made, engine=ReferenceEngine())
        for size in (3, 5):
            rows = np.random.default_rng(size).normal(size=(2, size, 4))
            found = model.evaluate({"x": rows})
            np.testing.assert_array_equal(found["values"], -np.sort(-rows, axis=-1)[..., :2])
            np.testing.assert_array_equal(found["places"], np.argsort(-rows, axis=-1)[..., :2])


def test_a_minibatch_without_frames_has_outputs():
    network = summary()
    empty = sequences_for(OWN_AXES["summary"]("float64"), [])
    frames, means, total, _ = values_of(network, empty)
    assert (frames.shape, means.shape, total.tolist()) == ((0, 2), (0, 2), [0.0])


def test_sequences_that_are_cut_have_no_output_of_their_own():
    sample = OWN_AXES["summary"]("float64")
    network = sample.network
    layout = slot_layout([[2], [3]], continued=[True, False], continues=[False, True])
    rows = np.random.default_rng(1).normal(size=(5, 5))
    data = Minibatch({"x": StreamData(rows[:, :3], layout), "labels": StreamData(rows[:, :CLASSES], layout)}, 5)
    with pytest.raises(DataError, match="OutputMultiplexer needs whole sequences, and those of this minibatch are cut"):
        values_of(network, data)
