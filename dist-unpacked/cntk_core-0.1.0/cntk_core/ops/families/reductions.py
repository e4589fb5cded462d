"""Sums and other reductions: ReduceElements, SumElements, SumColumnElements, MatrixL1Reg, MatrixL2Reg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError, did_you_mean
from cntk_core.ops.families.frame_reductions import ALL_AXES, BATCH_AXIS, SEQUENCE_AXIS, forms_over_frames
from cntk_core.ops.families.reduction_rules import REDUCTIONS, SMALLEST, reduced, slope
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import samples, scalar
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import BY_ROWS, Traits


@attrs.frozen
class ReduceAttributes:
    """Attributes of ReduceElements.

    Attributes:
        reduction_op: one of :data:`REDUCTIONS`.
        axis: CNTK's axis number, from 1; 0 is the whole sample, -1 all axes, -2 the sequence axis, -3 the batch axis.
        keep_dimensions: a reduced axis stays with length 1. None: yes for one axis, no for the whole sample. Dynamic
            axes never stay.
    """

    reduction_op: str = "Sum"
    axis: int = 0
    keep_dimensions: bool | None = None

    @property
    def operation(self) -> str:
        """The reduction, as :data:`REDUCTIONS` writes it."""
        found = {name.lower(): name for name in (*REDUCTIONS, "Plus")}.get(self.reduction_op.lower())
        if found is None:
            guess = did_you_mean(self.reduction_op, REDUCTIONS)
            raise ShapeError(
                f"there is no reduction '{self.reduction_op}'{guess}", hint=f"Reductions: {', '.join(REDUCTIONS)}"
            )
        return "Sum" if found == "Plus" else found

    @property
    def keeps(self) -> bool:
        """Whether reduced axes stay."""
        return self.axis not in (0, -1) if self.keep_dimensions is None else self.keep_dimensions


def _infer_reduce(shapes: Sequence[Shape], attributes: ReduceAttributes) -> Shape:
    shape, axis = shapes[0], attributes.axis
    operation = attributes.operation
    if axis < BATCH_AXIS:
        raise ShapeError(f"there is no axis {axis}")
    if axis == ALL_AXES and operation in ("Argmax", "Argmin"):
        raise ShapeError(f"{operation} over all axes has no place to tell; it goes along one axis or over a sample")
    if axis in (SEQUENCE_AXIS, BATCH_AXIS):
        return shape
    if axis > len(shape):
        raise ShapeError(f"the input {show(shape)} has no axis {axis}")
    if axis in (0, ALL_AXES):
        return (1,) * len(shape) if attributes.keeps else (1,)
    place = len(shape) - axis
    return shape[:place] + ((1,) if attributes.keeps else ()) + shape[place + 1 :]


def _grouped(value: Array, framed: bool, axis: int) -> Array:
    """The value as ``(outer, reduced, inner)``."""
    sample = value.shape[1:] if framed else value.shape
    if axis == 0:
        return samples(value, framed)[:, :, None]
    place = value.ndim - axis
    inner = 1
    for size in value.shape[place + 1 :]:
        inner *= size
    outer = elements(value.shape[:place])
    return value.reshape(outer, sample[len(sample) - axis], inner)


def _reduce_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: ReduceAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    operation = attributes.operation
    groups = _grouped(inputs[0], context.framed[0], attributes.axis)
    g = gradient.reshape(groups.shape[0], 1, groups.shape[2])
    y = output.reshape(g.shape)
    return (slope(xp, operation, g, y, groups, groups.shape[1]).reshape(inputs[0].shape),)


def _form_of_reduce(attributes: ReduceAttributes) -> Op:
    """Over dynamic axes it is another op."""
    if attributes.axis >= 0:
        return REDUCE_ELEMENTS
    is_sum = attributes.reduction_op.lower() in ("sum", "plus")
    return _OVER_FRAMES.get((attributes.axis, is_sum), REDUCE_ELEMENTS)


@define_op(
    "ReduceElements",
    infer=_infer_reduce,
    gradient=_reduce_gradient,
    attributes=ReduceAttributes,
    form=_form_of_reduce,
    traits=BY_ROWS,
)
def REDUCE_ELEMENTS(xp: Any, inputs: Sequence[Array], attributes: ReduceAttributes, context: OpContext) -> Array:
    """Sum, log of the sum of exponentials, mean, largest, smallest, product or place, over static or dynamic axes."""
    value, framed = inputs[0], context.framed[0]
    sample = tuple(value.shape[1:] if framed else value.shape)
    shape = _infer_reduce([sample], attributes)
    result = reduced(xp, _grouped(value, framed, attributes.axis), attributes.operation)
    return result.reshape((value.shape[0], *shape) if framed else shape)


_OVER_FRAMES = forms_over_frames(ReduceAttributes, _infer_reduce, _form_of_reduce)


def _infer_scalar(shapes: Sequence[Shape], attributes: Any) -> Shape:
    return (1,)


def _sum_elements_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return (xp.broadcast_to(gradient.reshape(()), inputs[0].shape),)


@define_op(
    "SumElements",
    infer=_infer_scalar,
    gradient=_sum_elements_gradient,
    reduces_frames=True,
    role="criterion",
    reads_inputs=False,
    reads_output=False,
    traits=Traits(pure_xp=True, keeps_nothing=True, ignores_zero_rows=True),
)
def SUM_ELEMENTS(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Sum of all elements of all samples: a scalar."""
    return scalar(xp, xp.sum(inputs[0]), inputs[0])


def _sum_columns_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    rows = samples(inputs[0], context.framed[0])
    return (xp.broadcast_to(gradient.reshape(-1, 1), rows.shape).reshape(inputs[0].shape),)


@define_op(
    "SumColumnElements",
    infer=_infer_scalar,
    gradient=_sum_columns_gradient,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def SUM_COLUMN_ELEMENTS(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Sum of the elements of each sample."""
    totals = xp.sum(samples(inputs[0], context.framed[0]), axis=1)
    return totals.reshape(-1, 1) if context.framed[0] else totals.reshape(1)


def _l1_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return (gradient.reshape(()) * xp.sign(inputs[0]),)


@define_op(
    "MatrixL1Reg",
    infer=_infer_scalar,
    gradient=_l1_gradient,
    reduces_frames=True,
    role="criterion",
    reads_output=False,
    aliases={"ndl": ("L1Reg",)},
    traits=Traits(pure_xp=True, keeps_nothing=True, ignores_zero_rows=True),
)
def MATRIX_L1_REG(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Sum of the absolute values: a scalar."""
    return scalar(xp, xp.sum(xp.abs(inputs[0])), inputs[0])


def _l2_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return ((gradient / (output + SMALLEST)).reshape(()) * inputs[0],)


@define_op(
    "MatrixL2Reg",
    infer=_infer_scalar,
    gradient=_l2_gradient,
    reduces_frames=True,
    role="criterion",
    aliases={"ndl": ("L2Reg",)},
    traits=Traits(pure_xp=True, keeps_nothing=True, ignores_zero_rows=True),
)
def MATRIX_L2_REG(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Root of the sum of squares (not its square): a scalar."""
    return scalar(xp, xp.sqrt(xp.sum(inputs[0] * inputs[0])), inputs[0])


OPS = (REDUCE_ELEMENTS, SUM_ELEMENTS, SUM_COLUMN_ELEMENTS, MATRIX_L1_REG, MATRIX_L2_REG)
