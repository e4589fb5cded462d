"""Criteria and error counts: scalars, sums over the samples of the minibatch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cntk_core.errors import ShapeError
from cntk_core.ops.families.softmax import log_softmax
from cntk_core.ops.families.unary import clipped_log
from cntk_core.ops.language.define import define_op, fill_from_others
from cntk_core.ops.language.framing import dense, math_of, paired, samples, scalar, unpaired
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.shapes import Shape, broadcast, elements, show
from cntk_core.ops.language.sparse_rows import add_at, best_columns, entries, is_sparse, pick
from cntk_core.ops.language.traits import Traits

SMALLEST_DIVISOR = 1e-30
"""Divisors closer to 0 are moved away from it."""


def infer_criterion(shapes: Sequence[Shape], attributes: Any) -> Shape:
    """Shape rule of a criterion that compares its first two inputs element by element: a scalar."""
    first, second = shapes[0], shapes[1]
    broadcast([first, second])
    if elements(first) != elements(second):
        raise ShapeError(f"the inputs {show(first)} and {show(second)} must have the same shape")
    return (1,)


def _criterion(name: str, gradient: Any, **fields: Any) -> Callable[[Callable[..., Array]], Op]:
    """The decorator of a criterion of two inputs with equal shapes."""
    settings: dict[str, Any] = {
        "inputs": 2,
        "infer": infer_criterion,
        "complete": fill_from_others,
        "reduces_frames": True,
        "role": "criterion",
        "reads_output": False,
    }
    return define_op(name, gradient=gradient, **{**settings, **fields})


def _guarded(xp: Any, divisor: Array) -> Array:
    """Move a divisor away from 0, as CNTK does."""
    floor = xp.where(divisor > 0, SMALLEST_DIVISOR, -SMALLEST_DIVISOR).astype(divisor.dtype)
    return xp.where(xp.abs(divisor) < SMALLEST_DIVISOR, floor, divisor)


def _square_error_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    left, right = paired(inputs[0], inputs[1], context.framed)
    if is_sparse(left) or is_sparse(right):
        return _sparse_square_gradient(gradient, left, right, inputs, needs)
    change = (2.0 * gradient) * (left - right)
    return unpaired(xp, change, inputs[0]), unpaired(xp, -change, inputs[1])


def _apart(left: Any, right: Any) -> tuple[Any, Any]:
    """A sparse and a dense one of two matrices, of which one at least is sparse."""
    return (left, dense(right)) if is_sparse(left) else (right, left)


def _sparse_square_gradient(
    gradient: Array, left: Any, right: Any, inputs: Sequence[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    """The gradient of the dense input; a sparse one gets none."""
    labels, values = _apart(left, right)
    rows, columns, data = entries(labels)
    to_values = (2.0 * gradient) * values
    if len(values) == 1 < labels.shape[0]:
        to_values = to_values * labels.shape[0]
    add_at(to_values, rows, columns, (-2.0 * gradient) * data)
    place = 1 if is_sparse(left) else 0
    return [to_values.reshape(inputs[index].shape) if index == place and needs[index] else None for index in (0, 1)]


@_criterion(
    "SquareError",
    _square_error_gradient,
    aliases={"ndl": ("SE",)},
    sparse_inputs=frozenset({0, 1}),
    traits=Traits(pure_xp=True, keeps_nothing=True),
)
def SQUARE_ERROR(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Sum of the squares of a - b."""
    left, right = paired(inputs[0], inputs[1], context.framed)
    if is_sparse(left) or is_sparse(right):
        labels, values = _apart(left, right)
        rows, columns, data = entries(labels)
        # (b - a)^2 is b^2 but where a is not 0.
        repeated = labels.shape[0] if len(values) == 1 else 1
        changes = xp.sum(data * (data - 2.0 * pick(values, rows, columns)))
        return scalar(xp, repeated * xp.sum(values * values) + changes, values)
    difference = left - right
    return scalar(xp, xp.sum(difference * difference), difference)


def _ce_softmax_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    labels, logits = paired(inputs[0], inputs[1], context.framed)
    to_labels = to_logits = None
    if needs[0]:
        change = -gradient * log_softmax(xp, logits)
        to_labels = unpaired(xp, change, inputs[0])
    if needs[1]:
        # As if the labels of a sample summed to 1, whatever they do: so CNTK trains.
        softmax = context.saved["softmax"]
        rows = len(softmax) if labels.shape[0] == 1 else labels.shape[0]
        change = gradient * xp.broadcast_to(softmax, (rows, softmax.shape[1]))
        if is_sparse(labels):
            places, columns, data = entries(labels)
            add_at(change, places, columns, -gradient * data)
        else:
            change -= gradient * labels
        to_logits = unpaired(xp, change, inputs[1])
    return to_labels, to_logits


