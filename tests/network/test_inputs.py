"""Inputs of every kind in networks: dynamic axes, free dimensions, what files keep of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_networks import Maker

from cntk_core.errors import CntkError, NetworkError
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.network import Network
from cntk_core.network.node import BATCH, Input, Node, Parameter
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.normalization import BatchNormalizationAttributes
from cntk_core.ops.families.pooling import PoolingAttributes
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.reshaping import ReshapeAttributes, TransposeAttributes
from cntk_core.ops.families.slicing import SliceAttributes, StackAttributes
from cntk_core.ops.language.shapes import FREE, Free, is_free, show
from cntk_core.ops.table import core_ops


def message(make: Maker) -> str:
    with pytest.raises(CntkError) as error:
        make.network.infer()
    return str(error.value)


def kinds() -> tuple[Maker, dict[str, Node]]:
    make = Maker()
    made = {
        "samples": Input.make("samples", (3,), axis=BATCH),
        "words": Input.make("words", (3,), axis="text"),
        "frames": Input.make("frames", (3,)),
        "fixed": Input.make("fixed", (3,), framed=False),
    }
    return make, {name: make.network.add(node) for name, node in made.items()}


def test_messages_say_which_axes_a_value_has():
    _, nodes = kinds()
    assert [node.describe_axes() for node in nodes.values()] == [
        "'samples' has the axes [batch]",
        "'words' has the axes [batch, sequence 'text']",
        "'frames' has the axes [batch, sequence]",
        "'fixed' has no dynamic axis",
    ]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (
            "samples",
            "words",
            "'samples' has the axes [batch], 'words' has the axes [batch, sequence 'text']\n"
            "    ReconcileDynamicAxis(samples, words) repeats the first for each step of the second.",
        ),
        (
            "frames",
            "samples",
            "'frames' has the axes [batch, sequence], 'samples' has the axes [batch]\n"
            "    ReconcileDynamicAxis(samples, frames) repeats the second for each step of the first.",
        ),
    ],
)
def test_samples_do_not_meet_sequences_by_themselves(first: str, second: str, text: str) -> None:
    make, nodes = kinds()
    make("sum", "Plus", nodes[first], nodes[second])
    assert message(make) == f"Plus 'sum': its inputs have different dynamic axes: {text}"


def test_samples_meet_what_is_found_by_running():
    make, nodes = kinds()
    found = make("found", "Where", make("one", "SumColumnElements", nodes["frames"]))
    first, second = make("first", "Plus", nodes["samples"], found), make("second", "Plus", found, nodes["samples"])
    make.network.infer()
    assert first.axis == second.axis == BATCH


def test_a_value_without_dynamic_axis_meets_all():
    make, nodes = kinds()
    for name in ("samples", "words", "frames"):
        made = make(f"sum.{name}", "Plus", nodes["fixed"], nodes[name])
        make.network.infer()
        assert (made.framed, made.axis) == (True, nodes[name].axis)
    alone = make("twice", "Plus", nodes["fixed"], nodes["fixed"])
    make.network.infer()
    assert alone.framed is False


@pytest.mark.parametrize(("name", "axes"), [("samples", "the axes [batch]"), ("fixed", "no dynamic axis")])
@pytest.mark.parametrize("op", ["PastValue", "FutureValue", "Where", "UnpackSequence"])
def test_what_looks_along_sequences_needs_some(op: str, name: str, axes: str) -> None:
    make, nodes = kinds()
    one = nodes[name] if op != "Where" else make("one", "SumColumnElements", nodes[name])
    make("seen", op, one)
    assert message(make) == f"{op} 'seen' looks along sequences, but its input '{one.name}' has {axes}"


def test_a_delay_may_begin_with_a_value_for_each_sample():
    make, nodes = kinds()
    past = make("past", "PastValue", nodes["frames"], nodes["samples"])
    make.network.infer()
    assert past.axis == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"shape": (0,)}, "the input 'x' cannot be [0]\n    FREE is a dimension whose size each minibatch brings."),
        (
            {"shape": (3, -3)},
            "the input 'x' cannot be [-3 x 3]\n    FREE is a dimension whose size each minibatch brings.",
        ),
        (
            {"shape": (3,), "sparse": True, "framed": False},
            "the sparse input 'x' has no dynamic axis; only dense inputs can",
        ),
        ({"shape": (FREE,), "sparse": True}, "the sparse input 'x' has an open dimension; only dense inputs can"),
    ],
)
def test_inputs_that_cannot_be(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(NetworkError) as error:
        Input.make("x", **arguments)
    assert str(error.value) == text


# -- free dimensions --------------------------------------------------------------------------------------


def image(*shape: int) -> tuple[Maker, Node]:
    make = Maker()
    return make, make.network.add(Input.make("x", shape or (3, FREE, FREE)))


def shape_of(op: str, attributes: Any = None, *others: tuple[int, ...]) -> str:
    make, x = image()
    parameters = [make.parameter(f"W{index}", *dims) for index, dims in enumerate(others)]
    made = make("made", op, *parameters, x, attributes=attributes)
    make.network.infer()
    return show(made.known_shape)


def test_the_unknown_stays_unknown():
    window, plain = PoolingAttributes((2, 2), "max", (2,), (False,)), (True,)
    whole = PoolingAttributes((), "average", auto_padding=(False,))
    assert shape_of("Tanh") == "[? x ? x 3]"
    assert shape_of("Plus", None, (3, 1, 1)) == "[? x ? x 3]"
    assert shape_of("Convolution", ConvolutionAttributes((3, 3), (8,), (2, 2)), (8, 3, 3, 3)) == "[? x ? x 8]"
    assert shape_of("Convolution", ConvolutionAttributes((3, 3), (8,), (1,), plain), (0,)) == "[? x ? x 8]"
    assert shape_of("Pooling", window) == "[? x ? x 3]"
    assert shape_of("Pooling", whole) == "[1 x 1 x 3]"
    assert shape_of("ReduceElements", ReduceAttributes("Mean", 1)) == "[1 x ? x 3]"
    assert shape_of("ReduceElements", ReduceAttributes("Sum", 3)) == "[? x ? x 1]"
    assert shape_of("SumElements") == "[1]"
    assert shape_of("TransposeDimensions", TransposeAttributes(1, 3)) == "[3 x ? x ?]"
    assert shape_of("Reshape", ReshapeAttributes((0,), 1, 3)) == "[? x 3]"
    assert shape_of("Reshape", ReshapeAttributes((0,), 2, 4)) == "[? x ?]"
    assert shape_of("Slice", SliceAttributes(0, -1, 1)) == "[? x ? x 3]"
    assert shape_of("Slice", SliceAttributes(1, 3, 3)) == "[? x ? x 2]"


def test_what_has_the_same_size_fits():
    make, x = image()
    halved = make("halved", "Pooling", x, attributes=PoolingAttributes((2, 2), "max", (2,), (False,)))
    weights = make.parameter("W", 3, 3, 2, 2)
    back = ConvolutionAttributes((2, 2), (3,), (2, 2), auto_padding=(False,), transpose=True)
    again = make("again", "Convolution", weights, halved, attributes=back)
    stacked = make("stacked", "RowStack", x, again, attributes=StackAttributes(3))
    other = make.network.add(Input.make("other", (3, FREE, FREE)))
    both = make("both", "Plus", x, other)
    make.network.infer()
    assert show(stacked.known_shape) == "[? x ? x 6]"
    assert both.shape == x.shape == again.shape != halved.shape


def test_dimensions_by_name_are_apart():
    make = Maker()
    x, y = (make.network.add(Input.make(name, (Free(name), 2))) for name in "xy")
    make("sum", "Plus", x, y)
    assert message(make) == (
        "Plus 'sum': the shapes [2 x ?] and [2 x ?] do not fit: axis 2 is ? and ?\n    Inputs: x [2 x ?], y [2 x ?]"
    )


@pytest.mark.parametrize(
    ("op", "attributes", "others", "text"),
    [
        (
            "Times",
            None,
            ((0, 5),),
            "Times 'made': a parameter would be as large as a free dimension of a minibatch\n"
            "    Parameters have fixed dimensions: give them, or multiply along another axis.",
        ),
        (
            "Plus",
            None,
            ((3, 0, 1),),
            "Plus 'made': a parameter would be as large as a free dimension of a minibatch\n"
            "    Parameters have fixed dimensions: give them, or multiply along another axis.",
        ),
        (
            "Plus",
            None,
            ((3, 4, 4),),
            "Plus 'made': the shapes [4 x 4 x 3] and [? x ? x 3] do not fit: axis 1 is 4 and ?\n"
            "    Inputs: W0 [4 x 4 x 3], x [? x ? x 3]",
        ),
        (
            "Reshape",
            ReshapeAttributes((12,), 1, 3),
            (),
            "Reshape 'made': [? x ?] with ? elements cannot become [12]\n    Inputs: x [? x ? x 3]",
        ),
    ],
)
def test_a_parameter_has_no_free_dimension(
    op: str, attributes: Any, others: tuple[tuple[int, ...], ...], text: str
) -> None:
    make, x = image()
    made = make("flat", "Reshape", x, attributes=ReshapeAttributes((0,))) if op == "Times" else x
    make("made", op, *(make.parameter(f"W{i}", *dims) for i, dims in enumerate(others)), made, attributes=attributes)
    assert message(make) == text


def test_normalization_by_element_is_refused():
    make, x = image(FREE)
    parameters = [make.parameter(name, 0) for name in ("scale", "bias", "mean", "variance")]
    count = make.network.add(Parameter.make("count", (1,), learning_rate_multiplier=0.0))
    make("n", "BatchNormalization", x, *parameters, count, attributes=BatchNormalizationAttributes())
    assert "a parameter would be as large as a free dimension of a minibatch" in message(make)


def test_a_loop_may_have_free_dimensions():
    make = Maker()
    x = make.network.add(Input.make("x", (FREE, 3)))
    past = make.past("past")
    total = make("sum", "Plus", make("Wx", "Times", make.parameter("W", 3, 2), x), past)
    past.inputs = [make("h", "Tanh", total)]
    make.network.infer()
    assert show(past.known_shape) == "[2 x ?]"


# -- files ------------------------------------------------------------------------------------------------


def test_a_model_file_keeps_kinds_and_free_dimensions(tmp_path: Path) -> None:
    make, nodes = kinds()
    x = make.network.add(Input.make("x", (3, Free("height"), FREE), needs_gradient=True, axis=BATCH))
    make("pooled", "Pooling", x, attributes=PoolingAttributes((2, 2), "max", (2,), (False,)))
    make("sum", "Plus", nodes["samples"], nodes["fixed"])
    make.network.infer()
    save_model(make.network, tmp_path / "net.dnn")
    found = load_model(tmp_path / "net.dnn", core_ops().find)
    for node in make.network:
        other = found[node.name]
        assert (other.shape, other.framed, other.axis) == (node.shape, node.framed, node.axis)
        assert is_free(other.known_shape) == is_free(node.known_shape)
        if isinstance(node, Input):
            assert isinstance(other, Input)
            assert other.needs_gradient == node.needs_gradient
    names = [dim.name for dim in found["x"].known_shape if isinstance(dim, Free)]
    assert names == ["height", ""]
    save_model(found, tmp_path / "again.dnn")
    assert (tmp_path / "again.dnn").read_bytes() == (tmp_path / "net.dnn").read_bytes()


def test_files_of_plain_inputs_stay_as_they_were(tmp_path: Path) -> None:
    network = Network(np.float32)
    network.add(Input.make("x", (3,)))
    save_model(network, tmp_path / "net.dnn")
    text = (tmp_path / "net.dnn").read_bytes()
    assert b'{\\"name\\":\\"x\\",\\"op\\":\\"InputValue\\",\\"shape\\":[3]}' in text


def test_a_sparse_input_may_be_of_single_numbers() -> None:
    assert Input.make("s", (), sparse=True).shape == ()
    with pytest.raises(NetworkError) as error:
        Input.make("s", (FREE, 3), sparse=True)
    assert str(error.value) == "the sparse input 's' has an open dimension; only dense inputs can"
