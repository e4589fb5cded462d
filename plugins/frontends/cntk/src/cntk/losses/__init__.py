"""Losses: what a training makes small."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from cntk._inherited import inherit
from cntk.initializer import SentinelValueForAutoSelectRandomSeed, glorot_normal
from cntk.internal import sanitize_input
from cntk.ops import _elements as elements
from cntk.ops import _reductions as reductions
from cntk.ops import _sampling as sampling
from cntk.ops import _shapes as shapes
from cntk.ops._making import block, made, one, operands, size
from cntk.ops.functions import Function
from cntk.variables import Variable


def cosine_distance(x: Any, y: Any, name: str = "") -> Function:
    """The cosine of the angle between two vectors."""
    return made("CosDistance", *operands(x, y), name=name)


def cosine_distance_with_negative_samples(
    x: Any, y: Any, shift: int, num_negative_samples: int, name: str = ""
) -> Function:
    """Cosines between vectors and their partners, and between them and other samples of the minibatch.

    Args:
        x, y: vectors.
        shift: the first other sample is so many samples behind.
        num_negative_samples: how many others.
        name: of the user.

    Raises:
        ValueError: a number is not positive.
    """
    if shift < 1 or num_negative_samples < 1:
        raise ValueError("shift and num_negative_samples have to be positive")
    a, b = operands(x, y)
    numbers = [sanitize_input(float(each), a._dtype or np.float32) for each in (shift, num_negative_samples)]
    return made("CosDistanceWithNegativeSamples", a, b, *numbers, name=name)


def binary_cross_entropy(output: Any, target: Any, name: str = "") -> Function:
    """``-(y log(p + e) + (1 - y) log(1 + e - p))`` of probabilities, for each element; ``e`` is 1e-6."""
    p, y = operands(output, target)
    dtype = p._dtype or np.float32
    tiny, total = (sanitize_input(np.float32(each), dtype) for each in (1e-6, 1 + 1e-6))

    def inside(a: Variable, b: Variable) -> Function:
        true = elements.element_times(b, elements.log(elements.plus(tiny, a)))
        false = elements.element_times(elements.minus(1.0, b), elements.log(elements.minus(total, a)))
        return elements.negate(elements.plus(true, false))

    return block("BinaryCrossEntropy", name, [p, y], inside)


def weighted_binary_cross_entropy(output: Any, target: Any, weight: Any, name: str = "") -> Function:
    """The binary cross entropy with a weight for each element."""
    return made("Logistic", *operands(output, target, weight), name=name)


def cross_entropy_with_softmax(output_vector: Any, target_vector: Any, axis: Any = -1, name: str = "") -> Function:
    """``log(sum(exp(z))) - sum(y z)`` along an axis: the cross entropy of ``softmax(z)``, for each sample."""
    z, y = operands(output_vector, target_vector)

    def inside(a: Variable, b: Variable) -> Function:
        total = reductions.reduce_log_sum_exp(a, axis)
        if axis == -1:
            return elements.minus(total, made("TransposeTimes", b, a, outputRank=size(1)))
        return elements.minus(total, reductions.reduce_sum(elements.element_times(b, a), axis))

    return block("CrossEntropyWithSoftmax", name, [z, y], inside)


def squared_error(output: Any, target: Any, name: str = "") -> Function:
    """The sum of squared differences, for each sample."""

    def inside(a: Variable, b: Variable) -> Function:
        difference = elements.minus(a, b)
        return reductions.reduce_sum(elements.square(difference))

    return block("SquaredError", name, operands(output, target), inside)


def lambda_rank(output: Any, gain: Any, group: Any, name: str = "") -> Function:
    """The pairwise loss of rankings (Burges et al., NIPS 2006)."""
    return made("LambdaRank", *operands(output, gain, group), name=name)


def nce_loss(
    weights: Any,
    biases: Any,
    inputs: Any,
    labels: Any,
    noise_distribution: Any,
    num_samples: int = 32,
    allow_duplicates: bool = True,
    seed: int = SentinelValueForAutoSelectRandomSeed,
    name: str = "",
) -> Function:
    """Noise-contrastive estimation of a softmax over many classes (Gutmann and Hyvärinen, AISTATS 2010).

    Args:
        weights: ``(classes, width)``.
        biases: ``(classes, 1)``.
        inputs: ``(width)``.
        labels: one-hot ``(classes)``.
        noise_distribution: weights of the classes that are drawn.
        num_samples: how many are drawn for a minibatch.
        allow_duplicates: a class may be drawn several times.
        seed: of what is drawn.
        name: of the user.
    """
    noise = sanitize_input(noise_distribution)
    total = float(np.sum(np.asarray(noise.value))) if hasattr(noise, "value") else 1.0
    drawn = sampling.random_sample(noise, num_samples, allow_duplicates, seed)
    x, y = one(inputs), one(labels)

    def logits(chosen: Any) -> tuple[Any, Any]:
        score = reductions.times(chosen, weights)
        shift = reductions.times(chosen, biases)
        chance = elements.element_times(
            reductions.times(chosen, shapes.reshape(noise, (noise.shape[-1], 1))), num_samples / total
        )
        return score, (shift, elements.log(chance))

    true_weights, (true_bias, true_chance) = logits(y)
    noise_weights, (noise_bias, noise_chance) = logits(drawn)
    true_score = elements.plus(reductions.reduce_sum(elements.element_times(true_weights, x), -1), true_bias)
    true_logit = elements.minus(true_score, true_chance)
    noise_score = elements.plus(reductions.times(noise_weights, shapes.reshape(x, (x.shape[-1], 1))), noise_bias)
    noise_logit = elements.minus(noise_score, noise_chance)
    positive = elements.softplus(elements.negate(true_logit))
    negative = reductions.reduce_sum(elements.softplus(noise_logit), 0)
    return elements.plus(shapes.reshape(positive, (1,)), shapes.reshape(negative, (1,)), name=name)


def fmeasure(output: Any, target: Any, beta: float = 1) -> Function:
    """``1 - F`` over the whole minibatch: F weighs precision and recall of numbers between 0 and 1."""
    from cntk.axis import Axis

    axis = Axis.all_axes()
    hits = reductions.reduce_sum(elements.element_times(output, target), axis)
    wanted = reductions.reduce_sum(elements.element_times(beta * beta, target), axis)
    found = reductions.reduce_sum(output, axis)
    return elements.minus(
        1, elements.element_divide(elements.element_times(hits, 1 + beta**2), elements.plus(wanted, found))
    )


def hierarchical_softmax_layer(
    input_var: Any, label_index: Any, label_dim: int, label_classes: int | None = None
) -> tuple[Function, Function, list[Function]]:
    """A softmax over many labels in two steps: over groups of labels, then within one (Goodman, ICASSP 2001).

    Args:
        input_var: ``(width)``.
        label_index: the number of the label, ``(1)``.
        label_dim: how many labels there are.
        label_classes: how many groups; by default the root of the number of labels.

    Returns:
        The probability of the label, ``(1, 1)``; those of all groups; and for each group those of its labels.
    """
    from cntk import ops

    x, number = one(input_var), one(label_index)
    groups = label_classes or math.ceil(math.sqrt(label_dim))
    each = math.ceil(label_dim / groups)

    def start(name: str, *shape: int) -> Any:
        return ops.parameter(shape, init=glorot_normal(), name=f"hsoftmax_{name}")

    width = x.shape[0]
    outer, outer_bias = start("w1", width, groups), start("b1", groups)
    inner, inner_bias = start("w2s", groups, width, each), start("b2s", groups, each)
    shares = ops.softmax(ops.plus(outer_bias, ops.times(x, outer)))

    def within(group: Any) -> Function:
        weights = ops.reshape(ops.times(group, inner, output_rank=2), (width, each))
        bias = ops.reshape(ops.times(group, inner_bias, output_rank=1), (each,))
        return ops.softmax(ops.plus(bias, ops.times(x, weights)))

    def chosen(place: Any, several: int) -> Function:
        return ops.one_hot(place, num_classes=several, sparse_output=False)

    place = ops.floor(ops.element_divide(ops.plus(number, 0.5), each))
    group = chosen(place, groups)
    rest = ops.round(ops.minus(number, ops.element_times(place, each)))
    found = ops.times_transpose(chosen(rest, each), within(group))
    probability = ops.element_times(found, ops.times_transpose(group, shares))
    everything = [
        ops.element_times(within(row), ops.times_transpose(row, shares))
        for row in (ops.constant(line) for line in np.eye(groups, dtype=np.float32))
    ]
    return probability, shares, everything


def lattice_sequence_with_softmax(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: sequence training over lattices is not there."""
    raise NotImplementedError("sequence training over lattices is not there")


inherit(__name__)
