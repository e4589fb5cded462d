"""Pad: samples with more elements at their borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError, did_you_mean
from cntk_core.ops.families.geometry import Dims
from cntk_core.ops.families.reshaping import ints
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import sample_shape
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, show
from cntk_core.ops.language.traits import BY_ROWS

MODES = ("constant", "reflect", "symmetric")
"""What stands in the padding: a number, or the elements next to it mirrored, without or with the one at the border."""


@attrs.frozen
class PadAttributes:
    """Attributes of Pad, for each of CNTK's axes from the first one; axes beyond are not padded.

    Attributes:
        head, foot: how many elements are put before the first and after the last.
        mode: one of :data:`MODES`.
        value: the number of the mode ``constant``.
    """

    head: Dims = attrs.field(converter=ints)
    foot: Dims = attrs.field(converter=ints)
    mode: str = "constant"
    value: float = 0.0

    def __attrs_post_init__(self) -> None:
        if self.mode not in MODES:
            guess = did_you_mean(self.mode, MODES)
            raise ShapeError(f"Pad has no mode '{self.mode}'{guess}", hint=f"Modes: {', '.join(MODES)}")
        if len(self.head) != len(self.foot):
            raise ShapeError(f"Pad needs as many heads as feet, not {len(self.head)} and {len(self.foot)}")


def _widths(shape: Shape, attributes: PadAttributes) -> list[tuple[int, int]]:
    """Padding before and after each memory axis of a sample."""
    missing = len(shape) - len(attributes.head)
    pairs = zip(reversed(attributes.head), reversed(attributes.foot), strict=True)
    return [*[(0, 0)] * missing, *pairs]


def _infer_pad(shapes: Sequence[Shape], attributes: PadAttributes) -> Shape:
    shape = shapes[0]
    if len(attributes.head) > len(shape):
        raise ShapeError(f"the input {show(shape)} has no axis {len(attributes.head)} to pad")
    result = []
    for place, (size, widths) in enumerate(zip(shape, _widths(shape, attributes), strict=True)):
        most = {"constant": max(widths), "reflect": size - 1, "symmetric": size}[attributes.mode]
        if min(widths) < 0 or max(widths) > most:
            raise ShapeError(
                f"axis {len(shape) - place} of {show(shape)} cannot be padded by {widths[0]} and {widths[1]} "
                f"({attributes.mode})"
            )
        result.append(size + sum(widths))
    return tuple(result)


def _folded(xp: Any, gradient: Array, axis: int, widths: tuple[int, int], attributes: PadAttributes) -> Array:
    """The gradient of what was padded along one axis."""
    head, foot = widths
    size = gradient.shape[axis] - head - foot

    def part(begin: int, end: int) -> Array:
        return gradient[(*(slice(None),) * axis, slice(begin, end))]

    result = part(head, head + size)
    apart = int(attributes.mode == "reflect")
    turn = (*(slice(None),) * axis, slice(None, None, -1))
    for begin, width, before in ((0, head, apart), (head + size, foot, size - apart - foot)):
        if width and attributes.mode != "constant":
            mirrored = part(begin, begin + width)[turn]
            zeros = xp.zeros_like(part(0, 1))
            parts = [zeros] * before + [mirrored] + [zeros] * (size - before - width)
            result = result + xp.concatenate(parts, axis=axis)
    return result


def _pad_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: PadAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    framed = context.framed[0]
    result = gradient
    for axis, widths in enumerate(_widths(sample_shape(inputs[0], framed), attributes)):
        if any(widths):
            result = _folded(xp, result, axis + int(framed), widths, attributes)
    return (result,)


@define_op(
    "Pad",
    infer=_infer_pad,
    gradient=_pad_gradient,
    attributes=PadAttributes,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def PAD(xp: Any, inputs: Sequence[Array], attributes: PadAttributes, context: OpContext) -> Array:
    """The sample with more elements at its borders: a number, or what stands there mirrored."""
    framed = context.framed[0]
    widths = [*[(0, 0)] * int(framed), *_widths(sample_shape(inputs[0], framed), attributes)]
    if attributes.mode == "constant":
        return xp.pad(inputs[0], widths, mode="constant", constant_values=attributes.value)
    return xp.pad(inputs[0], widths, mode=attributes.mode)


OPS = (PAD,)
