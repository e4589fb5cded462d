"""What cannot be read of other programs' files, and what cannot be written: each says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import Graph, node, number, one, some, whole
from judge import load, written

from cntk_core.api import CntkError, Input, ModelFormatError, Node, UnsupportedError, core_ops
from cntk_core.api.builders import BATCH
from cntk_testing.networks import Sketch

SAMPLES_ALONG = "it works along the samples of a minibatch"
APART = "the samples of its inputs do not stand along the same axis"
COUNTED = "it computes with the number of samples"


def both(kind: str, shape: tuple[int, ...], *, perm: list[int] | None = None, **settings: Any) -> Graph:
    """A node of ``x`` and of it with its axes in another order."""
    turn = node("Transpose", ["x"], ["t"], perm=perm) if perm else node("Identity", ["x"], ["t"])
    return Graph([turn, node(kind, ["x", "t"], ["y"], **settings)], shape)


def of_count(kind: str, other: Any) -> Graph:
    """A node of the number of samples and a constant, of which a shape is made."""
    shape = [node("Shape", ["x"], ["n"], end=1), node(kind, ["n", "c"], ["m"])]
    join = [node("Concat", ["m", "rest"], ["s"], axis=0), node("Reshape", ["x", "s"], ["y"])]
    return Graph([*shape, *join], (6,), {"c": other, "rest": whole(-1)})


def picked(place: int) -> Graph:
    """A row of ``x`` with samples behind."""
    return Graph([node("Transpose", ["x"], ["t"]), node("GatherND", ["t", "c"], ["y"])], (3,), {"c": whole([place])})


def cell(kind: str, **given: Any) -> Graph:
    """A layer of two elements and three hidden ones, of four steps; some inputs or settings are not as usual."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    more = {"w": some(1, gates * 3, 2), "r": some(1, gates * 3, 3), "b": some(1, gates * 6)}
    settings = {name: value for name, value in given.items() if not isinstance(value, np.ndarray)}
    more |= {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    names = ["steps", "w", "r", "b", *[name if name in more else "" for name in ("n", "h", "c", "p")]]
    made = node(kind, names if kind == "LSTM" else names[:6], ["y"], **{"hidden_size": 3, **settings})
    return Graph([node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]), made], (4, 2), more)


