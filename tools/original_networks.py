# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, B905, UP031
"""Compute networks of one operation or few with CNTK 2.7: run by ``tools/record_original.py`` under Python 3.6.

``python original_networks.py CASES.json FOUND.jsonl`` writes a line for each case and precision. For each output and
each wanted gradient of a case two numbers are found: how many elements it has, and their sum, each times a weight of
the pool, one after the other.
"""

import json
import sys

import cntk as C
import numpy as np
import scipy.sparse

DTYPE = {"now": np.float32}


def reduced(function, axis):
    return lambda s, x: function(x, axis=axis())


def strided(s, x):
    return C.slice(x, s["axes"], s["begin"], s["end"], s["step"])


def recurrence(s, x, weights, back):
    before = C.placeholder(shape=(weights.shape[1],), dynamic_axes=x.dynamic_axes)
    h = C.tanh(C.times(x, weights) + C.times(C.sequence.past_value(before), back))
    return h.replace_placeholders({before: h.output})


def normalized(s, x, scale, bias, mean, variance, count):
    return C.batch_normalization(
        x, scale, bias, mean, variance, s["spatial"], 0, 0, 1e-5, use_cudnn_engine=False, running_count=count
    )


def pooled(s, x):
    kind = {"max": C.MAX_POOLING, "average": C.AVG_POOLING}[s["kind"]]
    pad = [False, s["pad"], s["pad"]]
    return C.pooling(
        x, kind, tuple(s["window"]), tuple(s["strides"]), pad, ceil_out_dim=s["ceil"], include_pad=s["include"]
    )


def unpooled(s, x):
    pooled_once = C.pooling(x, C.MAX_POOLING, (2, 2), (2, 2))
    return C.unpooling(pooled_once, x, C.MAX_UNPOOLING, (2, 2), (2, 2))


def convolved(s, x, weights):
    rank = len(s["kernel"])
    return C.convolution(
        weights,
        x,
        strides=tuple(s["strides"]),
        auto_padding=[False] + [s["pad"]] * rank,
        sequential=s.get("sequential", False),
    )


def stacked(s, x, weights):
    from cntk.misc.optimized_rnnstack_converter import convert_optimized_rnnstack

    made = C.optimized_rnnstack(
        x, weights, s["units"], s["layers"], bidirectional=s["both"], recurrent_op=s["kind"], name="r"
    )
    return convert_optimized_rnnstack(made)


def edited(s, x, y):
    return C.edit_distance_error(x, y, *s["penalties"], squashInputs=s["squash"], tokensToIgnore=s["ignore"])


def aligned(s, scores, labels):
    return C.forward_backward(C.labels_to_graph(labels), scores, s["blank"], s["delay"])


