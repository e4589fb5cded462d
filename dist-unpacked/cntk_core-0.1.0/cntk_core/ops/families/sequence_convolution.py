"""Convolution along sequences: the last axis of the kernel before the channels goes over time steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.frame_moves import keyed_layout, layout_of, need_whole, scatter_add
from cntk_core.ops.families.geometry import extended
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.rows import sequence_rows, sequence_table
from cntk_core.ops.language.shapes import Shape, show
from cntk_core.records.layout import IntArray, SequenceLayout

NAME = "Convolution along sequences"


@attrs.frozen
class _Steps:
    """How a kernel goes along sequences, and the settings of a convolution of what it sees at one place.

    A place of the kernel sees ``(channels, kernel, *sizes)``: its time steps are an axis of a sample, without padding.
    """

    kernel: int
    stride: int
    dilation: int
    padded: bool
    inner: Any

    @classmethod
    def of(cls, data: Shape, attributes: Any) -> _Steps:
        """Take apart the settings for samples ``(channels, *sizes)``; the kernel has one axis more than ``sizes``.

        Raises:
            ShapeError: the kernel lacks the axis of time; it is a transposed convolution, or has explicit padding.
        """
        place, count = len(data) - 1, len(attributes.kernel_shape)
        if place < 0 or count <= place:
            raise ShapeError(f"along sequences of {show(data)} the kernel needs {len(data)} axes, and it has {count}")
        if attributes.transpose or attributes.convolution_2d or any((*attributes.lower_pad, *attributes.upper_pad)):
            raise ShapeError("a convolution along sequences is not transposed, and has no explicit padding")
        values: dict[str, Any] = {
            name: list(extended(getattr(attributes, name), count, count, default))
            for name, default in (("stride", 1), ("dilation", 1), ("auto_padding", False))
        }
        stride, dilation, padded = (values[name][place] for name in ("stride", "dilation", "auto_padding"))
        values["stride"][place], values["dilation"][place], values["auto_padding"][place] = 1, 1, False
        inner = attrs.evolve(attributes, sequential=False, **values)
        return cls(attributes.kernel_shape[place], int(stride), int(dilation), bool(padded), inner)

    def sample(self, data: Shape) -> Shape:
        """The shape of what the kernel sees at one place."""
        return (data[0], self.kernel, *data[1:])

    def length(self, frames: int) -> int:
        """How many places the kernel has in a sequence.

        Raises:
            DataError: none, because the sequence is too short.
        """
        if self.padded:
            return -(-frames // self.stride)
        reach = (self.kernel - 1) * self.dilation + 1
        if frames < reach:
            raise DataError(
                f"{NAME}: the kernel reaches over {reach} frames, and a sequence has {frames}",
                hint="Pad along the sequence, or leave out short sequences.",
            )
        return (frames - reach) // self.stride + 1

    def layout(self, context: OpContext) -> SequenceLayout:
        """The sequences of the result."""
        source = layout_of(context, 1)
        need_whole(source, NAME)
        table = sequence_table(source)
        lengths = np.zeros(int(table.number[-1]) + 1 if len(table.number) else 0, np.int64)
        lengths[table.number] = [self.length(frames) for frames in table.length.tolist()]
        return keyed_layout(source, lengths)

    def rows(self, context: OpContext, made: SequenceLayout) -> IntArray:
        """The rows that each place sees, ``(places, kernel)``; the number of all rows stands for zeros."""
        source = layout_of(context, 1)
        table, own = sequence_table(source), sequence_rows(made)
        places = np.repeat(table.find(own.number)[:, None], self.kernel, axis=1)
        before = (self.kernel - 1) * self.dilation // 2 if self.padded else 0
        first = (own.step - own.first) * self.stride - before
        steps = first[:, None] + np.arange(self.kernel) * self.dilation
        inside = (steps >= 0) & (steps < table.length[places])
        return np.where(inside, table.rows(source, places, np.where(inside, steps, 0)), source.frames)


def _seen(xp: Any, data: Array, rows: IntArray) -> Array:
    """What the kernel sees at each place: ``(places, channels, kernel, *sizes)``."""
    with_zeros = xp.concatenate([data, xp.zeros((1, *data.shape[1:]), data.dtype)])
    return xp.moveaxis(xp.take(with_zeros, rows, axis=0), 1, 2)


def convolution_along_sequences(
    attributes: type,
    form: Callable[[Any], Op],
    rules: tuple[Callable[..., Any], Callable[..., Any]],
    functions: tuple[Callable[..., Array], Callable[..., Any]],
    aliases: Mapping[str, tuple[str, ...]],
) -> Op:
    """Return the record of Convolution along sequences.

    Args:
        attributes: of Convolution.
        form: which of its records nodes with given attributes have.
        rules: how a plain one infers its shape, and completes that of its weights.
        functions: a plain one's value and gradient.
        aliases: its further names.
    """
    (plain_shape, plain_weights), (plain, plain_gradient) = rules, functions

    def infer(shapes: Sequence[Shape], attributes: Any) -> Shape:
        steps = _Steps.of(shapes[1], attributes)
        found = plain_shape([shapes[0], steps.sample(shapes[1])], steps.inner)
        return tuple(found[:1] + found[2:])

    def complete(shapes: Sequence[Shape], attributes: Any) -> Sequence[Shape]:
        steps = _Steps.of(shapes[1], attributes)
        return [plain_weights([shapes[0], steps.sample(shapes[1])], steps.inner)[0], shapes[1]]

    def gradient(
        xp: Any,
        gradient: Array,
        output: Array,
        inputs: Sequence[Array],
        attributes: Any,
        context: OpContext,
        needs: Sequence[bool],
    ) -> Sequence[Array | None]:
        weights, data = inputs
        steps = _Steps.of(data.shape[1:], attributes)
        assert context.new_layout is not None, "the gradient comes after the value"
        rows = steps.rows(context, context.new_layout)
        arriving = gradient.reshape(*gradient.shape[:2], 1, *gradient.shape[2:])
        given, inside = [weights, _seen(xp, data, rows)], OpContext((False, True), len(rows))
        to_weights, to_seen = plain_gradient(xp, arriving, arriving, given, steps.inner, inside, needs)
        if to_seen is None:
            return to_weights, None
        like = xp.zeros((len(data) + 1, *data.shape[1:]), data.dtype)
        return to_weights, scatter_add(xp, like, rows, xp.moveaxis(to_seen, 2, 1))[:-1]

    @define_op(
        "Convolution",
        inputs=2,
        infer=infer,
        complete=complete,
        gradient=gradient,
        attributes=attributes,
        unframed=frozenset({0}),
        along_sequences=frozenset({1}),
        new_axis=True,
        reads_output=False,
        aliases=aliases,
        form=form,
    )
    def made(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
        """Convolution of the second input with the weights (the first) along its sequences."""
        steps = _Steps.of(inputs[1].shape[1:], attributes)
        layout = context.new_layout = steps.layout(context)
        seen = _seen(xp, inputs[1], steps.rows(context, layout))
        found = plain(xp, [inputs[0], seen], steps.inner, OpContext((False, True), len(seen)))
        return found.reshape(*found.shape[:2], *found.shape[3:])

    return made