@_criterion(
    "CrossEntropyWithSoftmax",
    _ce_softmax_gradient,
    aliases={"ndl": ("CEWithSM",)},
    sparse_inputs=frozenset({0}),
    traits=Traits(log_likelihood=True),
)
def CROSS_ENTROPY_WITH_SOFTMAX(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """-sum(labels * log(softmax(logits))), labels that sum to 1 in each sample; inputs: labels, logits."""
    labels, logits = paired(inputs[0], inputs[1], context.framed)
    logarithms = log_softmax(xp, logits)
    context.saved["softmax"] = xp.exp(logarithms)
    if is_sparse(labels):
        rows, columns, data = entries(labels)
        return scalar(xp, -xp.sum(data * pick(logarithms, rows, columns)), logits)
    return scalar(xp, -xp.sum(labels * logarithms), logits)


def _cross_entropy_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    labels, chances = paired(inputs[0], inputs[1], context.framed)
    if is_sparse(labels):
        rows, columns, data = entries(labels)
        to_chances = xp.zeros_like(chances)
        add_at(to_chances, rows, columns, -gradient * (data / _guarded(xp, pick(chances, rows, columns))))
        return None, to_chances.reshape(inputs[1].shape)
    return (
        unpaired(xp, -gradient * clipped_log(math_of(xp), chances), inputs[0]),
        unpaired(xp, -gradient * (labels / _guarded(xp, chances)), inputs[1]),
    )


@_criterion(
    "CrossEntropy",
    _cross_entropy_gradient,
    sparse_inputs=frozenset({0}),
    traits=Traits(pure_xp=True, keeps_nothing=True, log_likelihood=True),
)
def CROSS_ENTROPY(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """-sum(labels * log(probabilities)); inputs: labels, probabilities."""
    labels, chances = paired(inputs[0], inputs[1], context.framed)
    if is_sparse(labels):
        rows, columns, data = entries(labels)
        return scalar(xp, -xp.sum(data * clipped_log(math_of(xp), pick(chances, rows, columns))), chances)
    return scalar(xp, -xp.sum(labels * clipped_log(math_of(xp), chances)), chances)


def _infer_error(shapes: Sequence[Shape], attributes: Any) -> Shape:
    result = infer_criterion(shapes, attributes)
    if len(shapes) == 3 and elements(shapes[2]) != 1:
        raise ShapeError(f"topN must be a single number, not {show(shapes[2])}")
    return result


@_criterion(
    "ClassificationError",
    None,
    inputs=(2, 3),
    infer=_infer_error,
    sparse_inputs=frozenset({0}),
    aliases={"ndl": ("ErrorPrediction",), "brainscript": ("ErrorPrediction",), "model": ("ErrorPrediction",)},
)
def CLASSIFICATION_ERROR(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """How many samples do not have their label among the N best (default 1); inputs: labels, scores [, N]."""
    labels, scores = paired(inputs[0], inputs[1], context.framed)
    best = int(inputs[2].reshape(-1)[0]) if len(inputs) == 3 else 1
    (rows,) = np.broadcast_shapes((labels.shape[0],), (len(scores),))
    scores = xp.broadcast_to(scores, (rows, scores.shape[1]))
    wanted = xp.broadcast_to(best_columns(labels).reshape(-1, 1), (rows, 1))
    score = xp.take_along_axis(scores, wanted, axis=1)
    # Of equal scores the first counts as the best; what cannot be compared (NaN) counts as better.
    behind = (scores < score) | ((scores == score) & (xp.arange(scores.shape[1]) >= wanted))
    ahead = scores.shape[1] - xp.sum(behind, axis=1)
    return scalar(xp, xp.sum(ahead >= best), scores)


def _correct_chance(labels: Array, chances: Array) -> Array:
    """Probability of what the label says: y p + (1 - y)(1 - p)."""
    return 2.0 * labels * chances + 1.0 - labels - chances


def _weights(inputs: Sequence[Array], context: OpContext) -> Array | float:
    """Weights of the samples, scaled so that their mean is 1."""
    if len(inputs) == 2:
        return 1.0
    weights = samples(inputs[2], context.framed[2])
    return weights * (context.frames / weights.sum())


def _logistic_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    labels, chances = paired(inputs[0], inputs[1], context.framed)
    slope = (2.0 * labels - 1.0) / _guarded(xp, _correct_chance(labels, chances))
    if len(inputs) == 3:  # CNTK trains with the weights as they are, and shows the mean
        slope = slope * samples(inputs[2], context.framed[2])
    return [None, unpaired(xp, -gradient * slope, inputs[1]), None][: len(inputs)]


@_criterion(
    "Logistic",
    _logistic_gradient,
    inputs=(2, 3),
    differentiable=(False, True, False),
    traits=Traits(pure_xp=True, keeps_nothing=True),
)
def LOGISTIC(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """-sum(log(2 y p + 1 - y - p)), each sample weighted if there are weights; inputs: labels 0 or 1, p [, weights]."""
    labels, chances = paired(inputs[0], inputs[1], context.framed)
    logarithms = clipped_log(math_of(xp), _correct_chance(labels, chances))
    return scalar(xp, -xp.sum(logarithms * _weights(inputs, context)), chances)


def _infer_dummy(shapes: Sequence[Shape], attributes: Any) -> Shape:
    if elements(shapes[0]) != 1:
        raise ShapeError(f"the objective must be a single number, not {show(shapes[0])}")
    return infer_criterion(shapes[1:], attributes)


def _dummy_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    derivative, _ = paired(inputs[1], inputs[2], context.framed[1:])
    return None, None, unpaired(xp, gradient * derivative, inputs[2])


@_criterion(
    "DummyCriterion",
    _dummy_gradient,
    inputs=3,
    infer=_infer_dummy,
    differentiable=(False, False, True),
    traits=Traits(pure_xp=True, keeps_nothing=True),
)
def DUMMY_CRITERION(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Sum of the first input; the second is handed to the third as its gradient. Inputs: objective, gradient, score."""
    return scalar(xp, xp.sum(inputs[0]), inputs[0])


OPS = (
    SQUARE_ERROR,
    CROSS_ENTROPY_WITH_SOFTMAX,
    CROSS_ENTROPY,
    CLASSIFICATION_ERROR,
    LOGISTIC,
    DUMMY_CRITERION,
)
