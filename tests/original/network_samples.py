"""Criteria, and operations whose result hangs on the whole shape: a random sketch of each, and how ours is called."""

from __future__ import annotations

from typing import Any

import numpy as np
from cntk_builder_python import LayerNormalization, Term, binary_cross_entropy, element_max, element_min, mean
from network_inputs import BATCH, PARAMETER, SEQUENCE, Sketch, Stream
from network_makers import Make, Ours, Settings, op
from original_cases import Random, shape_of

from cntk_core.ops.families.recurrent_stack import RNNStackAttributes, stack_weights


def _numbers(random: Random, low: int, high: int, count: int) -> tuple[int, ...]:
    return tuple(int(number) for number in random.randint(low, high, size=count))


def _axis(random: Random) -> str:
    return SEQUENCE if random.randint(2) else BATCH


def _labelled(labels: str, scores: str = "any", *, by_labels: bool = True, least: int = 2) -> Make:
    """Scores, then labels, as the original has them."""

    def make(random: Random) -> Sketch:
        axis, (size,) = _axis(random), _numbers(random, least, 7, 1)
        return Sketch((Stream((size,), axis, scores), Stream((size,), axis, labels, by_labels)), total=True)

    return make


def _swapped(name: str) -> Ours:
    return lambda settings, scores, labels, *more: scores.graph.apply(name, labels, scores, *more)


def _sparse_labels(random: Random) -> Sketch:
    (size,) = _numbers(random, 2, 7, 1)
    return Sketch((Stream((size,)), Stream((size,), kind="one_hot", wanted=False, sparse=True)), total=True)


def _weighed(random: Random) -> Sketch:
    """Samples: in sequences the original counts gaps as well, and its gradient is not that of its value."""
    return Sketch(
        tuple(Stream((1,), BATCH, kind, wanted=False) for kind in ("small", "binary", "positive")), total=True
    )


def _chances(random: Random) -> Sketch:
    shape, axis = shape_of(random, 1, 2), _axis(random)
    return Sketch((Stream(shape, axis, "small"), Stream(shape, axis, "binary", wanted=False)))


def _errors_of_the_best(random: Random) -> Sketch:
    (size,) = _numbers(random, 3, 7, 1)
    streams = (Stream((size,), kind="distinct", wanted=False), Stream((size,), kind="one_hot", wanted=False))
    return Sketch(streams, {"best": int(random.randint(1, size))}, total=True)


def _top_errors(settings: Settings, scores: Term, labels: Term) -> Term:
    best = scores.graph.constant(float(settings["best"]))
    return scores.graph.apply("ClassificationError", labels, scores, best)


def _ranked(wanted: bool) -> Make:
    """Scores, gains that shrink within a query, queries; all on samples.

    Of equal gains the original takes the chances of other pairs, and it heeds no gradient that comes in.
    """

    def make(random: Random) -> Sketch:
        sizes = _numbers(random, 1, 5, int(random.randint(1, 4)))
        gains = np.concatenate([np.sort(random.permutation(6)[:size])[::-1] for size in sizes]).astype(np.float64)
        queries = np.repeat(np.arange(len(sizes)), sizes).astype(np.float64)
        streams = (Stream((1,), BATCH, "distinct", wanted), *(Stream((1,), BATCH, wanted=False) for _ in range(2)))
        given = {1: gains[:, None], 2: queries[:, None]}
        return Sketch(streams, total=True, seeded=False, values=given, lengths=(1,) * len(gains))

    return make


def _tokens(classes: np.ndarray, settings: Settings) -> int:
    """How many tokens count of a sequence of classes."""
    kept = classes[np.flatnonzero(np.diff(classes, prepend=-1))] if settings["squash"] else classes
    return int(sum(token not in settings["ignore"] for token in kept.tolist()))


def _edited(random: Random) -> Sketch:
    """As many tokens in one as in the other: CNTK 2.0 divides by those of the first, 2.7 by those of the second."""
    size, lengths = int(random.randint(2, 6)), _numbers(random, 1, 6, int(random.randint(1, 4)))
    settings = {
        "penalties": [float(each) for each in random.randint(1, 4, size=3)],
        "squash": bool(random.randint(2)),
        "ignore": [int(random.randint(size))] if random.randint(2) else [],
    }
    while True:
        found = [[random.randint(size, size=frames) for frames in lengths] for _ in range(2)]
        counts = [sum(_tokens(each, settings) for each in part) for part in found]
        if counts[0] == counts[1] > 0:
            break
    values = {index: [np.eye(size)[each] for each in part] for index, part in enumerate(found)}
    streams = tuple(Stream((size,), kind="one_hot", wanted=False) for _ in range(2))
    return Sketch(streams, settings, values=values, lengths=lengths)


