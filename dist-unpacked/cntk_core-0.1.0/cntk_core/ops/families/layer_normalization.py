"""Normalization of each sample by its own mean and variance (J. L. Ba, J. R. Kiros, G. E. Hinton, arXiv:1607.06450)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.language.define import define_op, guess_first
from cntk_core.ops.language.framing import unbroadcast
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.placement import stays
from cntk_core.ops.language.shapes import Shape, broadcast, show
from cntk_core.ops.language.traits import BY_ROWS


@attrs.frozen
class LayerNormalizationAttributes:
    """Attributes of LayerNormalization.

    Attributes:
        axes: how many of CNTK's first axes (our last in memory) have a mean and a variance together; 0 are all.
        epsilon: added to the variance.
    """

    axes: int = 0
    epsilon: float = 1e-5

    def rank_of(self, shape: Shape) -> int:
        """Return how many of the last axes of a sample are normalized together.

        Raises:
            ShapeError: it has fewer.
        """
        axes = self.axes or len(shape)
        if not 1 <= axes <= len(shape):
            raise ShapeError(f"the input {show(shape)} has no {axes} axes to normalize")
        return axes


def _infer_normalization(shapes: Sequence[Shape], attributes: LayerNormalizationAttributes) -> Shape:
    data = shapes[0]
    attributes.rank_of(data)
    for name, shape in zip(("scale", "bias"), shapes[1:], strict=False):
        if broadcast([data, shape]) != data:
            raise ShapeError(f"the {name} {show(shape)} does not fit the input {show(data)}")
    return data


def _complete(shapes: Sequence[Shape], attributes: LayerNormalizationAttributes) -> list[Shape]:
    """Scale and bias with dimensions 0 have those of the input."""
    data = shapes[0]

    def filled(shape: Shape) -> Shape:
        whole = (1,) * (len(shape) - len(data)) + data
        return tuple(dim or size for dim, size in zip(shape, whole[len(whole) - len(shape) :], strict=True))

    return [data, *(filled(shape) for shape in shapes[1:])]


def _standardized(
    xp: Any, data: Array, attributes: LayerNormalizationAttributes, context: OpContext
) -> tuple[Array, Array, tuple[int, ...]]:
    """The data with mean 0 and variance 1, the inverse deviations, and the axes that have one."""
    count = attributes.rank_of(data.shape[int(context.framed[0]) :])
    axes = tuple(range(data.ndim - count, data.ndim))
    centred = data - xp.mean(data, axis=axes, keepdims=True)
    inverse = 1.0 / xp.sqrt(xp.mean(centred * centred, axis=axes, keepdims=True) + attributes.epsilon)
    return centred * inverse, inverse, axes


def _gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: LayerNormalizationAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    standard, inverse, axes = _standardized(xp, inputs[0], attributes, context)
    framed = context.framed[0]
    found: list[Array | None] = [None]
    if needs[0]:
        incoming = gradient * inputs[1] if len(inputs) > 1 else gradient
        mean = xp.mean(incoming, axis=axes, keepdims=True)
        slope = xp.mean(incoming * standard, axis=axes, keepdims=True)
        found[0] = inverse * (incoming - mean - standard * slope)
    for value, by in zip(inputs[1:], (gradient * standard, gradient), strict=False):
        found.append(unbroadcast(xp, by, value.shape, False, framed))
    return found


@define_op(
    "LayerNormalization",
    inputs=(1, 3),
    infer=_infer_normalization,
    complete=_complete,
    guess=guess_first,
    gradient=_gradient,
    attributes=LayerNormalizationAttributes,
    reads_output=False,
    unframed=frozenset({1, 2}),
    placement=stays,
    traits=BY_ROWS,
)
def LAYER_NORMALIZATION(
    xp: Any, inputs: Sequence[Array], attributes: LayerNormalizationAttributes, context: OpContext
) -> Array:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, with each sample's own; inputs: x [, scale [, bias]]."""
    result, _, _ = _standardized(xp, inputs[0], attributes, context)
    if len(inputs) > 1:
        result = result * inputs[1]
    return result + inputs[2] if len(inputs) > 2 else result


OPS = (LAYER_NORMALIZATION,)
