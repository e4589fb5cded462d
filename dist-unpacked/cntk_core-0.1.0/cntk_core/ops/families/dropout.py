"""Dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import ShapeError
from cntk_core.ops.language.define import define_op, guess_first
from cntk_core.ops.language.op import LATER, Array, OpContext
from cntk_core.ops.language.placement import stays
from cntk_core.ops.language.shapes import Shape
from cntk_core.ops.language.traits import Traits

RATE = "dropoutRate"
"""Name of the setting that holds the share of elements to drop."""


@attrs.frozen
class DropoutAttributes:
    """Attributes of Dropout.

    Attributes:
        dropout_rate: the share of elements that this node drops; below 0 it is that of the run.
        seed: keys its random numbers, alike in all nodes with it; below 0 each node has others, by the run's seed.
    """

    dropout_rate: float = attrs.field(default=-1.0, metadata=LATER)
    seed: int = attrs.field(default=-1, metadata=LATER)


def _infer(shapes: Sequence[Shape], attributes: DropoutAttributes) -> Shape:
    if not attributes.dropout_rate < 1.0:
        raise ShapeError(
            f"{attributes.dropout_rate:g} is no share of elements that could be dropped",
            hint="A dropoutRate is at least 0 and below 1; below 0 it is that of the run.",
        )
    return shapes[0]


def dropout_rate(attributes: DropoutAttributes, context: OpContext) -> float:
    """Return the share of elements that a node drops now: none unless it trains."""
    if not context.training:
        return 0.0
    own = attributes.dropout_rate
    return own if own >= 0.0 else context.settings.get(RATE, 0.0)


def dropout_mask(xp: Any, shape: Sequence[int], dtype: Any, rate: float, generator: np.random.Generator) -> Array:
    """Return what values are multiplied by: 0 for a share ``rate`` of them, 1 / (1 - rate) for the others.

    Drawn in single precision whatever ``dtype`` is, so that every engine and precision drops the same elements.
    """
    kept = generator.random(tuple(shape), dtype=np.float32) >= rate
    return xp.asarray(kept.astype(dtype) / (1.0 - rate), dtype=dtype)


def _dropout_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    mask = context.saved.get("mask")
    return (gradient if mask is None else gradient * mask,)


@define_op(
    "Dropout",
    infer=_infer,
    guess=guess_first,
    gradient=_dropout_gradient,
    attributes=DropoutAttributes,
    random=True,
    reads_inputs=False,
    placement=stays,
    reads_output=False,
    traits=Traits(keeps_order=True, settings=frozenset({RATE})),
)
def DROPOUT(xp: Any, inputs: Sequence[Array], attributes: DropoutAttributes, context: OpContext) -> Array:
    """In training, drops elements by chance and scales the others up; the rate is the node's or the run's."""
    value, rate = inputs[0], dropout_rate(attributes, context)
    context.saved["mask"] = None
    if rate <= 0.0:
        return value
    mask = dropout_mask(xp, value.shape, value.dtype, rate, context.random())
    context.saved["mask"] = mask
    return value * mask


OPS = (DROPOUT,)
