"""Dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk_core.ops.language.define import define_op, guess_first
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.placement import stays
from cntk_core.ops.language.shapes import Shape
from cntk_core.ops.language.traits import Traits

RATE = "dropoutRate"
"""Name of the setting that holds the share of elements to drop."""


def _same(shapes: Sequence[Shape], attributes: Any) -> Shape:
    return shapes[0]


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
    infer=_same,
    guess=guess_first,
    gradient=_dropout_gradient,
    random=True,
    reads_inputs=False,
    placement=stays,
    reads_output=False,
    traits=Traits(keeps_order=True, settings=frozenset({RATE})),
)
def DROPOUT(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """In training, drops elements by chance and scales the others up; the rate is the setting dropoutRate."""
    value = inputs[0]
    rate = context.settings.get(RATE, 0.0) if context.training else 0.0
    context.saved["mask"] = None
    if rate <= 0.0:
        return value
    mask = dropout_mask(xp, value.shape, value.dtype, rate, context.random())
    context.saved["mask"] = mask
    return value * mask


OPS = (DROPOUT,)