def _edit_distance(settings: Settings, first: Term, second: Term) -> Term:
    by_substitution, by_deletion, by_insertion = settings["penalties"]
    return first.graph.apply(
        "EditDistanceError",
        first,
        second,
        substitution_penalty=by_substitution,
        deletion_penalty=by_deletion,
        insertion_penalty=by_insertion,
        squash_inputs=settings["squash"],
        tokens_to_ignore=tuple(settings["ignore"]),
    )


def _aligned(random: Random) -> Sketch:
    """Scores, and phones of one or more frames each: 2 at the first frame of a phone, 1 inside it."""
    size = int(random.randint(3, 6))
    lengths = _numbers(random, 3, 8, int(random.randint(1, 4)))
    labels = []
    for frames in lengths:
        own = np.zeros((frames, size))
        begins = sorted({0, *_numbers(random, 1, frames, int(random.randint(0, 2)))})
        phone = -1
        for frame in range(frames):
            if frame in begins:
                phone = int(random.choice([each for each in range(size - 1) if each != phone]))
            own[frame, phone] = 2.0 if frame in begins else 1.0
        labels.append(own)
    settings = {"delay": int(random.choice([-1, 1, 3]))}
    streams = (Stream((size,)), Stream((size,), wanted=False))
    return Sketch(streams, {"blank": size - 1, **settings}, values={1: labels}, lengths=lengths)


def _ctc(settings: Settings, scores: Term, labels: Term) -> Term:
    apply = scores.graph.apply
    blank, delay = settings["blank"], settings["delay"]
    graph = apply("LabelsToGraph", labels)
    return apply("ForwardBackward", graph, scores, blank_token_id=blank, delay_constraint=delay)


def _negatives(random: Random) -> Sketch:
    shift, negatives = _numbers(random, 1, 3, 2)
    size = int(random.randint(2, 5))
    settings = {"shift": shift, "negatives": negatives}
    return Sketch((Stream((size,), BATCH), Stream((size,), BATCH)), settings, lengths=(1,) * int(random.randint(4, 7)))


def _normalized(random: Random) -> Sketch:
    spatial = bool(random.randint(2))
    shape = (int(random.randint(1, 4)), *(_numbers(random, 1, 4, 2) if spatial else ()))
    size = shape[:1]
    statistics = [Stream(size, PARAMETER, kind, wanted=False) for kind in ("any", "positive")]
    learned = [Stream(size, PARAMETER) for _ in range(2)]
    streams = (Stream(shape, _axis(random)), *learned, *statistics, Stream((1,), PARAMETER, wanted=False))
    return Sketch(streams, {"spatial": spatial}, values={5: np.zeros(1)}, lengths=(3,) * int(random.randint(2, 5)))


def _batch_normalization(settings: Settings, *terms: Term) -> Term:
    return terms[0].graph.apply("BatchNormalization", *terms, spatial=settings["spatial"])


def _layer(random: Random) -> Sketch:
    return Sketch((Stream((int(random.randint(3, 7)),), _axis(random), "distinct"),))


def _regions(random: Random) -> Sketch:
    channels, height, width = (int(random.randint(1, 3)), *_numbers(random, 6, 10, 2))
    out = _numbers(random, 1, 4, 2)
    count, samples = _numbers(random, 1, 4, 2)
    height = min(height, width)  # the original gives no gradient to rows that are farther down than it is wide
    boxes = np.zeros((samples, count, 4))
    for box in boxes.reshape(-1, 4):
        left, top = _numbers(random, 0, 3, 2)
        box[:] = left, top, random.randint(left + 2, width), random.randint(top + 2, height)
    streams = (Stream((channels, height, width), BATCH, "distinct"), Stream((count, 4), BATCH, wanted=False))
    return Sketch(streams, {"out": out}, values={1: boxes}, lengths=(1,) * samples)


def _unpooled(random: Random) -> Sketch:
    shape = (int(random.randint(1, 3)), *_numbers(random, 2, 4, 2))
    # The original's gradient is a mistake: the largest of what comes in to a window.
    return Sketch((Stream((shape[0], shape[1] * 2, shape[2] * 2), BATCH, "distinct", wanted=False),))


