"""What few graphs have: sizes that are computed, cells with peepholes, clips and lengths, parts put to places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import SAMPLES, Graph, node, number, one, some, whole
from judge import agrees, load, values
from onnx import TensorProto


def sized(*nodes: Any, of: str = "x", more: dict[str, Any] | None = None) -> Graph:
    """A graph that gives its input the sizes ``s``, which the nodes make of the sizes ``n`` of a tensor."""
    sizes = [node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), node("Shape", [of], ["n"])]
    return Graph([*sizes, *nodes, node("Reshape", [of, "s"], ["y"])], (3, 4), more or {})


SIZES = {
    "a product of all": sized(
        node("ReduceProd", ["n"], ["p"]), node("Reshape", ["p", "c"], ["s"]), more={"c": whole(1)}
    ),
    "a product with something before the samples": Graph(
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
            node("Shape", ["t"], ["n"], end=2),
            node("ReduceProd", ["n"], ["p"]),
            node("Concat", ["p", "four"], ["s"], axis=0),
            node("Reshape", ["t", "s"], ["rows"]),
            node("Mul", ["rows", "w"], ["m"]),
            node("Reshape", ["m", "apart"], ["back"]),
            node("Transpose", ["back"], ["y"], perm=[1, 0, 2]),
        ],
        (3, 4),
        {"four": whole(4), "w": some(4), "apart": whole(3, -1, 4)},
    ),
    "a product of known ones": sized(
        node("Slice", ["n", "c", "e"], ["behind"]),
        node("ReduceProd", ["behind"], ["p"]),
        node("Concat", ["d", "p"], ["s"], axis=0),
        more={"c": whole(1), "e": whole(3), "d": whole(-1)},
    ),
    "halves": sized(
        node("Gather", ["n", "zero"], ["samples"]),
        node("Mul", ["samples", "four"], ["more"]),
        node("Div", ["more", "two"], ["rows"]),
        node("Cast", ["rows"], ["whole"], to=TensorProto.INT64),
        node("Concat", ["whole", "rest"], ["s"], axis=0),
        more={"zero": whole(0), "four": whole(4), "two": whole(2), "rest": whole(6)},
    ),
    "one of them": sized(
        node("Size", ["w"], ["count"]),
        node("Unsqueeze", ["count", "first"], ["one"]),
        node("Concat", ["d", "one"], ["s"], axis=0),
        more={"w": some(3, 4), "d": whole(-1), "first": whole(0)},
    ),
}

PLAIN = {
    "a number": Graph([node("Constant", [], ["c"], value_float=2.5), node("Mul", ["x", "c"], ["y"])], (3,)),
    "numbers": Graph(
        [node("Constant", [], ["c"], value_floats=[2.5, -1.0, 0.5]), node("Mul", ["x", "c"], ["y"])], (3,)
    ),
    "whole numbers": Graph(
        [node("Constant", [], ["c"], value_ints=[-1, 2, 2]), node("Reshape", ["x", "c"], ["y"])], (4,)
    ),
    "a range": Graph(
        [node("Range", ["a", "b", "c"], ["r"]), node("Mul", ["x", "r"], ["y"])],
        (4,),
        {"a": number(1), "b": number(2.9), "c": number(0.5)},
    ),
    "a range of places": Graph(
        [node("Range", ["a", "b", "c"], ["r"]), node("Gather", ["x", "r"], ["y"], axis=1)],
        (5,),
        {"a": np.asarray(4, np.int64), "b": np.asarray(-1, np.int64), "c": np.asarray(-2, np.int64)},
    ),
    "a table that is put in shape": Graph(
        [node("Reshape", ["w", "s"], ["c"]), node("Mul", ["x", "c"], ["y"])],
        (3, 2),
        {"w": some(3, 2), "s": whole(0, -1)},
    ),
    "products of a table": Graph(
        [node("ReduceProd", ["w", "a"], ["p"], keepdims=0), node("Mul", ["x", "p"], ["y"])],
        (3,),
        {"w": some(2, 3), "a": whole(0)},
    ),
    "a number of each sample": Graph(
        [
            node("ReduceSum", ["x", "a"], ["s"], keepdims=0),
            node("Mul", ["s", "c"], ["m"]),
            node("Unsqueeze", ["m", "a"], ["u"]),
            node("Mul", ["x", "u"], ["y"]),
        ],
        (3,),
        {"a": whole(1), "c": number(0.5)},
    ),
    "a truth value": Graph(
        [node("Cast", ["x"], ["b"], to=TensorProto.BOOL), node("Cast", ["b"], ["y"], to=TensorProto.FLOAT)],
        (4,),
        x=[[0.0, -2.0, 0.25, 0.0]],
    ),
}


def odd() -> Any:
    """Numbers of which some are infinite or none at all."""
    row = number([1.0, np.inf, -np.inf, np.nan, 0.0])
    return np.stack([row, row[::-1]])


def flags(kind: str, **settings: int) -> Graph:
    cast = node("Cast", ["t"], ["y"], to=TensorProto.FLOAT)
    return Graph([node(kind, ["x"], ["t"], **settings), cast], (5,), x=odd())


ELEMENTS = {
    "no number": flags("IsNaN"),
    "infinite": flags("IsInf"),
    "infinite above": flags("IsInf", detect_negative=0),
    "infinite below": flags("IsInf", detect_positive=0),
    "infinite nowhere": flags("IsInf", detect_negative=0, detect_positive=0),
    "quantized with one scale": Graph(
        [node("QuantizeLinear", ["x", "s"], ["q"]), node("DequantizeLinear", ["q", "s"], ["y"])],
        (2, 3),
        {"s": number(0.3)},
        x=np.abs(some(SAMPLES, 2, 3)),
    ),
    "quantized along the last axis": Graph(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=-1),
            node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=-1),
        ],
        (3, 2),
        {"s": number([0.3, 0.7]), "z": np.asarray([3, 130], np.uint8)},
    ),
    "cut like whole numbers": Graph(
        [node("CastLike", ["x", "like"], ["i"]), node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)],
        (4,),
        {"like": whole(1)},
        x=[[-1.7, 1.7, -0.2, 2.0]],
    ),
    "depth to columns and back": Graph(
        [node("DepthToSpace", ["x"], ["d"], blocksize=2, mode="CRD"), node("Mul", ["d", "w"], ["y"])],
        (8, 2, 3),
        {"w": some(2, 4, 6)},
    ),
    "one of all": Graph(
        [
            node("Cast", ["x"], ["i"], to=TensorProto.INT64),
            node("OneHot", ["i", "n", "v"], ["y"]),
        ],
        (4,),
        {"n": np.asarray([5], np.int64), "v": number([0, 1])},
        x=[[0, 4, 2, 1], [3, 3, 0, 1]],
    ),
}


def placed(parts: Any, places: Any, **settings: Any) -> Graph:
    """Parts that are put to places of two samples and more."""
    return one("ScatterND", (4, 3), places, parts, samples=SAMPLES, **settings)


PLACES = {
    "samples by tuples": placed(some(1, 4, 3), whole([-1])),
    "parts by tuples": placed(some(2, 3), whole([0, 3], [-1, -3])),
    "elements by tuples": placed(some(3), whole([0, 3, 1], [1, 0, -1], [1, 1, 0])),
    "added by tuples": placed(some(3), whole([0, 3, 1], [1, 0, -1], [0, 3, 1]), reduction="add"),
    "steps of a constant": Graph(
        [node("Mul", ["t", "x"], ["m"]), node("GatherElements", ["m", "i"], ["y"], axis=1)],
        (4,),
        {"t": some(4), "i": whole([3, -1, 0], [1, 1, 2])},
        samples=SAMPLES,
    ),
}


def cell(kind: str, *given: str, both: bool = False, by_data: bool = False, **settings: Any) -> Graph:
    """Sequences of four steps; what comes of each, and the last states.

    Args:
        kind: of cell.
        given: its optional inputs: ``n`` lengths, ``h`` and ``c`` first states, ``p`` peepholes.
        both: directions.
        by_data: the lengths and the first state are computed of the data.
    """
    gates, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if both else 1
    more = {"w": some(ways, gates * 3, 2) / 9, "r": some(ways, gates * 3, 3)[..., ::-1].copy() / 9}
    more |= {"b": some(ways, gates * 6) / 9, "flat": whole(0, -1)}
    states = {name: some(ways, SAMPLES, 3) / 3 for name in "hc"}
    offered = {**states, "p": some(ways, 9) / 5, "n": np.asarray([3, 1], np.int32)}
    nodes = [node("Transpose", ["x"], ["steps"], perm=[1, 0, 2])]
    if by_data:
        more |= {"zero": number(0.0), "axes": whole(1, 2), "half": number(0.5), "end": whole(0), "wide": some(2, 3)}
        nodes += [
            node("Greater", ["x", "zero"], ["above"]),
            node("Cast", ["above"], ["ones"], to=TensorProto.FLOAT),
            node("ReduceSum", ["ones", "axes"], ["count"], keepdims=0),
            node("Mul", ["count", "half"], ["some"]),
            node("Cast", ["some"], ["n"], to=TensorProto.INT32),
            node("ReduceMean", ["x", "end_axis"], ["mean"], keepdims=0),
            node("MatMul", ["mean", "wide"], ["state"]),
            node("Unsqueeze", ["state", "end"], ["h"]),
        ]
        more |= {"end_axis": whole(1)}
    else:
        more |= {name: offered[name] for name in given}
    names = ["steps", "w", "r", "b", *[name if name in given else "" for name in ("n", "h", "c", "p")]]
    outputs = ["all", "last", "held"][: 3 if kind == "LSTM" else 2]
    names = names if kind == "LSTM" else names[:6]
    direction = {"direction": "bidirectional"} if both else {}
    nodes.append(node(kind, names, outputs, hidden_size=3, **direction, **settings))
    nodes += [node("Transpose", ["all"], ["of_samples"], perm=[2, 0, 1, 3])]
    nodes += [node("Transpose", [name], [f"of_{name}"], perm=[1, 0, 2]) for name in outputs[1:]]
    flat = [("of_samples", "flat"), *((f"of_{name}", "flat") for name in outputs[1:])]
    nodes += [node("Reshape", list(pair), [f"part{place}"]) for place, pair in enumerate(flat)]
    nodes.append(node("Concat", [f"part{place}" for place in range(len(flat))], ["y"], axis=1))
    return Graph(nodes, (4, 2), more, samples=SAMPLES if given and not by_data else "N")


def of_function(name: str, *numbers: float) -> Graph:
    """A plain recurrence with a function that has settings."""
    given = {f"activation_{which}": [each] for which, each in zip(("alpha", "beta"), numbers, strict=False)}
    return cell("RNN", "h", activations=[name], **given)


CELLS = {
    "LSTM with peepholes": cell("LSTM", "p"),
    "LSTM both ways with peepholes": cell("LSTM", "p", both=True),
    "LSTM with lengths and states": cell("LSTM", "n", "h", "c"),
    "LSTM both ways with lengths": cell("LSTM", "n", both=True),
    "LSTM with its states alone": cell("LSTM"),
    "LSTM whose gates sum to one": cell("LSTM", "h", "c", input_forget=1),
    "LSTM with a clip": cell("LSTM", "c", clip=0.4),
    "LSTM with other functions": cell("LSTM", "p", activations=["HardSigmoid", "Softsign", "Tanh"]),
    "LSTM with functions of each way": cell(
        "LSTM", "h", both=True, activations=["Sigmoid", "Tanh", "Softsign", "HardSigmoid", "Relu", "Tanh"]
    ),
    "GRU with lengths": cell("GRU", "n", "h"),
    "GRU with a clip": cell("GRU", clip=0.4, linear_before_reset=1),
    "GRU backward with lengths": cell("GRU", "n", direction="reverse", linear_before_reset=1),
    "RNN both ways with lengths": cell("RNN", "n", "h", both=True),
    "GRU of lengths and states of the data": cell("GRU", "n", "h", by_data=True),
    **{
        f"RNN of {name} {given or 'as it is'}": of_function(name, *given)
        for name, given in (
            ("LeakyRelu", (0.3,)),
            ("Elu", (0.7,)),
            ("HardSigmoid", (0.4, 0.3)),
            ("HardSigmoid", ()),
            ("Affine", (0.6, 0.2)),
            ("ScaledTanh", (0.8, 0.6)),
            ("ThresholdedRelu", (0.1,)),
            ("Softplus", ()),
        )
    },
}


@pytest.mark.parametrize("exclusive", [0, 1, None])
@pytest.mark.parametrize("reverse", [0, 1, None])
def test_products_up_to_each_element(exclusive: int | None, reverse: int | None, tmp_path: Path) -> None:
    """onnxruntime has no CumProd yet."""
    given = {name: value for name, value in (("exclusive", exclusive), ("reverse", reverse)) if value is not None}
    graph = one("CumProd", (4, 2), np.asarray(1, np.int64), opset=26, **given)
    x = some(SAMPLES, 4, 2)
    turned = x[:, ::-1] if reverse else x
    wanted = np.cumprod(turned, axis=1)
    if exclusive:
        wanted = np.concatenate([np.ones_like(x[:, :1]), wanted[:, :-1]], 1)
    found = np.asarray(values(load(graph.save(tmp_path / "net.onnx")), {"x": x}, ["y"])["y"])
    np.testing.assert_allclose(found.reshape(x.shape), wanted[:, ::-1] if reverse else wanted, rtol=1e-6)


KINDS = {"sizes": SIZES, "plain": PLAIN, "elements": ELEMENTS, "places": PLACES, "cells": CELLS}


@pytest.mark.parametrize(
    "graph",
    [pytest.param(graph, id=f"{kind}: {name}") for kind, graphs in KINDS.items() for name, graph in graphs.items()],
)
def test_what_is_read_computes_the_same(graph: Graph, tmp_path: Path) -> None:
    agrees(graph, tmp_path)