REFUSED = {
    "pads in another way": (one("Pad", (3,), whole(0, 1, 0, 1), mode="strange"), "it pads in a way that is not known"),
    "pads of too few axes": (one("Pad", (3,), whole(0, 1, 0)), "it pads in a way that is not known"),
    "pads samples": (one("Pad", (3,), whole(1, 0, 0, 0)), SAMPLES_ALONG),
    "blocks of samples": (
        Graph([node("Transpose", ["x"], ["t"], perm=[1, 0, 2, 3]), node("DepthToSpace", ["t"], ["y"], blocksize=2)],
              (4, 2, 2)),
        "its input has not samples, channels and two places, in this order",
    ),
    "blocks of a plane": (
        one("DepthToSpace", (4, 2), blocksize=2), "its input has not samples, channels and two places, in this order"
    ),
    "one-hot with other values": (
        one("OneHot", (2,), whole(3), number([0, 2])), "it has other values than 0 and 1, or another axis than the last"
    ),
    "one-hot along another axis": (
        one("OneHot", (2,), whole(3), number([0, 1]), axis=1),
        "it has other values than 0 and 1, or another axis than the last",
    ),
    "terms of an equation": (one("Einsum", (3,), equation="ij,jk->ik"),
                             "its equation has not as many terms as it has inputs"),
    "an axis twice": (one("Einsum", (3, 3), equation="bii->bi"),
                      "its equation names an axis twice, or not as many as its inputs have"),
    "axes without names": (one("Einsum", (3, 3), equation="bi->bi"),
                           "its equation names an axis twice, or not as many as its inputs have"),
    "sums of samples and elements": (both("Add", (3,), perm=[1, 0]), APART),
    "joined samples and elements": (both("Concat", (3,), perm=[1, 0], axis=1), APART),
    "products of samples and elements": (both("MatMul", (2, 2), perm=[1, 0, 2]), APART),
    "a product along samples": (
        Graph([node("Transpose", ["x"], ["t"]), node("MatMul", ["t", "c"], ["y"])], (3,), {"c": some(2, 2)}),
        SAMPLES_ALONG,
    ),
    "a step of 0": (
        Graph([node("Range", ["a", "b", "c"], ["r"]), node("Add", ["x", "r"], ["y"])], (3,),
              {"a": number(0), "b": number(3), "c": number(0)}),
        "its step is 0",
    ),
    "scales for blocks": (
        Graph([node("QuantizeLinear", ["x", "c"], ["q"], axis=1, block_size=2), node("DequantizeLinear", ["q", "c"],
              ["y"], axis=1, block_size=2)], (4,), {"c": some(2, 2)}, opset=21),
        "it has scales for blocks",
    ),
    "a scatter of another kind": (
        one("ScatterElements", (3,), whole([0], [0]), some(2, 1), axis=1, reduction="strange", samples=2),
        "it reduces by 'strange'",
    ),
    "places of other samples": (
        one("ScatterElements", (3,), whole([0], [0]), some(2, 1), axis=1),
        "its places do not have the sizes of its input in all other axes",
    ),
    "parts of other axes": (one("GatherElements", (3,), whole(0, 1), axis=1), "its inputs have not as many axes"),
    "a normalization of samples": (
        Graph([node("Transpose", ["x"], ["t"]), node("LayerNormalization", ["t", "c"], ["y"])], (3,), {"c": some(2)}),
        SAMPLES_ALONG,
    ),
    "places that are not there": (picked(3), "it names places that are not there"),
    "places before the first": (picked(-4), "it names places that are not there"),
    "samples at places": (one("GatherND", (3,), whole([0])), SAMPLES_ALONG),
    "an axis that is too long": (one("Squeeze", (3,), whole(1)), "it takes an axis away that is longer than 1"),
    "samples taken away": (one("Squeeze", (1, 3), whole(0)), "it takes an axis away that is longer than 1"),
    "an order of too few axes": (one("Transpose", (3, 2), perm=[0, 1]), "its order of axes makes no sense"),
    "an axis twice in an order": (one("Transpose", (3, 2), perm=[0, 1, 1]), "its order of axes makes no sense"),
    "nothing of an axis": (one("Slice", (4,), whole(2), whole(2), whole(1)), "it takes no elements"),
    "more starts than ends": (
        one("Slice", (4,), whole(0, 1), whole(2), whole(1)), "it has not as many starts as ends and axes"
    ),
    "more axes than starts": (
        one("Slice", (4,), whole(0), whole(2), whole(1, 2)), "it has not as many starts as ends and axes"
    ),
    "more steps than starts": (
        one("Slice", (4,), whole(0), whole(2), whole(1), whole(1, 1)), "it has not as many starts as ends and axes"
    ),
    "elements that are not there": (one("Gather", (3,), whole(0, 3), axis=1),
                                    "it picks elements that are not there, or in several axes"),
    "elements before the first": (one("Gather", (3,), whole(-4), axis=1),
                                  "it picks elements that are not there, or in several axes"),
    "elements in several axes": (one("Gather", (3,), whole(0, 1).reshape(1, 2), axis=1),
                                 "it picks elements that are not there, or in several axes"),
    "another axis of a table": (
        Graph([node("Cast", ["x"], ["i"], to=7), node("Gather", ["c", "i"], ["y"], axis=1)], (1,), {"c": some(3, 4)}),
        "it picks of a table along another axis than the first",
    ),
    "samples repeated": (one("Expand", (1, 3), whole(5, 1, 3)), "it repeats samples"),
    "samples tiled": (one("Tile", (3,), whole(2, 1)), SAMPLES_ALONG),
    "no repetitions": (one("Tile", (3,), whole(1, 0)), "it repeats its input 0 times"),
    "samples mixed": (one("Reshape", (3,), whole(3, -1)),
                      "it mixes samples, or does not fit: a sample (3,) as (3, -1)"),
    "a shape that does not fit": (one("Reshape", (3,), whole(-1, 4)),
                                  "it mixes samples, or does not fit: a sample (3,) as (-1, 4)"),
    "an axis that there is not": (one("Softmax", (3,), axis=2), "its input has no axis 2"),
    "an axis before the first": (one("Softmax", (3,), axis=-3), "its input has no axis -3"),
    "a shape that depends on the data": (
        Graph([node("Cast", ["x"], ["i"], to=7), node("Reshape", ["x", "i"], ["y"])], (2,)),
        "its new shape must be constant",
    ),
    "samples times samples": (of_count("Mul", whole(0)), COUNTED),
    "half of the samples": (of_count("Div", whole(2)), COUNTED),
    "more samples": (of_count("Add", whole(1)), COUNTED),
    "way to find places": (
        one("Resize", (4,), None, number([1, 2]), mode="linear", coordinate_transformation_mode="strange"),
        "its way to find places is 'strange'",
    ),
    "way to round": (one("Resize", (4,), None, number([1, 1.5]), nearest_mode="strange"),
                     "it rounds in the way 'strange'"),
    "a number around a part": (
        one("Resize", (4,), number([0, 0, 1, 2]), number([1, 1]), coordinate_transformation_mode="tf_crop_and_resize",
            mode="linear", extrapolation_value=1.0),
        "it puts another number than 0 around its input",
    ),
    "a window of another rank": (one("MaxPool", (1, 4, 4), kernel_shape=[2]),
                                 "its settings do not belong to such an image"),
    "strides of another rank": (one("MaxPool", (1, 4, 4), kernel_shape=[2, 2], strides=[1]),
                                "its settings do not belong to such an image"),
    "borders cut off": (one("MaxPool", (1, 4, 4), kernel_shape=[2, 2], pads=[0, -1, 0, 0]),
                        "its settings do not belong to such an image"),
    "weights of other sizes": (cell("LSTM", w=some(1, 11, 2)), "its weights do not have the sizes that it says"),
    "weights of two directions": (
        cell("LSTM", w=some(2, 12, 2), r=some(2, 12, 3), b=some(2, 24)),
        "its weights do not have the sizes that it says",
    ),
    "a first state of another size": (
        cell("LSTM", h=some(1, 4, 2)), "its first state does not have the size that it says"
    ),
    "a constant without elements": (one("Add", (1,), number([]).reshape(1, 0)), "a constant has no elements"),
    "another activation": (cell("RNN", activations=["Strange"]), "its cells have other activations, or are clipped"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_nodes_that_cannot_be_read_say_why(name: str, tmp_path: Path) -> None:
    graph, why = REFUSED[name]
    path = graph.save(tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError) as caught:
        load(path)
    said = str(caught.value).removeprefix(f"'{path}' has nodes that cannot be read: ")
    assert said.partition("': ")[2] == why


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (Graph([node("Shape", ["x"], ["y"])], (3,)), COUNTED),
        (Graph([node("Identity", ["e"], ["y"])], (3,), {"e": number([])}), "a constant has no elements"),
    ],
    ids=["sizes", "nothing"],
)
def test_outputs_that_cannot_be_read_say_why(graph: Graph, why: str, tmp_path: Path) -> None:
    path = graph.save(tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError) as caught:
        load(path)
    assert str(caught.value) == f"'{path}' has the output 'y', which cannot be read: {why}"