FUNCTIONS = {
    "Where": lambda s, c: C.sequence.where(c),
    "GatherPacked": lambda s, x, c: C.sequence.gather(x, c),
    "ScatterPacked": lambda s, x, c: C.sequence.scatter(C.sequence.gather(x, c), c),
    "sequence.first": lambda s, x: C.sequence.first(x),
    "sequence.last": lambda s, x: C.sequence.last(x),
    "sequence.is_first": lambda s, x: C.sequence.is_first(x),
    "sequence.is_last": lambda s, x: C.sequence.is_last(x),
    "sequence.slice": lambda s, x: C.sequence.slice(x, s["begin"], s["end"]),
    "PastValue": lambda s, x: C.sequence.past_value(x, s["initial"], s["steps"]),
    "FutureValue": lambda s, x: C.sequence.future_value(x, s["initial"], s["steps"]),
    "PastValue from a state": lambda s, x, state: C.sequence.past_value(x, state),
    "FutureValue from a state": lambda s, x, state: C.sequence.future_value(x, state),
    "PastValue in a loop": recurrence,
    "ReconcileDynamicAxis": lambda s, x, like: C.sequence.broadcast_as(x, like),
    "ReconcileDynamicAxis of other sequences": lambda s, x, like: C.sequence.broadcast_as(C.sequence.last(x), like),
    "UnpackSequence": lambda s, x: C.sequence.unpack(x, s["padding"]),
    "ToSequence": lambda s, x: C.to_sequence(x),
    "ToSequence by lengths": lambda s, x, lengths: C.to_sequence(x, lengths),
    "ToSequenceLike": lambda s, x, like: C.to_sequence_like(x, like),
    "Times over sequences": lambda s, x, y: C.times(
        y, x, infer_input_rank_to_map=C.TIMES_REDUCE_SEQUENCE_AXIS_WITHOUT_INFERRED_INPUT_RANK
    ),
    "sequence.softmax": lambda s, x: C.sequence.softmax(x),
    "sequence.reduce_sum": lambda s, x: C.sequence.reduce_sum(x),
    "sequence.reduce_max": lambda s, x: C.sequence.reduce_max(x),
    "StopGradient": lambda s, x: x * C.stop_gradient(x),
    "CrossEntropyWithSoftmax": lambda s, z, y: C.cross_entropy_with_softmax(z, y),
    "CrossEntropyWithSoftmax sparse": lambda s, z, y: C.cross_entropy_with_softmax(z, y),
    "SquareError": lambda s, z, y: C.squared_error(z, y),
    "Logistic": lambda s, z, y, w: C.weighted_binary_cross_entropy(z, y, w),
    "binary_cross_entropy": lambda s, z, y: C.binary_cross_entropy(z, y),
    "ClassificationError": lambda s, z, y: C.classification_error(z, y, topN=s["best"]),
    "LambdaRank": lambda s, z, gain, query: C.lambda_rank(z, gain, query),
    "NDCG1Eval": lambda s, z, gain, query: C.ndcg_at_1(z, gain, query),
    "EditDistanceError": edited,
    "ForwardBackward": aligned,
    "CosDistanceWithNegativeSamples": lambda s, x, y: C.cosine_distance_with_negative_samples(
        x, y, s["shift"], s["negatives"]
    ),
    "BatchNormalization": normalized,
    "LayerNormalization": lambda s, x: C.layers.LayerNormalization()(x),
    "PerDimMeanVarNormalization": lambda s, x, mean, scale: C.per_dim_mean_variance_normalize(x, mean, scale),
    "ROIPooling": lambda s, x, boxes: C.roipooling(x, boxes, C.MAX_POOLING, tuple(s["out"]), 1.0),
    "MaxUnpooling": unpooled,
    "Pooling max with settings": pooled,
    "Pooling average with settings": pooled,
    "Crop": lambda s, x, like: C.crop_manual(x, like, s["x"], s["y"]),
    "OneHot": lambda s, x: C.one_hot(x, s["classes"], axis=s["axis"]),
    "Gather": lambda s, index, table: C.gather(table, index),
    "Reshape": lambda s, x: C.reshape(x, tuple(s["shape"])),
    "TransposeDimensions of several axes": lambda s, x: C.transpose(x, s["order"]),
    "Times of several axes": lambda s, x, w: C.times(x, w, output_rank=s["outer"]),
    "TransposeTimes": lambda s, x, w: C.times_transpose(x, w),
    "Slice with strides": strided,
    "SumElements": lambda s, x: C.reduce_sum(x),
    "ReduceElements Argmin": lambda s, x: C.argmin(x, axis=-1),
    "element_max": lambda s, x, y: C.element_max(x, y),
    "element_min": lambda s, x, y: C.element_min(x, y),
    "mean": lambda s, *x: C.mean(*x),
    "Pass": lambda s, x: C.alias(x),
    "Cast": lambda s, x: C.cast(x, DTYPE["now"]),
    "Dropout": lambda s, x: C.dropout(x, 0.0),
    "Convolution of one axis": convolved,
    "Convolution of three axes": convolved,
    "Convolution along sequences": convolved,
    "OptimizedRNNStack": stacked,
    "RandomSampleInclusionFrequency": lambda s, w: C.random_sample_inclusion_frequency(w, s["samples"], True),
    "EyeLikeOp": lambda s, x: C.eye_like(x, sparse_output=False),
    "ToBatch": lambda s, x: C.to_batch(x),
}
REDUCTIONS = {
    "Sum": C.reduce_sum,
    "Mean": C.reduce_mean,
    "Max": C.reduce_max,
    "Min": C.reduce_min,
    "LogSum": C.reduce_log_sum_exp,
    "Prod": C.reduce_prod,
}
for name, function in REDUCTIONS.items():
    FUNCTIONS["ReduceElements %s over the batch" % name] = reduced(function, C.Axis.default_batch_axis)
    FUNCTIONS["ReduceElements %s over all axes" % name] = reduced(function, C.Axis.all_axes)


