"""Seldom settings of nodes, axes in other places than usual, and graphs of one value for the whole minibatch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from graphs import SAMPLES, Graph, node, number, one, some, whole
from judge import agrees, gap, load, values
from onnx import TensorProto, helper, numpy_helper

from cntk_core.api import UnsupportedError

info = helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT


def equation(text: str, shape: tuple[int, ...], *constants: Any) -> Graph:
    return one("Einsum", shape, *constants, equation=text)


def with_itself(text: str, shape: tuple[int, ...]) -> Graph:
    return Graph([node("Einsum", ["x", "x"], ["y"], equation=text)], shape)


EQUATIONS = {
    each: equation(each, shape, *constants)
    for each, shape, constants in [
        ("bij->bji", (2, 3), ()), ("bij->bi", (2, 3), ()), ("bij->b", (2, 3), ()), ("bi,ij->bj", (3,), (some(3, 4),)),
        ("bij,jk->bik", (2, 3), (some(3, 4),)), ("bij,kj->bki", (2, 3), (some(4, 3),)),
        ("bij,j->bi", (2, 3), (some(3),)),
        ("bij,i->bj", (2, 3), (some(2),)), ("bi,j->bij", (3,), (some(2),)), ("bij,ij->bij", (2, 3), (some(2, 3),)),
        ("bij,jk->bk", (2, 3), (some(3, 4),)), ("bi,ij,jk->bk", (2,), (some(2, 3), some(3, 4))),
        ("b i j , j k -> b i k", (2, 3), (some(3, 4),)),
    ]
}  # fmt: skip
EQUATIONS |= {
    f"{each} of itself": with_itself(each, shape)
    for each, shape in [("bij,bij->bij", (2, 3)), ("bij,bij->bi", (2, 3)), ("bij,bij->b", (2, 3)), ("bi,bj->bij", (3,)),
                        ("bij,bkj->bik", (2, 3)), ("bij,bik->bjk", (2, 3))]
}  # fmt: skip


def turned(*after: Any, shape: tuple[int, ...] = (3, 4), perm: tuple[int, ...] = (1, 0, 2), more: Any = ()) -> Graph:
    """Nodes of ``t``, in which the samples are no first axis, to ``u``, and the samples first again."""
    rank = len(perm)
    back = [node("Transpose", ["u"], ["y"], perm=[perm.index(axis) for axis in range(rank)])]
    return Graph([node("Transpose", ["x"], ["t"], perm=perm), *after, *back], shape, dict(more))


AXES = {
    "more and fewer axes behind": turned(
        node("Unsqueeze", ["t", "a"], ["v"]), node("Mul", ["v", "w"], ["m"]), node("Squeeze", ["m", "a"], ["u"]),
        more={"a": whole(0, 2), "w": some(3, 1, 1, 4)},
    ),
    "an axis before the samples": turned(
        node("Unsqueeze", ["t", "a"], ["v"]), node("Squeeze", ["v", "a"], ["u"]), more={"a": whole(1)}
    ),
    "joined": turned(node("Concat", ["t", "t"], ["v"], axis=2), node("Slice", ["v", "b", "e", "a"], ["u"]),
                     more={"b": whole(2), "e": whole(6), "a": whole(2)}),
    "joined with nothing": turned(node("Concat", ["e", "t", "e"], ["u"], axis=0), more={"e": some(0, 2, 4)}),
    "sums": turned(node("CumSum", ["t", "a"], ["u"]), more={"a": np.asarray(0, np.int64)}),
    "softmax": turned(node("Softmax", ["t"], ["u"], axis=0)),
    "largest": turned(node("Hardmax", ["t"], ["u"], axis=0)),
    "a constant with the samples' axis": turned(node("Add", ["t", "w"], ["u"]), more={"w": some(3, 1, 4)}),
    "the samples behind": turned(
        node("Unsqueeze", ["t", "a"], ["v"]), node("Mul", ["v", "w"], ["m"]), node("Squeeze", ["m", "a"], ["u"]),
        perm=(1, 2, 0), more={"a": whole(0, 2), "w": some(3, 1, 4, 1)},
    ),
    **{
        f"repeated along {what}": Graph(
            [node("Expand", ["x", "s"], ["v"]), node("Mul", ["v", "w"], ["m"]),
             node("Transpose", ["m"], ["y"], perm=[1, 0, 2])],
            (3,), {"s": whole(count, 1, 3), "w": some(count, 1, 3)},
        )
        for what, count in (("a new axis", 4), ("a new axis once", 1))
    },
    "blocks of columns": one("DepthToSpace", (12, 2, 3), blocksize=2, mode="CRD"),
    "squeezed as far as it goes": one("Squeeze", (1, 3, 1)),
    "largest of the first axis": turned(
        node("ArgMax", ["t"], ["i"]), node("Cast", ["i"], ["u"], to=FLOAT), perm=(1, 0, 2)
    ),
    **{f"{kind} of an axis between": one(kind, (2, 3, 4), axis=2) for kind in ("Softmax", "LogSoftmax", "Hardmax")},
    "a product of turned matrices": Graph(
        [node("Transpose", ["x"], ["t"]), node("Gemm", ["t", "w"], ["y"], transA=1)], (3,), {"w": some(3, 4)}
    ),
    "samples and heads, and an axis of 1 between": Graph(
        [
            node("Reshape", ["x", "folded"], ["f"]),
            node("Unsqueeze", ["f", "one"], ["v"]),
            node("Mul", ["v", "w"], ["m"]),
            node("Squeeze", ["m", "one"], ["g"]),
            node("Reshape", ["g", "apart"], ["y"]),
        ],
        (2, 3),
        {"folded": whole(-1, 3), "one": whole(1), "w": some(3), "apart": whole(-1, 2, 3)},
    ),
}  # fmt: skip

RESIZED = {
    "of version 10": one("Resize", (1, 2, 3), number([1, 1, 2, 1.5]), opset=10),
    "of version 10, linear": one("Resize", (1, 2, 3), number([1, 1, 2, 3]), opset=10, mode="linear"),
    "a part beyond the image": one(
        "Resize", (1, 4, 4), number([0, 0, -0.5, 0, 1, 1, 1.4, 1]), number([1, 1, 1.5, 1]), mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
    ),
    "one place of a part": one(
        "Resize", (1, 4, 4), number([0, 0, 0.2, 0, 1, 1, 0.9, 1]), number([1, 1, 0.25, 1]), mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
    ),
    "axes by their numbers": one("Resize", (2, 4), None, number([1.5]), axes=[2], mode="linear"),
    "sizes of all axes": one("Resize", (1, 4), None, None, whole(2, 1, 8), mode="linear"),
    "one place": one(
        "Resize", (1, 4), None, number([1, 1, 0.25]), mode="linear", coordinate_transformation_mode="align_corners"
    ),
}  # fmt: skip

POOLED = {
    "largest with gaps to the end": one(
        "MaxPool", (2, 8), kernel_shape=[3], dilations=[2], strides=[2], pads=[1, 1], ceil_mode=1
    ),
    "largest with gaps of planes": one("MaxPool", (1, 7, 8), kernel_shape=[2, 3], dilations=[2, 3], strides=[1, 2]),
    "means with gaps of planes": one(
        "AveragePool", (1, 7, 8), kernel_shape=[2, 3], dilations=[3, 2], pads=[1, 0, 0, 1]
    ),
    "means to the end with borders": one(
        "AveragePool", (2, 7), kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1
    ),
    "means that fill the image": one("AveragePool", (2, 7), kernel_shape=[3], strides=[2], ceil_mode=1),
    "means of all borders": one(
        "AveragePool", (1, 5, 6), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0], count_include_pad=1
    ),
    "alike below": one("MaxPool", (1, 5, 6), kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
    "alike above": one("AveragePool", (1, 5, 6), kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    **{f"wide, {where}": one("MaxPool", (1, 6, 7), kernel_shape=[5, 4], auto_pad=f"SAME_{where.upper()}")
       for where in ("lower", "upper")},
    "no borders": one("MaxPool", (1, 5, 6), kernel_shape=[2, 3], auto_pad="VALID"),
    "no window behind the image": one(
        "MaxPool", (1, 4), kernel_shape=[2], dilations=[2], strides=[4], pads=[0, 1], ceil_mode=1
    ),
}  # fmt: skip

QUANTIZED = {
    str(np.dtype(kind)): Graph(
        [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])],
        (4,), {"s": number(0.5), "z": np.asarray(3, kind)}, x=[[-200.0, -3.2, 3.2, 200.0], [0.25, 0.75, 1.25, -0.25]],
    )
    for kind in (np.int8, np.uint8)
}  # fmt: skip

PLACED = {
    "elements from both ends": one("GatherElements", (4,), whole([0, -1], [-4, 3]), axis=1, samples=SAMPLES),
    "tuples from both ends": Graph(
        [node("GatherND", ["x", "c"], ["y"], batch_dims=1)], (3, 2), {"c": whole([-3], [2])}, samples=SAMPLES
    ),
    "parts of the first axes": one("Slice", (4, 3), opset=9, starts=[0, 1, 0], ends=[2**31 - 1, 3, 2]),
    "a table backwards": Graph(
        [node("Slice", ["w", "b", "e", "a", "s"], ["c"]), node("Add", ["x", "c"], ["y"])], (3,),
        {"w": some(3), "b": whole(2), "e": whole(-(2**63)), "a": whole(0), "s": whole(-1)},
    ),
    "as many samples": Graph(
        [node("Shape", ["x"], ["n"], end=1), node("Div", ["n", "c"], ["m"]),
         node("Concat", ["m", "rest"], ["s"], axis=0), node("Reshape", ["x", "s"], ["y"])],
        (6,), {"c": whole(1), "rest": whole(2, 3)},
    ),
}  # fmt: skip


def halves(*nodes: Any, rows: Any = ((5.0, -7.0, 2.0, 9.0), (1.0, 3.0, -5.0, 0.0)), **more: Any) -> Graph:
    """Whole numbers ``i``, of which the nodes make ``w``; their halves, cut towards 0 if ``w`` are whole numbers."""
    begin, end = node("Cast", ["x"], ["i"], to=TensorProto.INT64), node("Cast", ["h"], ["y"], to=FLOAT)
    constants = {"two": whole(2), "zero": whole(0), "k": whole(3), "real": number(0), **more}
    return Graph([begin, *nodes, node("Div", ["w", "two"], ["h"]), end], (4,), constants, x=rows)


WHOLE_NUMBERS = {
    "passed on": halves(node("Identity", ["i"], ["w"])),
    "summed": halves(node("Add", ["i", "k"], ["w"])),
    "largest places": halves(node("ArgMax", ["x"], ["w"], axis=1)),
    "smallest places": halves(node("ArgMin", ["x"], ["w"], axis=1)),
    "places in order": halves(node("TopK", ["x", "k"], ["best", "w"], axis=1)),
    "in order": halves(node("TopK", ["i", "k"], ["w", "places"], axis=1)),
    "chosen": halves(node("Greater", ["x", "real"], ["c"]), node("Where", ["c", "i", "zero"], ["w"])),
    "cast like others": halves(node("CastLike", ["x", "two"], ["w"])),
    "a quotient of constants": halves(
        node("Div", ["nine", "two"], ["q"]), node("Div", ["i", "q"], ["w"]), nine=whole(9)
    ),
    "numbers by their places": Graph(
        [node("Gather", ["x", "c"], ["g"], axis=1), node("Cast", ["g"], ["i"], to=TensorProto.INT64),
         node("Cast", ["i"], ["y"], to=FLOAT)],
        (3,), {"c": whole(2, 0)}, x=[[1.5, 2.0, -2.75], [0.5, 1.0, 3.25]],
    ),
    "parts": halves(node("Split", ["i"], ["w", "rest"], axis=1, num_outputs=2)),
}  # fmt: skip

KINDS = {
    "placed": PLACED,
    "whole numbers": WHOLE_NUMBERS,
    "quantized": QUANTIZED,
    "equations": EQUATIONS,
    "axes": AXES,
    "resized": RESIZED,
    "pooled": POOLED,
}


@pytest.mark.parametrize(
    "graph",
    [pytest.param(graph, id=f"{kind}: {name}") for kind, graphs in KINDS.items() for name, graph in graphs.items()],
)
def test_what_is_read_computes_the_same(graph: Graph, tmp_path: Path) -> None:
    agrees(graph, tmp_path)


@pytest.mark.parametrize("alpha", [None, 0.5])
def test_swish(alpha: float | None, tmp_path: Path) -> None:
    """onnxruntime has it not yet."""
    x = some(SAMPLES, 4)
    given = {} if alpha is None else {"alpha": alpha}
    path = one("Swish", (4,), opset=24, **given).save(tmp_path / "net.onnx")
    found = values(load(path), {"x": x}, ["y"])["y"]
    assert gap(found, x / (1 + np.exp(-(alpha or 1.0) * x))) < 1e-6


# -- one value for the whole minibatch --------------------------------------------------------------------


def of_all(path: Path, nodes: list[Any], constants: dict[str, Any], sizes: list[int]) -> Path:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    # A product of the input with itself mixes what would be samples.
    mixed = [node("MatMul", ["x", "x"], ["xx"]), *nodes]
    graph = helper.make_graph(mixed, "g", [info("x", FLOAT, sizes)], [info("y", FLOAT, None)], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


WHOLE: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "a sum of all": ([node("ReduceSum", ["xx"], ["y"])], {}),
    "a sum of all without axes": ([node("ReduceSum", ["xx"], ["y"], keepdims=0)], {}),
    "the first axis": ([node("ReduceMax", ["xx", "a"], ["y"])], {"a": whole(0)}),
    "rows": ([node("Gather", ["xx", "a"], ["y"])], {"a": whole(2, 0)}),
    "some elements": ([node("Compress", ["xx", "a"], ["y"])], {"a": np.asarray([True, False, True, False, True])}),
    "some rows": ([node("Compress", ["xx", "a"], ["y"], axis=0)], {"a": np.asarray([True, False, True])}),
    "another shape": ([node("Reshape", ["xx", "a"], ["y"])], {"a": whole(1, -1)}),
    "more axes": ([node("Unsqueeze", ["xx", "a"], ["y"])], {"a": whole(0, 3)}),
    "fewer axes": (
        [node("Unsqueeze", ["xx", "a"], ["u"]), node("Exp", ["u"], ["e"]), node("Squeeze", ["e"], ["y"])],
        {"a": whole(1)},
    ),
    "the other order": ([node("Transpose", ["xx"], ["y"])], {}),
    "flat": ([node("Flatten", ["xx"], ["y"], axis=0)], {}),
    "parts": ([node("Split", ["xx"], ["a", "y"], num_outputs=2)], {}),
    "tiles": ([node("Tile", ["xx", "a"], ["y"])], {"a": whole(2, 1)}),
    "a softmax of columns": ([node("Softmax", ["xx"], ["y"], axis=0)], {}),
    "a vector": ([node("MatMul", ["xx", "v"], ["y"])], {"v": some(3)}),
    "places": ([node("ScatterND", ["xx", "i", "u"], ["y"])], {"i": whole([2], [0]), "u": some(2, 3)}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_graphs_of_one_value(name: str, tmp_path: Path) -> None:
    from cntk_model_onnx.check import session_of

    nodes, constants = WHOLE[name]
    path = of_all(tmp_path / "net.onnx", nodes, constants, [3, 3])
    x = some(3, 3)
    (wanted,) = session_of(path).run(None, {"x": x})
    found = np.asarray(values(load(path), {"x": x}, ["y"])["y"])
    assert found.size == wanted.size
    assert gap(found.reshape(wanted.shape), wanted) < 1e-5 * max(1.0, float(np.abs(wanted).max()))


def branch(kind: str, *more: str) -> onnx.GraphProto:
    return helper.make_graph([node(kind, ["x", *more], [kind])], kind, [], [info(kind, FLOAT, None)])


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (one("Compress", (3,), np.asarray([True, False])), "it works along the samples of a minibatch"),
        (one("ReduceSum", (3,)), "it works along the samples of a minibatch"),
        (one("MaxPool", (1, 200), kernel_shape=[129], dilations=[1]), ""),
        (one("MaxPool", (1, 300), kernel_shape=[129], dilations=[2]),
         "its windows have gaps, and they or its input are too large"),
        (Graph([node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Concat", "x"), name="if")],
               (2,), {"c": np.bool_(True)}), ""),
        (Graph([node("ReduceMax", ["x", "a"], ["m"]), node("Greater", ["m", "z"], ["c"]),
                node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Mul", "w"), name="if")],
               (1,), {"a": whole(1), "z": number(0), "w": some(3)}),
         "its results have other sizes if its condition holds"),
        (one("Einsum", (3,), some(3, 2), equation="bi,ij"), ""),
        (one("MatMul", (256, 1, 2), np.zeros((256, 2, 1), np.float32)), ""),
        (one("MatMul", (257, 1, 2), np.zeros((257, 2, 1), np.float32)),
         "it has too many products of matrices, or their number is known only with the data"),
    ],
    ids=["places of samples", "a sum of samples", "a long window", "a long window with gaps", "a branch not taken",
         "two sizes", "an equation without a result", "many products", "too many products"],
)  # fmt: skip
def test_what_is_refused_and_what_is_not(graph: Graph, why: str, tmp_path: Path) -> None:
    path = graph.save(tmp_path / "net.onnx")
    if not why:
        load(path)
        return
    with pytest.raises(UnsupportedError) as caught:
        load(path)
    assert str(caught.value).endswith(f"': {why}")
