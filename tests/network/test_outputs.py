"""Outputs of an op that has several, in networks: where they lie, what goes wrong, how they are saved."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.errors import ModelFormatError, NetworkError
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node
from cntk_core.ops.families.outputs import OUTPUT_MULTIPLEXER, MultiplexerAttributes, define_outputs
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.families.sequences import UNPACK_SEQUENCE
from cntk_core.ops.families.unary import TANH
from cntk_core.ops.table import core_ops


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
