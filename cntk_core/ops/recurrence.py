"""Ops that look along the dynamic axis: the delays that close loops, Shift, and whole recurrent stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.define import declare_op, define_op, first_shape, guess_first
from cntk_core.ops.delays import delay_forward, delay_gradient, shift_of
from cntk_core.ops.geometry import Dims
from cntk_core.ops.op import Array, Op, OpContext
from cntk_core.ops.reshaping import ints
from cntk_core.ops.shapes import Shape, elements, show

GATES = {"lstm": 4, "gru": 3, "rnntanh": 1, "rnnrelu": 1}
"""Recurrent ops that OptimizedRNNStack knows, and how many products each makes."""


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
    if len(shapes) > 1 and elements(shapes[1]) not in (1, elements(shapes[0])):
        raise ShapeError(f"the initial state {show(shapes[1])} does not fit the value {show(shapes[0])}")
    return shapes[0]


def _complete_delay(shapes: Sequence[Shape], attributes: DelayAttributes) -> Sequence[Shape]:
    if len(shapes) < 2 or 0 not in shapes[1]:
        return shapes
    known = shapes[0][len(shapes[0]) - len(shapes[1]) :]
    return [shapes[0], tuple(dim or size for dim, size in zip(shapes[1], known, strict=True))]


def _delay(name: str, where: str, aliases: dict[str, tuple[str, ...]]) -> Op:
    def forward(xp: Any, inputs: Sequence[Array], attributes: DelayAttributes, context: OpContext) -> Array:
        shift = shift_of(name, attributes.time_step)
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
        return delay_gradient(xp, grad, inputs, context, shift_of(name, attributes.time_step), needs)

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
        doc=f"The value some frames {where}; inputs: value [, initial state]. Closes loops.",
    )(forward)


_DELAY = ("Delay",)
PAST_VALUE = _delay("PastValue", "back", {"ndl": _DELAY, "brainscript": _DELAY, "model": _DELAY})
FUTURE_VALUE = _delay("FutureValue", "ahead", {})


@attrs.frozen
class ShiftAttributes:
    """Attributes of Shift.

    Attributes:
        from_offset: distance to the element that is taken; negative is the past.
        boundary_mode: how elements beyond the ends are made.
        dim: the axis (from 1); -1 is the dynamic axis.
    """

    from_offset: int
    boundary_mode: int = -1
    dim: int = -1


SHIFT = declare_op(
    "Shift",
    "The first input moved along an axis; the second is the value beyond the ends.",
    inputs=2,
    infer=first_shape,
    guess=guess_first,
    attributes=ShiftAttributes,
    axis_of=0,
)


@attrs.frozen
class RNNStackAttributes:
    """Attributes of OptimizedRNNStack.

    Attributes:
        hidden_size: state size of a layer and direction.
        num_layers: layers, each fed by the one below.
        bidirectional: every layer runs in both directions and joins their results.
        recurrent_op: ``lstm``, ``gru``, ``rnnTanh`` or ``rnnReLU``.
        axis: -1 runs along the dynamic axis, 2 along the second static one.
    """

    hidden_size: int
    num_layers: int = 1
    bidirectional: bool = False
    recurrent_op: str = "lstm"
    axis: int = -1

    @property
    def directions(self) -> int:
        """1, or 2 if bidirectional."""
        return 2 if self.bidirectional else 1


def stack_weights(input_size: int, attributes: RNNStackAttributes) -> int:
    """Weights of a stack: for each layer and direction the products of input and state, and two biases.

    Raises:
        ShapeError: there is no such recurrent op.
    """
    gates = GATES.get(attributes.recurrent_op.lower())
    if gates is None:
        raise ShapeError(
            f"there is no recurrent op '{attributes.recurrent_op}'", hint="Ops: lstm, gru, rnnTanh, rnnReLU"
        )
    hidden, total = attributes.hidden_size, 0
    for _ in range(attributes.num_layers):
        total += attributes.directions * gates * hidden * (input_size + hidden + 2)
        input_size = attributes.directions * hidden
    return total


def _infer_stack(shapes: Sequence[Shape], attributes: RNNStackAttributes) -> Shape:
    weights, data = shapes
    rank = 2 if attributes.axis == 2 else 1
    if len(data) != rank:
        raise ShapeError(f"the input {show(data)} must have {rank} axes for axis {attributes.axis}")
    wanted = stack_weights(elements(data), attributes)
    if elements(weights) != wanted:
        raise ShapeError(f"the weights {show(weights)} have {elements(weights)} elements, not {wanted}")
    return (*data[:-1], attributes.directions * attributes.hidden_size)


def _complete_stack(shapes: Sequence[Shape], attributes: RNNStackAttributes) -> Sequence[Shape]:
    weights, data = shapes
    total = stack_weights(elements(data), attributes)
    if len(weights) == 2:
        hidden = weights[1] or attributes.hidden_size
        return [(weights[0] or total // hidden, hidden), data]
    return [tuple(dim or total for dim in weights), data]


OPTIMIZED_RNN_STACK = declare_op(
    "OptimizedRNNStack",
    "A stack of LSTM, GRU or plain recurrent layers; inputs: all weights in one matrix, data.",
    inputs=2,
    infer=_infer_stack,
    complete=_complete_stack,
    attributes=RNNStackAttributes,
    aliases={"ndl": ("RNN", "RNNStack"), "brainscript": ("RNN", "RNNStack"), "model": ("RNN", "RNNStack")},
)

OPS = (PAST_VALUE, FUTURE_VALUE, SHIFT, OPTIMIZED_RNN_STACK)
