"""The delays that close loops: PastValue and FutureValue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.families.delays import delay_forward, delay_gradient
from cntk_core.ops.families.geometry import Dims
from cntk_core.ops.families.reshaping import ints
from cntk_core.ops.language.define import define_op, guess_first
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import Traits


@attrs.frozen
class DelayAttributes:
    """Attributes of PastValue and FutureValue.

    Attributes:
        dims: dimensions of the value in CNTK's order, as far as the recipe gives them; they start the inference of
            shapes in a loop and give way to the input's.
        time_step: how many frames back or ahead.
        default_hidden_activation: the value before the first or after the last frame, if there is no initial state.
    """

    dims: Dims = attrs.field(default=(), converter=ints)
    time_step: int = 1
    default_hidden_activation: float = 0.1


def _infer_delay(shapes: Sequence[Shape], attributes: DelayAttributes) -> Shape:
    if attributes.time_step < 1:
        raise ShapeError(f"timeStep must be at least 1, not {attributes.time_step}")
    if len(shapes) > 1 and elements(shapes[1]) != 1 and _without_ones(shapes[1]) != _without_ones(shapes[0]):
        raise ShapeError(f"the initial state {show(shapes[1])} does not fit the value {show(shapes[0])}")
    return shapes[0]


def _without_ones(shape: Shape) -> Shape:
    """A shape without leading ones, which may be left out of an initial state."""
    first = next((place for place, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:]


def _complete_delay(shapes: Sequence[Shape], attributes: DelayAttributes) -> Sequence[Shape]:
    if len(shapes) < 2 or 0 not in shapes[1]:
        return shapes
    known = shapes[0][len(shapes[0]) - len(shapes[1]) :]
    return [shapes[0], tuple(dim or size for dim, size in zip(shapes[1], known, strict=True))]


def _delay(name: str, direction: Literal[-1, 1], where: str, aliases: dict[str, tuple[str, ...]]) -> Op:
    def forward(xp: Any, inputs: Sequence[Array], attributes: DelayAttributes, context: OpContext) -> Array:
        shift = direction * attributes.time_step
        return delay_forward(xp, inputs, context, shift, attributes.default_hidden_activation)

    def gradient(
        xp: Any,
        grad: Array,
        output: Array,
        inputs: Sequence[Array],
        attributes: DelayAttributes,
        context: OpContext,
        needs: Sequence[bool],
    ) -> list[Array | None]:
        return delay_gradient(xp, grad, inputs, context, direction * attributes.time_step, needs)

    return define_op(
        name,
        inputs=(1, 2),
        infer=_infer_delay,
        gradient=gradient,
        complete=_complete_delay,
        guess=guess_first,
        attributes=DelayAttributes,
        axis_of=0,
        reads_inputs=False,
        reads_output=False,
        aliases=aliases,
        traits=Traits(delay=direction),
        doc=f"The value some frames {where}; inputs: value [, initial state]. Closes loops.",
    )(forward)


_DELAY = ("Delay",)
PAST_VALUE = _delay("PastValue", 1, "back", {"ndl": _DELAY, "brainscript": _DELAY, "model": _DELAY})
FUTURE_VALUE = _delay("FutureValue", -1, "ahead", {})


OPS = (PAST_VALUE, FUTURE_VALUE)
