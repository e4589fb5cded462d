"""Ops that watch or keep values: Trace, EpochAccumulator, Assign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.language.define import define_op, elementwise_op, first_shape, guess_first
from cntk_core.ops.language.framing import sample_shape, samples
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, show
from cntk_core.ops.language.traits import BY_ELEMENTS, Traits
from cntk_core.system.console import tell


@attrs.frozen
class TraceAttributes:
    """Attributes of Trace.

    Attributes:
        say: text before the values.
        log_frequency: log each so many minibatches.
        log_first: log each of so many first minibatches.
        log_gradient_too: log the gradient as well.
        only_up_to_row, only_up_to_t: log no more rows and frames than this.
        format: settings of the format, as in action=write: ``name=value`` texts.
    """

    say: str = ""
    log_frequency: int = 100
    log_first: int = 10
    log_gradient_too: bool = False
    only_up_to_row: int = 100000000
    only_up_to_t: int = 100000000
    format: tuple[str, ...] = ()


def _limits_of_trace(attributes: TraceAttributes) -> str | None:
    return "with a format" if attributes.format else None


MINIBATCHES = "minibatches"
"""Key under which Trace carries how many minibatches it has seen."""


def _is_logged(count: int, attributes: TraceAttributes) -> bool:
    """Whether a minibatch, counted from 1, is logged."""
    return count <= attributes.log_first or (attributes.log_frequency > 0 and count % attributes.log_frequency == 0)


def _log(kind: str, value: Array, framed: bool, attributes: TraceAttributes) -> None:
    """Write a value to the error stream: a line for each frame."""
    rows = samples(value, framed)[: attributes.only_up_to_t, : attributes.only_up_to_row]
    lines = [f"Trace --> {attributes.say}{kind}"]
    lines += [" ".join(f"{number:.6g}" for number in row) for row in rows.tolist()]
    tell("\n".join(lines))


def _trace_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: TraceAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    if attributes.log_gradient_too and _is_logged(context.carried.get(MINIBATCHES, 0), attributes):
        _log(" (gradient)", gradient, context.framed[0], attributes)
    return (gradient,)


@define_op(
    "Trace",
    infer=first_shape,
    guess=guess_first,
    gradient=_trace_gradient,
    attributes=TraceAttributes,
    limits=_limits_of_trace,
    reads_inputs=False,
    reads_output=False,
)
def TRACE(xp: Any, inputs: Sequence[Array], attributes: TraceAttributes, context: OpContext) -> Array:
    """The value itself; it is logged for the first minibatches of an epoch, and now and then."""
    count = context.carried[MINIBATCHES] = context.carried.get(MINIBATCHES, 0) + 1
    if _is_logged(count, attributes):
        _log("", inputs[0], context.framed[0], attributes)
    return inputs[0]


@define_op(
    "EpochAccumulator",
    infer=first_shape,
    guess=guess_first,
    reduces_frames=True,
    traits=Traits(accumulates=True),
)
def EPOCH_ACCUMULATOR(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Mean of a value over all frames of the epoch so far."""
    shape = sample_shape(inputs[0], context.framed[0])
    rows = samples(inputs[0], context.framed[0])
    count, total = context.carried.get("mean", (0, 0.0))
    count, total = count + len(rows), total + xp.sum(rows, axis=0, dtype=xp.float64)
    context.carried["mean"] = (count, total)
    return xp.asarray(total / max(count, 1), dtype=inputs[0].dtype).reshape(shape)


def _infer_assign(shapes: Sequence[Shape], attributes: Any) -> Shape:
    if shapes[0] != shapes[1]:
        raise ShapeError(f"{show(shapes[1])} cannot be assigned to {show(shapes[0])}")
    return shapes[0]


def _complete_assign(shapes: Sequence[Shape], attributes: Any) -> Sequence[Shape]:
    return [shapes[1] if 0 in shapes[0] else shapes[0], shapes[1]]


@elementwise_op(
    "Assign",
    gradient=lambda m, attributes, g, y, target, value: (None, g),
    differentiable=(False, True),
    traits=attrs.evolve(BY_ELEMENTS, assigns=True),
)
def _assigned(m: Any, attributes: Any, target: Any, value: Any) -> Any:
    """The second input, which becomes the value of the first (a parameter) after the minibatch."""
    return value


ASSIGN = attrs.evolve(_assigned, infer=_infer_assign, complete=_complete_assign, guess=None)

OPS = (TRACE, EPOCH_ACCUMULATOR, ASSIGN)
