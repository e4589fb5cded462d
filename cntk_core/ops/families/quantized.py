"""Products in 16-bit whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.ops.families.products import TimesAttributes, complete_times, guess_times, infer_times, product_of
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import dense
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.traits import Traits

LARGEST = 32767
"""Largest 16-bit whole number."""


@attrs.frozen
class QuantizedTimesAttributes(TimesAttributes):
    """Attributes of QuantizedTimes: those of Times, and how many bits of the operands' range are left free."""

    bit_smoothing_a: int = 1
    bit_smoothing_b: int = 1


def quantized(xp: Any, values: Array, free_bits: int) -> tuple[Array, Array]:
    """Return values as whole numbers of the same shape, held as floats, and the factor, a scalar, of which they are."""
    largest = xp.max(xp.abs(values), initial=0.0) * 2**free_bits
    factor = xp.where(largest > 0.0, LARGEST / xp.where(largest > 0.0, largest, 1.0), 0.0)
    scaled = values * factor
    # Halves are rounded away from 0.
    return xp.sign(scaled) * xp.floor(xp.abs(scaled) + 0.5), factor


@define_op(
    "QuantizedTimes",
    inputs=2,
    infer=infer_times,
    complete=complete_times,
    guess=guess_times,
    attributes=QuantizedTimesAttributes,
    traits=Traits(keeps_nothing=True),
)
def QUANTIZED_TIMES(
    xp: Any, inputs: Sequence[Array], attributes: QuantizedTimesAttributes, context: OpContext
) -> Array:
    """Times, computed in 16-bit whole numbers; for evaluation only."""
    left, right = (dense(value) for value in inputs)
    return quantized_product(xp, [left, right], attributes, context)


def quantized_product(
    xp: Any, inputs: Sequence[Array], attributes: QuantizedTimesAttributes, context: OpContext
) -> Array:
    """Return the product of two arrays, computed in 16-bit whole numbers; shapes are those of Times."""
    left, right = inputs
    # Products of whole numbers are exact in double precision.
    first, by_first = quantized(xp, left.astype(xp.float64), attributes.bit_smoothing_a)
    second, by_second = quantized(xp, right.astype(xp.float64), attributes.bit_smoothing_b)
    product = product_of(xp, [first, second], attributes, context)
    scale = by_first * by_second
    return (product / xp.where(scale > 0.0, scale, 1.0)).astype(left.dtype)


OPS = (QUANTIZED_TIMES,)
