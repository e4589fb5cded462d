"""Convolution along sequences, parts by strides, samples from an axis: against NumPy, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.errors import DataError, NetworkError, ShapeError, UnsupportedError
from cntk_core.model import Model
from cntk_core.network.network import Network
from cntk_core.network.node import BATCH, Input, Node, Parameter
from cntk_core.ops.families.slicing import SliceAttributes
from cntk_core.ops.language.framing import run_forward
from cntk_core.ops.language.layouts import slot_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.table import core_op
from cntk_testing.reference import ReferenceEngine

RNG = np.random.default_rng(3)
SEQUENCES = [RNG.normal(size=(frames, 2)) for frames in (7, 5, 9)]


def evaluate(op: str, *inputs: Node, data=None, **settings):
    network = Network(np.float64)
    nodes = [network.add(node) for node in inputs]
    made = core_op(op)
    node = network.add(Node("z", made, nodes, made.attributes(**settings)))
    network.mark(node, "output")
    network.infer()
    return Model(network, engine=ReferenceEngine()).evaluate(data or {})["z"]


def convolve(weights: np.ndarray, sequences: list[np.ndarray], **settings):
    kernel = Parameter.make("W", weights.shape, value=weights)
    x = Input.make("x", sequences[0].shape[1:])
    how = {"kernel_shape": weights.shape[2:][::-1], "map_count": len(weights), "sequential": True}
    return evaluate("Convolution", kernel, x, data={"x": sequences}, **{**how, **settings})


def expected(weights, sequence, stride, dilation, padded):
    reach = (weights.shape[2] - 1) * dilation + 1
    before = (reach - 1) // 2 if padded else 0
    count = -(-len(sequence) // stride) if padded else (len(sequence) - reach) // stride + 1
    found = np.zeros((count, len(weights)))
    for place in range(count):
        for index in range(weights.shape[2]):
            step = place * stride - before + index * dilation
            if 0 <= step < len(sequence):
                found[place] += weights[:, :, index] @ sequence[step]
    return found


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_against_numpy(stride, dilation, padded):
    weights = RNG.normal(size=(4, 2, 3))
    found = convolve(weights, SEQUENCES, stride=stride, dilation=dilation, auto_padding=padded)
    for own, sequence in zip(found, SEQUENCES, strict=True):
        np.testing.assert_allclose(own, expected(weights, sequence, stride, dilation, padded), atol=1e-12)


def test_empty_sequences_stay_empty():
    found = convolve(np.ones((1, 2, 3)), [np.zeros((0, 2)), np.ones((2, 2))])
    assert [each.tolist() for each in found] == [[], [[4.0], [4.0]]]


def test_weights_are_inferred():
    network = Network(np.float64)
    x, weights = network.add(Input.make("x", (2, 6))), network.add(Parameter.make("W", (0, 0, 0, 0)))
    op = core_op("Convolution")
    attributes = op.attributes((5, 3), (4,), sequential=True)
    node = network.add(Node("z", op, [weights, x], attributes))
    network.mark(node, "output")
    network.infer()
    assert weights.shape == (4, 2, 3, 5)
    assert node.shape == (4, 6)


def test_a_sequence_that_is_too_short():
    with pytest.raises(DataError) as caught:
        convolve(np.ones((1, 2, 3)), [np.ones((4, 2)), np.ones((4, 2))], auto_padding=False, dilation=2)
    assert caught.value.message == "Convolution along sequences: the kernel reaches over 5 frames, and a sequence has 4"
    assert caught.value.hint == "Pad along the sequence, or leave out short sequences."


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kernel_shape": ()}, "along sequences of [2] the kernel needs 1 axes, and it has 0"),
        ({"transpose": True}, "a convolution along sequences is not transposed, and has no explicit padding"),
        ({"lower_pad": 1}, "a convolution along sequences is not transposed, and has no explicit padding"),
    ],
)
def test_refused_settings(settings, said):
    with pytest.raises(ShapeError) as caught:
        convolve(np.ones((1, 2, 3)), SEQUENCES, **settings)
    assert caught.value.message == f"Convolution 'z': {said}"


def test_samples_are_no_sequences():
    weights = Parameter.make("W", (1, 2, 3), value=np.ones((1, 2, 3)))
    with pytest.raises(NetworkError) as caught:
        evaluate("Convolution", weights, Input.make("x", (2,), axis=BATCH), kernel_shape=3, sequential=True)
    assert caught.value.message == "Convolution 'z' looks along sequences, but its input 'x' has the axes [batch]"


@pytest.mark.parametrize(
    ("begin", "end", "stride"), [(0, 0, 2), (1, 6, 2), (0, 0, -1), (0, 6, -2), (2, 6, 5), (-4, -1, -3), (3, 3, -1)]
)
def test_parts_by_strides(begin, end, stride):
    x = np.arange(7.0)
    found = evaluate("Slice", Parameter.make("x", (7,), value=x), begin=begin, end=end, stride=stride)
    part = x[begin : end or None]
    assert found.tolist() == (part[::stride] if stride > 0 else part[::-1][::-stride]).tolist()


@pytest.mark.parametrize(("stride", "shown"), [((0,), "0"), ((1, 2, 3), "1, 2, 3")])
def test_strides_that_do_not_fit(stride, shown):
    with pytest.raises(ShapeError) as caught:
        SliceAttributes((0, 0), (1, 1), (1, 2), stride)
    assert caught.value.message == f"Slice cannot have a stride of {shown} along 2 axes"
    assert caught.value.hint == "Give one for all axes or for each, not 0."


def test_samples_of_an_axis():
    rows = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(evaluate("ToBatch", Parameter.make("x", (3, 2), value=rows)), rows[:, None])
    with pytest.raises(ShapeError) as caught:
        evaluate("ToBatch", Parameter.make("x", (3,), value=np.ones(3)))
    assert caught.value.message == "ToBatch 'z': the input [3] has no axis of samples and one of their elements"


def test_refused_by_name():
    with pytest.raises(UnsupportedError) as caught:
        evaluate("CustomProxyOp", Input.make("x", (2,), axis=BATCH), data={"x": np.ones((3, 2))})
    assert caught.value.message == "the node 'z' cannot run yet: the operation CustomProxyOp is not there yet"


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True), (False, False)])
def test_sequences_that_are_cut(before, after):
    op = core_op("Convolution")
    attributes = op.attributes((3,), (1,), sequential=True)
    layout = slot_layout([[4], [3]], continued=[before, False], continues=[False, after])
    inputs = [np.ones((1, 2, 3)), np.ones((7, 2))]
    context = OpContext((False, True), 7, layout=layout, layouts=(None, layout))
    form = op.form_of(attributes)
    if not (before or after):
        assert run_forward(form, np, inputs, attributes, context).shape == (7, 1)
        return
    with pytest.raises(DataError, match="needs whole sequences, and those of this minibatch are cut"):
        run_forward(form, np, inputs, attributes, context)