def operand(stream, value, dtype, given, axes):
    """A variable of the original, and what it is given."""
    shape, axis = tuple(stream["shape"]), stream["axis"]
    if axis is None:
        return C.parameter(init=np.asarray(value, dtype).reshape(shape), dtype=dtype)
    how = {"dtype": dtype, "needs_gradient": stream["wanted"], "is_sparse": stream["sparse"]}
    if axis == "#":
        made = C.input_variable(shape, **how)
        given[made] = np.asarray(value, dtype)
        return made
    if axis not in axes:
        axes[axis] = C.Axis.default_dynamic_axis() if axis == "" else C.Axis.new_unique_dynamic_axis(axis)
    made = C.sequence.input_variable(shape, sequence_axis=axes[axis], **how)
    arrays = [np.asarray(each, dtype).reshape((-1, *shape)) for each in value]
    given[made] = [scipy.sparse.csr_matrix(each) for each in arrays] if stream["sparse"] else arrays
    return made


def pieces(value):
    return [np.asarray(each) for each in value] if isinstance(value, list) else [np.asarray(value)]


def weighted(value, pool):
    flat = np.concatenate([np.zeros(0)] + [np.asarray(each, np.float64).ravel() for each in pieces(value)])
    return [len(flat), float(np.sum(flat * pool[: len(flat)]))]


def seeds(value, pool, dtype):
    found, begin = [], 0
    for each in pieces(value):
        found.append(pool[begin : begin + each.size].reshape(each.shape).astype(dtype))
        begin += each.size
    return found if isinstance(value, list) else found[0]


def computed(case, pool, dtype):
    """What is found of one case: of each output, then of each wanted gradient."""
    DTYPE["now"] = dtype
    given, axes = {}, {}
    operands = [operand(s, v, dtype, given, axes) for s, v in zip(case["streams"], case["values"])]
    with C.default_options(dtype=dtype):
        made = FUNCTIONS[case["name"]](case["settings"], *operands)
    if case["total"]:
        made = C.reduce_sum(made, axis=C.Axis.all_axes())
    outputs = list(made.outputs)
    wanted = [each for each, stream in zip(operands, case["streams"]) if stream["wanted"]]
    state, results = made.forward(given, outputs, set(outputs[:1]) if wanted else None)
    values = [next(v for o, v in results.items() if o.uid == out.uid) for out in outputs]
    found = [weighted(value, pool) for value in values]
    if wanted:
        seed = seeds(values[0], pool if case["seeded"] else np.ones_like(pool), dtype)
        gradients = made.backward(state, {outputs[0]: seed}, set(wanted))
        found += [weighted(next(v for g, v in gradients.items() if g.uid == each.uid), pool) for each in wanted]
    return found


def main():
    C.device.try_set_default_device(C.cpu())
    with open(sys.argv[1]) as file:
        pool, cases = json.load(file)
    pool = np.array(pool)
    with open(sys.argv[2], "w") as file:
        for precision, dtype in (("float32", np.float32), ("float64", np.float64)):
            for case in cases:
                found, why = None, ""
                try:
                    found = computed(case, pool, dtype)
                except Exception as error:
                    why = next((line for line in str(error).splitlines() if line.strip()), "")
                file.write(json.dumps([precision, found, why]) + "\n")
                file.flush()  # some operations of the original end the process


main()