def _unpooling(settings: Settings, x: Term) -> Term:
    window = {"kernel_shape": (2, 2, 1), "stride": (2, 2, 1), "auto_padding": (False,)}
    pooled = x.graph.apply("Pooling", x, pool_kind="max", **window)
    return x.graph.apply("MaxUnpooling", pooled, x, pool_kind="max", **window)


def _cropped(random: Random) -> Sketch:
    channels, height, width, down, right = (int(random.randint(1, 3)), *_numbers(random, 1, 4, 4))
    offsets = _numbers(random, 0, 3, 2)
    large = (channels, height + down + 2, width + right + 2)
    streams = (Stream(large, BATCH), Stream((1, height, width), BATCH, wanted=False))
    return Sketch(streams, {"x": offsets[0], "y": offsets[1]})


def _classes(random: Random) -> Sketch:
    classes = int(random.randint(2, 6))
    shape = shape_of(random, 1, 2)
    streams = (Stream(shape, _axis(random), f"below {classes}", wanted=False),)
    return Sketch(streams, {"classes": classes, "axis": int(random.randint(-1, len(shape)))})


def _one_hot(settings: Settings, x: Term) -> Term:
    return x.graph.apply("OneHot", x, num_class=settings["classes"], axis=-settings["axis"] - 1)


def _gathered(random: Random) -> Sketch:
    table = shape_of(random, 2, 3, 5)  # the original crashes where rows are single numbers
    indices = Stream(shape_of(random, 1, 2), _axis(random), f"below {table[0]}", wanted=False)
    return Sketch((indices, Stream(table, PARAMETER)))


def _reshaped(random: Random) -> Sketch:
    one, two, three = _numbers(random, 1, 4, 3)
    shape = (one, two, three)
    target = ((one * two, three), (three, one * two), (one, two * three), (one * two * three,))[random.randint(4)]
    return Sketch((Stream(shape, _axis(random)),), {"shape": target})


def _permuted(random: Random) -> Sketch:
    shape = shape_of(random, 3, 4)
    return Sketch((Stream(shape, _axis(random)),), {"order": [int(axis) for axis in random.permutation(len(shape))]})


def _permutation(settings: Settings, x: Term) -> Term:
    order = settings["order"]
    rank = len(order)
    permutation = tuple(rank - axis for axis in reversed(order))
    return x.graph.apply("TransposeDimensions", x, permutation=permutation)


def _product(random: Random) -> Sketch:
    inner, outer = shape_of(random, 1, 2), shape_of(random, 1, 2)
    settings = {"outer": len(outer)}
    return Sketch((Stream(inner, _axis(random)), Stream((*inner, *outer), PARAMETER)), settings)


def _transposed_product(random: Random) -> Sketch:
    inner, outer = _numbers(random, 1, 5, 2)
    return Sketch((Stream((inner,), _axis(random)), Stream((outer, inner), PARAMETER)))


def _strided(random: Random) -> Sketch:
    shape = tuple(int(size) for size in random.randint(2, 7, size=random.randint(1, 4)))
    axes = sorted(int(axis) for axis in random.permutation(len(shape))[: random.randint(1, len(shape) + 1)])
    begin = [int(random.randint(0, shape[axis])) for axis in axes]
    end = [int(random.randint(first + 1, shape[axis] + 1)) for first, axis in zip(begin, axes, strict=True)]
    most = [last - first for first, last in zip(begin, end, strict=True)]  # the original takes none that are longer
    step = [int(random.choice([1, -1]) * random.randint(1, min(3, size) + 1)) for size in most]
    settings = {"axes": axes, "begin": begin, "end": end, "step": step}
    return Sketch((Stream(shape, _axis(random)),), {**settings, "rank": len(shape)})


def _stepping(settings: Settings, x: Term) -> Term:
    given = {"begin": tuple(settings["begin"]), "end": tuple(settings["end"]), "stride": tuple(settings["step"])}
    return x.graph.apply("Slice", x, axis=tuple(settings["rank"] - axis for axis in settings["axes"]), **given)


def _whole(random: Random) -> Sketch:
    return Sketch((Stream(shape_of(random), _axis(random), "distinct"),))


def _pair(random: Random) -> Sketch:
    shape, axis = shape_of(random), _axis(random)
    return Sketch((Stream(shape, axis), Stream(shape, axis)))


