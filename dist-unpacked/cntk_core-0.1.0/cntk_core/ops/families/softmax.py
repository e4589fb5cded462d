"""Softmax, LogSoftmax and Hardmax. All run over a whole sample, or over the columns of a constant matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cntk_core.ops.language.define import define_op, guess_first
from cntk_core.ops.language.framing import columns
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape
from cntk_core.ops.language.traits import BY_ROWS


def log_softmax(xp: Any, rows: Array) -> Array:
    """log(softmax) of each row of a matrix, without overflow."""
    shifted = rows - xp.max(rows, axis=1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))


def _same(shapes: Sequence[Shape], attributes: Any) -> Shape:
    return shapes[0]


def _softmax_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    y, g = columns(output, context.framed[0]), columns(gradient, context.framed[0])
    return ((y * (g - xp.sum(g * y, axis=1, keepdims=True))).reshape(output.shape),)


@define_op("Softmax", infer=_same, guess=guess_first, gradient=_softmax_gradient, reads_inputs=False, traits=BY_ROWS)
def SOFTMAX(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Probabilities: exp(x) / sum(exp(x)) over the sample."""
    return xp.exp(log_softmax(xp, columns(inputs[0], context.framed[0]))).reshape(inputs[0].shape)


def _log_softmax_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    y, g = columns(output, context.framed[0]), columns(gradient, context.framed[0])
    return ((g - xp.exp(y) * xp.sum(g, axis=1, keepdims=True)).reshape(output.shape),)


@define_op(
    "LogSoftmax", infer=_same, guess=guess_first, gradient=_log_softmax_gradient, reads_inputs=False, traits=BY_ROWS
)
def LOG_SOFTMAX(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Logarithm of Softmax: x - log(sum(exp(x))) over the sample."""
    return log_softmax(xp, columns(inputs[0], context.framed[0])).reshape(inputs[0].shape)


@define_op("Hardmax", infer=_same, traits=BY_ROWS)
def HARDMAX(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """1 at the largest element of the sample (the first of equal ones), else 0."""
    rows = columns(inputs[0], context.framed[0])
    hit = xp.arange(rows.shape[1]) == xp.argmax(rows, axis=1)[:, None]
    return hit.astype(rows.dtype).reshape(inputs[0].shape)


OPS = (SOFTMAX, LOG_SOFTMAX, HARDMAX)
