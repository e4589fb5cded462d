"""TopK: the largest elements of an axis, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import ShapeError, did_you_mean
from cntk_core.ops.families.outputs import define_outputs
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.shapes import Shape, show
from cntk_core.ops.language.traits import BY_ROWS

OUTPUTS = ("values", "indices", "both")
"""What of the largest elements a node gives; both are two outputs of one computation."""


@attrs.frozen
class TopKAttributes:
    """Attributes of TopK.

    Attributes:
        k: how many.
        axis: CNTK's axis number, from 1.
        output: one of :data:`OUTPUTS`.

    Raises:
        ShapeError: there is no such output.
    """

    k: int
    axis: int = 1
    output: str = "values"

    def __attrs_post_init__(self) -> None:
        if self.output not in OUTPUTS:
            guess = did_you_mean(self.output, OUTPUTS)
            raise ShapeError(f"TopK has no output '{self.output}'{guess}", hint=f"Outputs: {', '.join(OUTPUTS)}")


def _infer_top(shapes: Sequence[Shape], attributes: TopKAttributes) -> Shape:
    shape, axis = shapes[0], attributes.axis
    if not 1 <= axis <= len(shape):
        raise ShapeError(f"the input {show(shape)} has no axis {axis}")
    size = shape[-axis]
    if not 1 <= attributes.k <= size:
        raise ShapeError(f"there are no {attributes.k} largest of the {size} elements along axis {axis}")
    place = len(shape) - axis
    return (*shape[:place], attributes.k, *shape[place + 1 :])


def _places(xp: Any, value: Array, attributes: TopKAttributes) -> Array:
    """Where the largest elements stand, the largest first; of equal ones the first. NaN is smaller than all."""
    axis = value.ndim - attributes.axis
    # The other modules sort stably without being asked, and do not bear to be.
    order = xp.argsort(-value, axis=axis, **({"kind": "stable"} if isinstance(value, np.ndarray) else {}))
    return order[(*(slice(None),) * axis, slice(0, attributes.k))]


def _top_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: TopKAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    if attributes.output == "indices":
        return (None,)
    value = inputs[0]
    axis = value.ndim - attributes.axis
    result = xp.zeros_like(value)
    xp.put_along_axis(result, _places(xp, value, attributes), gradient, axis)
    return (result,)


def _form(attributes: TopKAttributes) -> Op:
    return _BOTH if attributes.output == "both" else TOP_K


@define_op(
    "TopK",
    infer=_infer_top,
    gradient=_top_gradient,
    attributes=TopKAttributes,
    form=_form,
    reads_output=False,
    traits=attrs.evolve(BY_ROWS, in_place="gradient"),
)
def TOP_K(xp: Any, inputs: Sequence[Array], attributes: TopKAttributes, context: OpContext) -> Array:
    """The k largest elements along an axis, the largest first, where they stand (from 0), or both as two outputs."""
    value = inputs[0]
    places = _places(xp, value, attributes)
    if attributes.output == "indices":
        return places.astype(value.dtype)
    return xp.take_along_axis(value, places, axis=value.ndim - attributes.axis)


def _both_gradient(
    xp: Any,
    gradients: Sequence[Array],
    values: Sequence[Array],
    inputs: Sequence[Array],
    attributes: TopKAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return _top_gradient(xp, gradients[0], values[0], inputs, attributes, context, needs)


@define_outputs(
    "TopK",
    {"values": _infer_top, "indices": _infer_top},
    gradient=_both_gradient,
    attributes=TopKAttributes,
    form=_form,
    reads_output=False,
    traits=attrs.evolve(BY_ROWS, in_place="gradient"),
)
def _BOTH(xp: Any, inputs: Sequence[Array], attributes: TopKAttributes, context: OpContext) -> Sequence[Array]:
    """Give values and places of one sorting."""
    value = inputs[0]
    places = _places(xp, value, attributes)
    return xp.take_along_axis(value, places, axis=value.ndim - attributes.axis), places.astype(value.dtype)


OPS = (TOP_K,)
