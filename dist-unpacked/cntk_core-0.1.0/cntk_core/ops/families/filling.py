"""Values of an input's shape that do not depend on its numbers, and numbers rounded to a type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import ShapeError, did_you_mean
from cntk_core.ops.language.define import define_op, elementwise_op, first_shape, guess_first
from cntk_core.ops.language.framing import sample_shape
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, show
from cntk_core.ops.language.traits import BY_ROWS

TYPES = {"float16": 2, "float": 4, "double": 8}
"""Types that numbers can be cast to, and their bytes."""


@attrs.frozen
class FillAttributes:
    """Attributes of ConstantOp: the number."""

    fill_value: float = 0.0


@elementwise_op("ConstantOp", attributes=FillAttributes)
def CONSTANT_OP(m: Any, attributes: FillAttributes, x: Any) -> Any:
    """One number for every element of the input."""
    return m.where(m.equal(x, x), attributes.fill_value, attributes.fill_value)


def _infer_eye(shapes: Sequence[Shape], attributes: Any) -> Shape:
    if len(shapes[0]) != 2:
        raise ShapeError(f"only a matrix has a diagonal, not {show(shapes[0])}")
    return shapes[0]


@define_op("EyeLikeOp", infer=_infer_eye, guess=guess_first, reads_inputs=False, traits=BY_ROWS)
def EYE_LIKE(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """A matrix as large as the input, with ones in the diagonal and zeros elsewhere."""
    rows, columns = sample_shape(inputs[0], context.framed[0])
    return xp.zeros_like(inputs[0]) + xp.eye(rows, columns, dtype=inputs[0].dtype)


@attrs.frozen
class CastAttributes:
    """Attributes of Cast: ``float16``, ``float`` or ``double``.

    Raises:
        ShapeError: there is no such type.
    """

    new_data_type: str

    def __attrs_post_init__(self) -> None:
        if self.new_data_type not in TYPES:
            guess = did_you_mean(self.new_data_type, TYPES)
            raise ShapeError(
                f"numbers cannot be cast to '{self.new_data_type}'{guess}", hint=f"Types: {', '.join(TYPES)}"
            )


def _rounded(value: Array, attributes: CastAttributes) -> Array:
    """Numbers as a type holds them, in the type that they had; a wider type changes nothing."""
    own = np.dtype(value.dtype)
    if TYPES[attributes.new_data_type] >= own.itemsize:
        return value
    narrow = {"float16": np.float16, "float": np.float32}[attributes.new_data_type]
    return value.astype(narrow).astype(own)


def _cast_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: CastAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return (_rounded(gradient, attributes),)


@define_op(
    "Cast",
    infer=first_shape,
    guess=guess_first,
    gradient=_cast_gradient,
    attributes=CastAttributes,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def CAST(xp: Any, inputs: Sequence[Array], attributes: CastAttributes, context: OpContext) -> Array:
    """The input rounded as another type holds it; a network computes in one precision before and after."""
    return _rounded(inputs[0], attributes)


OPS = (CONSTANT_OP, EYE_LIKE, CAST)
