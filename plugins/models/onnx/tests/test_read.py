"""Nodes of other programs' graphs, one or a few at a time: what is read computes what onnxruntime computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import SAMPLES, Graph, node, number, one, rounding, same, some, truths, turned, whole
from judge import agrees, load, values
from onnx import TensorProto

PRODUCTS = {
    "a matrix behind": one("MatMul", (3, 4), some(4, 2)),
    "a matrix before": turned("MatMul", (3, 4), some(2, 3)),
    "matrices behind": one("MatMul", (2, 3, 4), some(1, 2, 4, 5)),
    "matrices before": turned("MatMul", (2, 3, 4), some(1, 2, 5, 3)),
    "one of them for all": one("MatMul", (2, 3, 4), some(1, 1, 4, 5)),
    "of fewer axes": one("MatMul", (2, 3, 4), some(2, 4, 5)),
    "a vector behind": one("MatMul", (3, 4), some(4)),
    "a vector before": turned("MatMul", (3, 4), some(3)),
    "with itself": Graph([node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"], ["y"])], (2, 3)),
    "general": one("Gemm", (3,), some(3, 4), some(4)),
    "general, turned and scaled": one("Gemm", (3,), some(4, 3), some(1, 4), transB=1, alpha=0.5, beta=2.0),
    "general, without the sum": one("Gemm", (3,), some(3, 4), some(4), beta=0.0),
    "general, the other way": Graph(
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0]),
            node("Gemm", ["t", "w"], ["y"], transA=1),
        ],
        (3,),
        {"w": some(3, 4)},
    ),
}

BORDERS = {
    "all axes": one("Pad", (3, 2), whole(0, 1, 0, 0, 2, 1)),
    "a number": one("Pad", (3, 2), whole(0, 1, 0, 0, 2, 1), number(7.5)),
    "some axes": one("Pad", (3, 2), whole(1, 2), number(0), whole(2)),
    "axes from the end": one("Pad", (3, 2), whole(1, 0, 2, 3), None, whole(-1, -2)),
    "cut": one("Pad", (5, 4), whole(0, -1, 2, 0, -2, -1)),
    "cut before": one("Pad", (5,), whole(0, -2, 0, 0)),
    "cut behind": one("Pad", (5,), whole(0, 0, 0, -2)),
    "reflected": one("Pad", (4, 3), whole(0, 2, 1, 0, 1, 2), mode="reflect"),
    "the edge": one("Pad", (3, 2), whole(0, 2, 1, 0, 1, 2), mode="edge"),
    "around": one("Pad", (3, 2), whole(0, 2, 1, 0, 1, 0), mode="wrap"),
    "as an attribute": one("Pad", (3, 2), opset=10, pads=[0, 1, 0, 0, 2, 1], value=2.0),
}

ORDERED = {
    "largest": Graph([node("TopK", ["x", "k"], ["y", "other"])], (6,), {"k": whole(2)}),
    "smallest": Graph([node("TopK", ["x", "k"], ["y", "other"], largest=0)], (6,), {"k": whole(2)}),
    "along an axis": Graph([node("TopK", ["x", "k"], ["y", "other"], axis=1)], (6, 2), {"k": whole(3)}),
    "their places": Graph(
        [
            node("TopK", ["x", "k"], ["other", "i"], largest=0, axis=1),
            node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
        ],
        (6, 2),
        {"k": whole(3)},
    ),
    "as an attribute": Graph([node("TopK", ["x"], ["y", "other"], k=2)], (6,), opset=9),
}

BLOCKS = {
    "depth": one("DepthToSpace", (8, 2, 3), blocksize=2),
    "depth by columns": one("DepthToSpace", (8, 2, 3), blocksize=2, mode="CRD"),
    "space": one("SpaceToDepth", (2, 4, 6), blocksize=2),
}

SHAPES = {
    "reshaped": one("Reshape", (3, 4), whole(-1, 2, 6)),
    "zeros stand for the old sizes": one("Reshape", (3, 4, 2), whole(0, 0, -1)),
    "flat": one("Flatten", (3, 4)),
    "flat from the end": one("Flatten", (3, 4), axis=-2),
    "samples and an axis together": one("Flatten", (3, 4), axis=2),
    "all in one": one("Flatten", (3, 4), axis=3),
    "of more axes": one("Unsqueeze", (3, 4), whole(1, -1)),
    "of fewer": one("Squeeze", (1, 4, 1), whole(1)),
    "of fewer from the end": one("Squeeze", (1, 4, 1), whole(-1)),
    "as an attribute": one("Squeeze", (1, 4), opset=11, axes=[1]),
    "more as an attribute": one("Unsqueeze", (4,), opset=11, axes=[1, 3]),
    "in another order": one("Transpose", (2, 3, 4), perm=[0, 3, 1, 2]),
    "there and back": Graph(
        [node("Transpose", ["x"], ["t"]), node("Mul", ["t", "w"], ["m"]), node("Transpose", ["m"], ["y"])],
        (2, 3),
        {"w": some(3, 2, 1)},
    ),
    "samples and heads together": Graph(
        [
            node("Reshape", ["x", "folded"], ["f"]),
            node("Mul", ["f", "w"], ["m"]),
            node("Reshape", ["m", "apart"], ["y"]),
        ],
        (2, 3),
        {"folded": whole(-1, 3), "apart": whole(-1, 2, 3), "w": some(3)},
    ),
}

PARTS = {
    "a range": one("Slice", (6, 3), whole(1), whole(4), whole(1)),
    "from the end": one("Slice", (6, 3), whole(-4), whole(-1), whole(-2)),
    "steps": one("Slice", (7, 3), whole(1), whole(7), whole(1), whole(2)),
    "steps back": one("Slice", (7, 3), whole(-1), whole(-8), whole(1), whole(-3)),
    "all samples": one("Slice", (6, 3), whole(0, 1), whole(2**63 - 1, 3)),
    "as an attribute": one("Slice", (6, 3), opset=9, starts=[1, 0], ends=[5, 2], axes=[1, 2]),
    "even parts": Graph([node("Split", ["x"], ["a", "y"], axis=1, num_outputs=2)], (6, 2)),
    "uneven parts": Graph([node("Split", ["x"], ["a", "b", "y"], axis=-2, num_outputs=3)], (7, 2)),
    "parts of lengths": Graph([node("Split", ["x", "c"], ["a", "y"], axis=1)], (6, 2), {"c": whole(2, 4)}),
    "parts as an attribute": Graph([node("Split", ["x"], ["a", "y"], axis=1, split=[2, 4])], (6, 2), opset=11),
    "elements": one("Gather", (5, 2), whole(3, -1, 0), axis=1),
    "an element": one("Gather", (5, 2), np.asarray(-2), axis=1),
    "of a table": Graph(
        [node("Cast", ["x"], ["i"], to=TensorProto.INT64), node("Gather", ["t", "i"], ["y"])],
        (3,),
        {"t": some(6, 2)},
        x=[[0, 5, 2], [1, 3, 4]],
    ),
    "some of all": one("Compress", (5, 2), np.asarray([True, False, True, True, False]), axis=1),
    "joined": one("Concat", (3, 2), some(1, 4, 2), axis=1, x=some(1, 3, 2)),
    "joined with itself": Graph([node("Concat", ["x", "x"], ["y"], axis=-1)], (3, 2)),
    "repeated": one("Tile", (3, 2), whole(1, 2, 3)),
    "spread": one("Expand", (1, 3), whole(1, 4, 3)),
    "spread to the left": Graph(
        [node("Expand", ["x", "c"], ["e"]), node("Transpose", ["e"], ["y"], perm=[1, 0, 2])],
        (3,),
        {"c": whole(4, 1, 3)},
    ),
    "above the diagonal": one("Trilu", (3, 4), np.asarray(1, np.int64)),
    "below the diagonal": one("Trilu", (3, 4), upper=0),
}

PLACES = {
    "elements": one("GatherElements", (3, 4), same([[0, -1, 2, 1], [2, 2, 0, 1]]), axis=1, samples=SAMPLES),
    "elements of a part": one("GatherElements", (3, 4), same([[0], [-1]]), axis=1, samples=SAMPLES),
    "elements of a row": one("GatherElements", (3, 4), same([[3, 0]]), axis=-1, samples=SAMPLES),
    "put": one("ScatterElements", (4,), same([1, -1]), some(2, 2), axis=1, samples=SAMPLES),
    **{
        how: one("ScatterElements", (4,), same([1, -1]), some(2, 2), axis=1, samples=SAMPLES, reduction=how)
        for how in ("add", "mul", "max", "min")
    },
    "by tuples": one("GatherND", (3, 2), whole([0, 2], [1, -1], [0, 0]), samples=SAMPLES),
    "by tuples in each row": Graph(
        [
            node("Transpose", ["x"], ["t"], perm=[1, 2, 0]),
            node("GatherND", ["t", "c"], ["p"], batch_dims=1),
            node("Transpose", ["p"], ["y"], perm=[2, 0, 1]),
        ],
        (3, 2),
        {"c": whole([[1]], [[0]], [[-1]])},
    ),
}

REDUCTIONS = {
    **{
        kind: one(f"Reduce{kind}", (3, 4), whole(1), opset=20, x=np.abs(some(2, 3, 4)) + 0.5)
        for kind in ("Sum", "Mean", "Max", "Min", "Prod", "LogSumExp", "L1", "L2", "SumSquare", "LogSum")
    },
    "of negative numbers": one("ReduceL1", (3, 4), whole(1)),
    "of two axes": one("ReduceSum", (3, 4), whole(1, -1), keepdims=0),
    "without the axis": one("ReduceMean", (3, 4), whole(-1), keepdims=0),
    "none": one("ReduceSum", (3, 4), whole(), noop_with_empty_axes=1),
    "as an attribute": one("ReduceMax", (3, 4), opset=11, axes=[2], keepdims=0),
    **{
        f"{kind} {last}{kept}": Graph(
            [
                node(kind, ["x"], ["i"], axis=1, select_last_index=last, keepdims=kept),
                node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
            ],
            (5, 2),
            x=np.round(some(2, 5, 2) / 2),
        )
        for kind in ("ArgMax", "ArgMin")
        for last in (0, 1)
        for kept in (0, 1)
    },
    **{kind: one(kind, (3, 4), axis=1) for kind in ("Softmax", "LogSoftmax", "Hardmax")},
    **{f"{kind} of the last": one(kind, (4,)) for kind in ("Softmax", "LogSoftmax", "Hardmax")},
    "old softmax": one("Softmax", (4,), opset=11),
}

MATRICES = {
    "sums": one("CumSum", (4, 2), np.asarray(1, np.int64)),
    "sums from the end": one("CumSum", (4, 2), np.asarray(-2, np.int64), reverse=1),
    "sums before": one("CumSum", (4, 2), np.asarray(2, np.int64), exclusive=1),
    "sums behind": one("CumSum", (4, 2), np.asarray(1, np.int64), exclusive=1, reverse=1),
    "norm of one": one("LpNormalization", (4, 3), p=1, axis=1),
    "norm of two": one("LpNormalization", (4, 3)),
}

WINDOWS = {
    "convolution": one("Conv", (2, 5, 6), some(3, 2, 3, 2), some(3)),
    "strides, gaps and borders": one(
        "Conv", (2, 7, 8), some(3, 2, 3, 2), strides=[2, 1], dilations=[1, 2], pads=[1, 0, 2, 1]
    ),
    "groups": one("Conv", (4, 5), some(6, 2, 3), group=2),
    "alike": one("Conv", (2, 5, 6), some(3, 2, 2, 2), auto_pad="SAME_UPPER", strides=[2, 2]),
    "alike before": one("Conv", (2, 5, 6), some(3, 2, 2, 2), auto_pad="SAME_LOWER"),
    "transposed": one("ConvTranspose", (2, 3, 4), some(2, 3, 3, 2), some(3), strides=[2, 1], pads=[1, 0, 0, 1]),
    "transposed with more": one(
        "ConvTranspose", (2, 3, 4), some(2, 3, 3, 3), strides=[2, 3], output_padding=[1, 2], pads=[0, 1, 0, 1]
    ),
    "the largest": one("MaxPool", (2, 5, 6), kernel_shape=[2, 3], strides=[2, 2]),
    "the largest to the end": one("MaxPool", (2, 5, 6), kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1),
    "the largest with borders": one("MaxPool", (2, 5), kernel_shape=[3], pads=[1, 1], x=-np.abs(some(2, 2, 5)) - 1),
    "the largest with gaps": one("MaxPool", (2, 7), kernel_shape=[3], dilations=[2], strides=[2], pads=[1, 1]),
    "no window behind the image": one("MaxPool", (2, 4), kernel_shape=[2], strides=[2], pads=[0, 1], ceil_mode=1),
    "means with borders and a rest": one("AveragePool", (2, 6), kernel_shape=[3], strides=[2], pads=[1, 1]),
    "means": one("AveragePool", (2, 5, 6), kernel_shape=[2, 3], strides=[2, 2]),
    "means with borders": one("AveragePool", (2, 5), kernel_shape=[3], pads=[1, 1]),
    "means of borders": one("AveragePool", (2, 5), kernel_shape=[3], pads=[1, 1], count_include_pad=1),
    "means to the end": one("AveragePool", (2, 6), kernel_shape=[3], strides=[2], ceil_mode=1),
    "means with gaps": one("AveragePool", (2, 7), kernel_shape=[3], dilations=[2], pads=[1, 2]),
    "means of borders with gaps": one(
        "AveragePool", (2, 7), kernel_shape=[3], dilations=[2], pads=[1, 2], count_include_pad=1
    ),
    "all means": one("GlobalAveragePool", (2, 5, 6)),
    "all largest": one("GlobalMaxPool", (2, 5, 6)),
}

NORMALIZED = {
    "by training": one(
        "BatchNormalization", (3, 4), some(3), some(3) + 9, some(3) - 2, np.abs(some(3)) + 0.1, epsilon=0.01
    ),
    "layers": one("LayerNormalization", (3, 4), some(4), some(4) + 9, epsilon=0.01),
    "layers of two axes": one("LayerNormalization", (3, 4), some(3, 4), axis=1),
    "each picture": one("InstanceNormalization", (3, 4, 2), some(3), some(3) + 9, epsilon=0.01),
    "neighbours": one("LRN", (7, 2, 2), size=3, alpha=0.3, beta=0.6, bias=1.5),
}

ELEMENTS = {
    "quotients": one("Div", (5,), some(5) * 3 + 0.1),
    "quotients of a constant": turned("Div", (5,), number([1, -2, 3, 4, 5]), x=some(2, 5) * 3 + 0.1),
    "whole quotients": rounding([node("Div", ["i", "w"], ["q"])], {"w": whole(2, -3, 3, -2, 4)}, [-7, -7, 7, 7, -8]),
    "whole quotients by the data": rounding([node("Div", ["w", "i"], ["q"])], {"w": whole(7)}, [2, -2, 3, -3, 8]),
    "remainders": rounding([node("Mod", ["i", "w"], ["q"])], {"w": whole(3, -3, 3, -3, 3)}, [7, 7, -7, -7, 6]),
    "remainders with a sign": one("Mod", (4,), number([3, -3, 3, -3]), fmod=1, x=[[7.5, 7.5, -7.5, -7.5]] * 2),
    "the least": one("Min", (4,), some(4), some(4)[::-1].copy()),
    "the most": one("Max", (4,), some(4), some(4)[::-1].copy()),
    "the sum": one("Sum", (4,), some(4), some(4)),
    "the mean": one("Mean", (4,), some(4), some(4)),
    "truths": truths([node("And", ["a", "b"], ["t"])]),
    "either": truths([node("Or", ["a", "b"], ["t"])]),
    "one of two": truths([node("Xor", ["a", "b"], ["t"])]),
    "not": truths([node("Not", ["a"], ["t"])]),
    "chosen": Graph([node("Less", ["x", "z"], ["t"]), node("Where", ["t", "z", "x"], ["y"])], (4,), {"z": number(0.3)}),
    "cut to whole numbers": rounding([node("Identity", ["i"], ["q"])], {}, [-1.7, 1.7, -0.2, 2.0, -3.0]),
    "rounded": one("Round", (7,), x=[[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.6]]),
    "rounded up": one("Ceil", (5,), x=[[-1.5, -1, 0, 0.2, 2]]),
    "the sign": one("Sign", (5,), x=[[-1.5, -0.1, 0, 0.2, 2]]),
    "within limits": one("Clip", (6,), number(-0.5), number(0.75)),
    "above a limit": one("Clip", (6,), number(-0.5)),
    "below a limit": one("Clip", (6,), None, number(0.5)),
    "limits that cross": one("Clip", (6,), number(0.5), number(-0.5)),
    "limits as attributes": one("Clip", (6,), opset=6, min=-0.5, max=0.75),
    "quantized": Graph(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
            node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1),
        ],
        (2, 3),
        {"s": number([0.3, 0.7]), "z": np.asarray([3, 130], np.uint8)},
    ),
    **{
        kind: one(kind, (6,), **more)
        for kind, more in {
            "Elu": {"alpha": 0.7},
            "LeakyRelu": {"alpha": 0.3},
            "HardSigmoid": {"alpha": 0.4, "beta": 0.3},
            "Selu": {"alpha": 1.5, "gamma": 0.9},
            "HardSwish": {},
            "Mish": {},
            "Gelu": {"approximate": "tanh"},
        }.items()
    },
    **{f"{kind} as it is": one(kind, (6,)) for kind in ("Elu", "LeakyRelu", "HardSigmoid", "Selu", "Gelu")},
    "slopes": one("PRelu", (3, 2), some(3, 1)),
}

SUMS = {
    "products of matrices": one("Einsum", (3, 4), some(4, 5), equation="nij,jk->nik"),
    "one axis for all": one("Einsum", (3, 4), some(3), equation="nij,i->nj"),
    "axes without names": one("Einsum", (2, 3, 4), some(4, 5), equation="...ij,jk->...ik"),
    "in another order": one("Einsum", (3, 4), equation="nij->nji"),
    "of one": one("Einsum", (3, 4), equation="nij->nj"),
    "without an arrow": one("Einsum", (3,), some(3, 4), equation="bi,ic"),
    "heads": Graph([node("Einsum", ["x", "x"], ["y"], equation="nhqd,nhkd->nhqk")], (2, 3, 4)),
    "of three": one("Einsum", (3,), some(3, 4), some(4, 2), equation="ni,ij,jk->nk"),
}


def recurrent(
    kind: str, gates: int, *, both: bool = False, first: float | None = None, lengths: Any = None, **settings: Any
) -> Graph:
    """Sequences of four steps, and what comes of each; the file has steps first.

    Args:
        kind: of cell.
        gates: how many it has.
        both: directions.
        first: all of the first state, for two samples; None does not give one.
        lengths: of the two sequences.
    """
    ways = 2 if both else 1
    more = {"w": some(ways, gates * 3, 2) / 9, "r": some(ways, gates * 3, 3) / 9, "b": some(ways, gates * 6) / 9}
    given = {**settings, "direction": "bidirectional"} if both else settings
    more |= {} if first is None else {"h": np.full((ways, SAMPLES, 3), first, np.float32)}
    more |= {} if lengths is None else {"n": np.asarray(lengths, np.int32)}
    names = ["steps", "w", "r", "b", *[name if name in more else "" for name in ("n", "h")]]
    return Graph(
        [
            node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
            node(kind, names, ["all", "last"], hidden_size=3, **given),
            node("Transpose", ["all"], ["of_samples"], perm=[2, 0, 1, 3]),
            node("Reshape", ["of_samples", "flat"], ["first"]),
            node("Transpose", ["last"], ["of_last"], perm=[1, 0, 2]),
            node("Reshape", ["of_last", "flat"], ["second"]),
            node("Concat", ["first", "second"], ["y"], axis=1),
        ],
        (4, 2),
        {**more, "flat": whole(0, -1)},
        samples="N" if first is None and lengths is None else SAMPLES,
    )


RECURRENT = {
    "LSTM": recurrent("LSTM", 4),
    "LSTM both ways": recurrent("LSTM", 4, both=True),
    "LSTM backward": recurrent("LSTM", 4, direction="reverse"),
    "GRU": recurrent("GRU", 3, linear_before_reset=1),
    "GRU both ways": recurrent("GRU", 3, both=True, linear_before_reset=1),
    "GRU of another kind": recurrent("GRU", 3),
    "RNN": recurrent("RNN", 1),
    **{f"{kind} from 0": recurrent(kind, gates, first=0.0) for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))},
    **{f"{kind} from 0.5": recurrent(kind, gates, first=0.5) for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))},
    "LSTM of all steps": recurrent("LSTM", 4, lengths=[4, 4]),
    "RNN with rectifiers": recurrent("RNN", 1, activations=["Relu"]),
}


def resized(shape: tuple[int, ...], scales: list[float], **settings: Any) -> Graph:
    return one("Resize", shape, None, number([1, *scales]), **settings)


RESIZED = {
    "twice as large": resized((2, 3, 4), [1, 2, 2]),
    "larger": resized((2, 3, 4), [1, 1.5, 2.25]),
    "smaller": resized((2, 5, 6), [1, 0.6, 0.5]),
    "channels too": resized((2, 3), [2, 1]),
    **{
        f"{rounding}, {places}": resized((8,), [1.75], nearest_mode=rounding, coordinate_transformation_mode=places
        )
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        for places in ("half_pixel", "asymmetric", "align_corners")
    },
    **{
        f"twice, {rounding}, {places}": resized((3,), [2], nearest_mode=rounding, coordinate_transformation_mode=places)
        for rounding, places in (
            ("floor", "asymmetric"), ("floor", "half_pixel"), ("ceil", "asymmetric"),
            ("round_prefer_ceil", "asymmetric"), ("round_prefer_floor", "half_pixel"),
        )
    },
    **{
        f"linear, {places}": resized((2, 4, 5), [1, 1.5, 0.6], mode="linear", coordinate_transformation_mode=places)
        for places in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
    },
    "one of many": resized((2, 4), [1, 0.25], mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
    "cubic": resized((1, 5, 6), [1, 1.6, 0.5], mode="cubic"),
    "cubic of another kind": resized((1, 5, 6), [1, 1.6, 1.5], mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    "without aliases": resized((1, 5, 6), [1, 0.6, 1.5], mode="linear", antialias=1),
    "cubic without aliases": resized((1, 7, 6), [1, 0.5, 0.7], mode="cubic", antialias=1),
    "a part": one(
        "Resize", (1, 5, 6), number([0, 0, 0.2, 0.1, 1, 1, 0.7, 0.8]), number([1, 1, 0.8, 1.5]), mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
    ),
    "sizes": one("Resize", (1, 4, 5), None, None, whole(SAMPLES, 1, 6, 3), mode="linear", samples=SAMPLES),
    "not larger": one(
        "Resize", (1, 4, 6), None, None, whole(8, 9), axes=[2, 3], keep_aspect_ratio_policy="not_larger",
    ),
    "not smaller": one(
        "Resize", (1, 4, 6), None, None, whole(8, 9), axes=[2, 3], keep_aspect_ratio_policy="not_smaller",
    ),
    "before": one("Upsample", (1, 2, 3), number([1, 1, 2, 3]), opset=9),
    "linear before": one("Upsample", (1, 2, 3), number([1, 1, 2, 3]), opset=9, mode="linear"),
}  # fmt: skip

KINDS = {
    "products": PRODUCTS,
    "borders": BORDERS,
    "ordered": ORDERED,
    "blocks": BLOCKS,
    "shapes": SHAPES,
    "parts": PARTS,
    "places": PLACES,
    "reductions": REDUCTIONS,
    "matrices": MATRICES,
    "windows": WINDOWS,
    "normalized": NORMALIZED,
    "elements": ELEMENTS,
    "sums": SUMS,
    "recurrent": RECURRENT,
    "resized": RESIZED,
}


@pytest.mark.parametrize(
    "graph",
    [pytest.param(graph, id=f"{kind}: {name}") for kind, graphs in KINDS.items() for name, graph in graphs.items()],
)
def test_what_is_read_computes_the_same(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ONNX's definitions of operations by others, which would stand in for what is not read."""
    monkeypatch.setattr("cntk_model_onnx.read.importer.has_definition", lambda node, opset: False)
    agrees(graph, tmp_path)


def test_old_borders(tmp_path: Path) -> None:
    graph = one("Pad", (3, 2), opset=1, paddings=[0, 1, 0, 0, 2, 1], value=2.0)
    x = some(SAMPLES, 3, 2)
    found = values(load(graph.save(tmp_path / "net.onnx")), {"x": x}, ["y"])["y"]
    np.testing.assert_array_equal(found, np.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=2.0))


@pytest.mark.parametrize(
    ("name", "is_stack"),
    [("LSTM", True), ("LSTM backward", True), ("LSTM from 0", True), ("LSTM of all steps", True),
     ("LSTM from 0.5", False), ("GRU", True), ("GRU of another kind", False), ("RNN from 0", True)],
)  # fmt: skip
def test_stacks_are_read_as_stacks(name: str, is_stack: bool, tmp_path: Path) -> None:
    network = load(RECURRENT[name].save(tmp_path / "net.onnx"))
    assert any(one.op.name == "OptimizedRNNStack" for one in network) == is_stack