def _three(random: Random) -> Sketch:
    shape, axis = shape_of(random), _axis(random)
    return Sketch(tuple(Stream(shape, axis) for _ in range(3)))


def _standardized(random: Random) -> Sketch:
    shape = (int(random.randint(1, 6)),)
    constants = [Stream(shape, PARAMETER, kind, wanted=False) for kind in ("any", "positive")]
    return Sketch((Stream(shape, _axis(random)), *constants))


def _pooled(kind: str) -> Make:
    def make(random: Random) -> Sketch:
        shape = (int(random.randint(1, 3)), *_numbers(random, 4, 8, 2))
        window = _numbers(random, 2, 4, 2)
        strides = tuple(int(random.randint(1, size + 1)) for size in window)  # no window lies wholly outside
        pad = bool(random.randint(2))  # an incomplete window in padding may be outside: there the original crashes
        settings = {"window": window, "strides": strides, "pad": pad, "kind": kind, "ceil": not pad}
        include = kind == "average" and bool(random.randint(2))
        return Sketch((Stream(shape, BATCH, "distinct"),), {**settings, "include": include})

    return make


def _pooling(settings: Settings, x: Term) -> Term:
    return x.graph.apply(
        "Pooling",
        x,
        kernel_shape=(*settings["window"][::-1], 1),
        pool_kind=settings["kind"],
        stride=(*settings["strides"][::-1], 1),
        auto_padding=(settings["pad"], settings["pad"], False),
        ceil_out_dim=settings["ceil"],
        include_pad=settings["include"],
    )


def _convolved(rank: int) -> Make:
    def make(random: Random) -> Sketch:
        channels, maps = _numbers(random, 1, 4, 2)
        kernel, strides = _numbers(random, 1, 4, rank), _numbers(random, 1, 3, rank)
        pad = bool(random.randint(2))
        data = Stream((channels, *_numbers(random, 4, 7, rank)), BATCH)
        settings = {"strides": strides, "pad": pad, "kernel": kernel, "maps": maps}
        return Sketch((data, Stream((maps, channels, *kernel), PARAMETER)), settings)

    return make


def _convolution(settings: Settings, x: Term, weights: Term) -> Term:
    rank = len(settings["kernel"])
    return x.graph.apply(
        "Convolution",
        weights,
        x,
        kernel_shape=tuple(settings["kernel"][::-1]),
        map_count=settings["maps"],
        stride=tuple(settings["strides"][::-1]),
        auto_padding=(*[settings["pad"]] * rank, False),
        sequential=settings.get("sequential", False),
    )


def _along_sequences(random: Random) -> Sketch:
    channels, maps = _numbers(random, 1, 4, 2)
    rank = int(random.randint(1, 3))
    kernel, strides = _numbers(random, 1, 4, rank), _numbers(random, 1, 3, rank)
    lengths = _numbers(random, 4, 8, int(random.randint(1, 4)))
    data = Stream((channels, *_numbers(random, 4, 7, rank - 1)))
    settings = {"strides": strides, "pad": bool(random.randint(2)), "kernel": kernel, "maps": maps, "sequential": True}
    return Sketch((data, Stream((maps, channels, *kernel), PARAMETER)), settings, lengths=lengths)


def _stack(random: Random) -> Sketch:
    size, units, layers = _numbers(random, 1, 4, 3)
    kind = ("lstm", "rnnTanh", "rnnReLU")[random.randint(3)]
    settings = {"units": units, "layers": layers, "both": bool(random.randint(2)), "kind": kind}
    attributes = RNNStackAttributes(units, layers, settings["both"], kind)
    weights = Stream((stack_weights(size, attributes),), PARAMETER, "any", wanted=False)
    return Sketch((Stream((size,)), weights), settings)


def _rnn_stack(settings: Settings, x: Term, weights: Term) -> Term:
    return x.graph.apply(
        "OptimizedRNNStack",
        weights,
        x,
        hidden_size=settings["units"],
        num_layers=settings["layers"],
        bidirectional=settings["both"],
        recurrent_op=settings["kind"],
    )


def _drawn_often(random: Random) -> Sketch:
    (size,) = _numbers(random, 2, 7, 1)
    weights = Stream((size,), PARAMETER, "positive", wanted=False)
    return Sketch((weights,), {"samples": int(random.randint(1, 5))})


def _frequency(settings: Settings, weights: Term) -> Term:
    how: dict[str, Any] = {"num_samples": settings["samples"], "allow_duplicates": True}
    return weights.graph.apply("RandomSampleInclusionFrequency", weights, **how)