@pytest.mark.parametrize("given", [{"r": some(1, 9, 2)}, {"b": some(1, 12)}], ids=["weights", "bias"])
def test_recurrent_layers_that_do_not_fit(given: dict[str, Any], tmp_path: Path) -> None:
    path = cell("GRU", linear_before_reset=1, **given).save(tmp_path / "net.onnx")
    with pytest.raises(ModelFormatError) as caught:
        load(path)
    assert str(caught.value) == f"'{path}' is damaged: its graph makes no sense"


# -- what cannot be written -------------------------------------------------------------------------------


def op(made: Sketch, kind: str, *inputs: Any, **settings: Any) -> Node:
    """A node whose settings are the defaults but for some."""
    found = core_ops().find("", kind)
    assert found is not None
    return made.op(kind, *inputs, name="y", attributes=found.attributes(**settings))


def samples(made: Sketch, name: str, *shape: int) -> Node:
    """An input of samples, which are no sequences."""
    return made.network.add(Input.make(name, shape, axis=BATCH))


UNWRITTEN: dict[str, tuple[Callable[[Sketch], Node], str]] = {
    "sequences of sequences": (
        lambda made: op(made, "ToSequence", made.input("x", 3, 2)),
        "ToSequence 'y' cannot be written as ONNX: its input is a sequence already",
    ),
    "a mask": (
        lambda made: op(made, "UnpackSequence", made.input("x", 2), with_mask=True),
        "UnpackSequence 'y' cannot be written as ONNX: it has two outputs, values and a mask\n"
        "    Use the values alone.",
    ),
    "sequences like sequences": (
        lambda made: op(made, "ToSequenceLike", made.input("x", 3, 2), made.input("z", 2)),
        "ToSequenceLike 'y' cannot be written as ONNX: its first input is a sequence already, or its second is none",
    ),
    "sequences like samples": (
        lambda made: op(made, "ToSequenceLike", samples(made, "x", 3, 2), samples(made, "z", 2)),
        "ToSequenceLike 'y' cannot be written as ONNX: its first input is a sequence already, or its second is none",
    ),
    "a shift of elements": (
        lambda made: op(made, "Shift", made.input("x", 3), made.parameter("b", 1), from_offset=1, dim=1),
        "Shift 'y' cannot be written as ONNX: only a shift along sequences, with one boundary value, can be written\n"
        "    Use PastValue.",
    ),
    "a convolution along sequences": (
        lambda made: op(made, "Convolution", made.parameter("W", 2, 1, 3), made.input("x", 1), kernel_shape=(3,),
                        sequential=True),
        "Convolution 'y' cannot be written as ONNX: it goes along sequences\n"
        "    Write it with delays, or unpack the sequences.",
    ),
    "a criterion": (
        lambda made: op(made, "Exp", made.op("SquareError", made.input("x", 2), made.input("z", 2), name="se")),
        "SquareError 'se' cannot be written as ONNX: it belongs to training\n"
        "    Mark other outputs, which do not need it.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNWRITTEN)
def test_nodes_that_cannot_be_written_say_why(name: str, tmp_path: Path) -> None:
    make, message = UNWRITTEN[name]
    made = Sketch("float32")
    root = make(made)
    network = made.finish(None, root).network
    network.roots["output"] = [root]
    with pytest.raises(CntkError) as caught:
        written(network, tmp_path / "net.onnx")
    assert str(caught.value) == message
    assert not (tmp_path / "net.onnx").exists()


def test_a_network_without_an_output(tmp_path: Path) -> None:
    made = Sketch("float32")
    root = op(made, "SquareError", made.input("x", 2), made.input("z", 2))
    with pytest.raises(CntkError) as caught:
        written(made.finish(root).network, tmp_path / "net.onnx")
    assert str(caught.value) == "the network has no output that could be written\n    Mark one: outputNodes."
