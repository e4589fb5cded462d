"""Ops that watch or keep values: Trace, EpochAccumulator, Assign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.define import declare_op, first_shape, guess_first
from cntk_core.ops.shapes import Shape, show


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


TRACE = declare_op(
    "Trace",
    "The value itself; it is logged now and then.",
    infer=first_shape,
    guess=guess_first,
    attributes=TraceAttributes,
)

EPOCH_ACCUMULATOR = declare_op(
    "EpochAccumulator",
    "Mean of a value over all samples of the epoch so far.",
    infer=first_shape,
    guess=guess_first,
    reduces_frames=True,
    differentiable=(False,),
)


def _infer_assign(shapes: Sequence[Shape], attributes: Any) -> Shape:
    if shapes[0] != shapes[1]:
        raise ShapeError(f"{show(shapes[1])} cannot be assigned to {show(shapes[0])}")
    return shapes[0]


ASSIGN = declare_op(
    "Assign",
    "The second input, which becomes the value of the first (a parameter) after the minibatch.",
    inputs=2,
    infer=_infer_assign,
    differentiable=(False, True),
)

OPS = (TRACE, EPOCH_ACCUMULATOR, ASSIGN)