def _matrix(random: Random) -> Sketch:
    return Sketch((Stream(shape_of(random, 2, 2, 5), PARAMETER, wanted=False),))


def _batched(random: Random) -> Sketch:
    return Sketch((Stream(shape_of(random, 2, 3), PARAMETER),))


MAKERS: dict[str, tuple[Make, Ours]] = {
    "CrossEntropyWithSoftmax": (_labelled("chance", by_labels=False), _swapped("CrossEntropyWithSoftmax")),
    "CrossEntropyWithSoftmax sparse": (_sparse_labels, _swapped("CrossEntropyWithSoftmax")),
    "SquareError": (_labelled("any", least=1), _swapped("SquareError")),
    "Logistic": (_weighed, _swapped("Logistic")),
    "binary_cross_entropy": (_chances, lambda s, z, y: binary_cross_entropy(z, y)),
    "ClassificationError": (_errors_of_the_best, _top_errors),
    "LambdaRank": (_ranked(True), lambda s, z, gain, query: z.graph.apply("LambdaRank", gain, z, query)),
    "NDCG1Eval": (_ranked(False), lambda s, z, gain, query: z.graph.apply("NDCG1Eval", gain, z, query)),
    "EditDistanceError": (_edited, _edit_distance),
    "ForwardBackward": (_aligned, _ctc),
    "CosDistanceWithNegativeSamples": (
        _negatives,
        lambda s, x, y: x.graph.apply(
            "CosDistanceWithNegativeSamples", x, y, shift=s["shift"], negatives=s["negatives"]
        ),
    ),
    "BatchNormalization": (_normalized, _batch_normalization),
    "LayerNormalization": (_layer, lambda s, x: LayerNormalization(name="n")(x)),
    "PerDimMeanVarNormalization": (_standardized, op("PerDimMeanVarNormalization")),
    "ROIPooling": (
        _regions,
        lambda s, x, boxes: x.graph.apply(
            "ROIPooling", x, boxes, roi_output_shape=tuple(s["out"][::-1]), spatial_scale=1.0
        ),
    ),
    "MaxUnpooling": (_unpooled, _unpooling),
    "Pooling max with settings": (_pooled("max"), _pooling),
    "Pooling average with settings": (_pooled("average"), _pooling),
    "Crop": (_cropped, lambda s, x, like: x.graph.apply("Crop", x, like, x_offset=s["x"], y_offset=s["y"])),
    "OneHot": (_classes, _one_hot),
    "Gather": (_gathered, op("Gather")),
    "Reshape": (_reshaped, lambda s, x: x.graph.apply("Reshape", x, dims=tuple(s["shape"][::-1]))),
    "TransposeDimensions of several axes": (_permuted, _permutation),
    "Times of several axes": (
        _product,
        lambda s, x, w: x.graph.apply("Times", w, x, output_rank=s["outer"]),
    ),
    "TransposeTimes": (_transposed_product, lambda s, x, w: x.graph.apply("TransposeTimes", w, x)),
    "Slice with strides": (_strided, _stepping),
    "SumElements": (_whole, lambda s, x: x.graph.apply("ReduceElements", x, reduction_op="Sum", axis=0)),
    "ReduceElements Argmin": (_whole, lambda s, x: x.graph.apply("ReduceElements", x, reduction_op="Argmin", axis=1)),
    "element_max": (_pair, lambda s, x, y: element_max(x, y)),
    "element_min": (_pair, lambda s, x, y: element_min(x, y)),
    "mean": (_three, lambda s, *x: mean(*x)),
    "Pass": (_whole, op("Pass")),
    "Cast": (_whole, lambda s, x: x.graph.apply("Cast", x, new_data_type="double")),
    "Dropout": (_whole, op("Dropout", dropout_rate=0.0)),
    "Convolution of one axis": (_convolved(1), _convolution),
    "Convolution of three axes": (_convolved(3), _convolution),
    "Convolution along sequences": (_along_sequences, _convolution),
    "OptimizedRNNStack": (_stack, _rnn_stack),
    "RandomSampleInclusionFrequency": (_drawn_often, _frequency),
    "EyeLikeOp": (_matrix, op("EyeLikeOp")),
    "ToBatch": (_batched, op("ToBatch")),
}
"""By name, a random sketch and our function ``(settings, *terms) -> term or terms``."""
