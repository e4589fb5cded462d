"""Ops with several outputs, which lie side by side in one value, and OutputMultiplexer, which is one of them.

The value of such an op is a vector ``(..., elements of all outputs)``, so that plans, buffers and engines treat it as
any other. An output is a node of its own, ``OutputMultiplexer``, which is a part of that vector. The gradients of all
outputs come together in the gradient of the vector; then the op's own gradient is computed, once.

What an output has for each sequence lies in the row of the sequence's first frame, and what it has for the minibatch in
the first row; the other rows of that part are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from itertools import accumulate, pairwise
from typing import Any, Literal

import attrs
import numpy as np

from cntk_core.errors import NetworkError, WrongResult
from cntk_core.ops.families.frame_moves import layout_of, pieces_of, single_frames
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import sample_shape
from cntk_core.ops.language.op import LATER, Array, NoAttributes, Op, OpContext
from cntk_core.ops.language.shapes import Shape, elements
from cntk_core.ops.language.traits import BY_ROWS, NO_TRAITS, Traits
from cntk_core.records.layout import IntArray, SequenceLayout

Outputs = Mapping[str, Callable[[Sequence[Shape], Any], Shape]]
"""By the name of an output, its shape rule: ``(input shapes, attributes) -> shape``, in order."""


def shapes_of(outputs: Outputs, shapes: Sequence[Shape], attributes: Any) -> list[Shape]:
    """Return the shape of each output for inputs of these shapes."""
    return [tuple(rule(shapes, attributes)) for rule in outputs.values()]


def ranges_of(shapes: Iterable[Shape]) -> list[tuple[int, int]]:
    """Return the first and the past-the-end element of each output in the vector of all."""
    ends = list(accumulate(map(elements, shapes), initial=0))
    return list(pairwise(ends))


def pack(xp: Any, values: Sequence[Array], shapes: Sequence[Shape]) -> Array:
    """Put values ``(..., *shape)`` side by side; what stands before their shapes is the same."""
    flat = []
    for value, shape in zip(values, shapes, strict=True):
        lead = tuple(value.shape[: len(value.shape) - len(shape)])
        flat.append(value.reshape((*lead, elements(shape))))
    return xp.concatenate(flat, axis=-1)


def unpack(value: Array, shapes: Sequence[Shape]) -> list[Array]:
    """Return the values ``(..., *shape)`` that :func:`pack` has put side by side."""
    lead = tuple(value.shape[:-1])
    return [
        value[..., first:end].reshape((*lead, *shape))
        for (first, end), shape in zip(ranges_of(shapes), shapes, strict=True)
    ]


def first_rows(layout: SequenceLayout | None) -> IntArray:
    """Return the row of the first frame of each sequence, in the reader's order."""
    pieces = pieces_of(layout_of(OpContext((True,), 0, layouts=(layout,)), 0))
    rows: IntArray = pieces.rows[pieces.starts]
    return rows


def _spread(xp: Any, value: Array, axis: str | None, context: OpContext) -> Array:
    """Return an output with a row for each frame of the op."""
    if axis is None:
        return value
    rows = first_rows(context.layout) if axis == "sequence" else slice(0, 1)
    out = np.zeros((context.frames, *value.shape[int(axis == "sequence") :]), value.dtype)
    out[rows] = value
    return xp.asarray(out)


def _gathered(value: Array, axis: str | None, context: OpContext) -> Array:
    """The inverse of :func:`_spread`; also of gradients."""
    if axis is None:
        return value
    return value[first_rows(context.layout)] if axis == "sequence" else value[:1].sum(axis=0)


def define_outputs(
    name: str,
    outputs: Outputs,
    *,
    inputs: int | tuple[int, int | None] = 1,
    gradient: Callable[..., Sequence[Array | None]] | None = None,
    differentiable: tuple[bool, ...] | None = None,
    attributes: type = NoAttributes,
    traits: Traits = NO_TRAITS,
    doc: str = "",
    axes: Mapping[str, Literal["sequence", "minibatch"]] | None = None,
    **fields: Any,
) -> Callable[[Callable[..., Sequence[Array]]], Op]:
    """Make an op with several outputs of a function ``(xp, inputs, attributes, context) -> values``.

    In a network, ``OutputMultiplexer`` with the number of an output reads it.

    Args:
        name: the op's name in every language.
        outputs: the outputs by name, with their shape rules.
        inputs: how many inputs, or the fewest and the most (None is any number).
        gradient: ``(xp, gradients, values, inputs, attributes, context, needs) -> gradients``, one per input, None
            where it is zero; given are those of all outputs, zeros of one that nobody reads. Without it none flows.
        differentiable: for each input (the last repeats), whether a gradient can flow to it.
        attributes: attrs class of the op's settings.
        traits: what is true of the function, as in :func:`~cntk_core.ops.language.define.define_op`.
        doc: one line; by default the first line of the function's documentation.
        axes: outputs that have not the dynamic axis of the op. The function gives of these, instead of one row for each
            frame, one for each ``sequence``, in the reader's order, or for the ``minibatch`` an array without rows.
        fields: further fields of :class:`~cntk_core.ops.language.op.Op`.
    """
    placed = [(axes or {}).get(each) for each in outputs]

    def define(function: Callable[..., Sequence[Array]]) -> Op:
        def infer(shapes: Sequence[Shape], attributes: Any) -> Shape:
            return (sum(map(elements, shapes_of(outputs, shapes, attributes))),)

        def known(values: Sequence[Array], attributes: Any, context: OpContext) -> list[Shape]:
            given = [sample_shape(value, framed) for value, framed in zip(values, context.framed, strict=True)]
            return shapes_of(outputs, given, attributes)

        @wraps(function)  # errors in it are those of its module
        def forward(xp: Any, values: Sequence[Array], attributes: Any, context: OpContext) -> Array:
            shapes, results = known(values, attributes, context), function(xp, values, attributes, context)
            _check(function, results, dict(zip(outputs, shapes, strict=True)))
            if axes:
                results = [_spread(xp, each, axis, context) for each, axis in zip(results, placed, strict=True)]
            return pack(xp, results, shapes)

        def backward(
            xp: Any,
            arriving: Array,
            value: Array,
            values: Sequence[Array],
            attributes: Any,
            context: OpContext,
            needs: Sequence[bool],
        ) -> Sequence[Array | None]:
            assert gradient is not None
            shapes = known(values, attributes, context)
            by_outputs, own = unpack(arriving, shapes), unpack(value, shapes)
            if axes:
                by_outputs, own = (
                    [_gathered(one, axis, context) for one, axis in zip(each, placed, strict=True)]
                    for each in (by_outputs, own)
                )
            return gradient(xp, by_outputs, own, values, attributes, context, needs)

        return Op(
            name=name,
            arity=(inputs, inputs) if isinstance(inputs, int) else inputs,
            infer=infer,
            forward=forward,
            gradient=None if gradient is None else backward,
            differentiable=differentiable if differentiable is not None else (gradient is not None,),
            attributes=attributes,
            traits=traits,
            doc=doc or (function.__doc__ or "").strip().partition("\n")[0],
            outputs=outputs,
            output_axes=axes or {},
            **fields,
        )

    return define


def _check(function: Any, results: Any, shapes: Mapping[str, Shape]) -> None:
    """Make sure that a function gave an array of the right shape for each output."""
    named = ", ".join(f"'{name}'" for name in shapes)
    if not isinstance(results, Sequence) or len(results) != len(shapes):
        raise WrongResult(function, f"returned no sequence of {len(shapes)} arrays, the outputs {named}")
    for result, (name, shape) in zip(results, shapes.items(), strict=True):
        found = tuple(getattr(result, "shape", ()))
        if found[len(found) - len(shape) :] != shape:
            raise WrongResult(function, f"returned an array {found} as output '{name}', whose samples are {shape}")


@attrs.frozen
class MultiplexerAttributes:
    """Attributes of OutputMultiplexer.

    Attributes:
        output_index: which output of its input it is, from 0.
        begin, end: where that lies in the vector of all outputs; worked out with the shapes. The end is 0 for an input
            that has one output, which is then all of it.
        dims: the shape of the output in the vector, in memory order.
        rows: empty, or what of the vector's rows it has: one for each ``sequence``, or one for the ``minibatch``.
    """

    output_index: int = 0
    begin: int = attrs.field(default=0, metadata=LATER)
    end: int = attrs.field(default=0, metadata=LATER)
    dims: tuple[int, ...] = attrs.field(default=(), metadata=LATER)
    rows: str = attrs.field(default="", metadata=LATER)


def _located(
    attributes: MultiplexerAttributes, op: Op, its_attributes: Any, shapes: Sequence[Shape | None]
) -> MultiplexerAttributes:
    """Return attributes with the place of the output, as soon as the shapes are known.

    Raises:
        NetworkError: the op has no such output.
    """
    index, names = attributes.output_index, list(op.outputs) or ["its value"]  # of an op with one output
    if not 0 <= index < len(names):
        known = ", ".join(f"{number} is {name}" for number, name in enumerate(names))
        raise NetworkError(f"{op.name} has no output {index}", hint=f"Outputs: {known}.")
    rows, given = op.output_axes.get(names[index], ""), [shape for shape in shapes if shape is not None]
    if op.outputs and len(given) < len(shapes):
        return attrs.evolve(attributes, rows=rows)
    found = shapes_of(op.outputs, given, its_attributes)
    begin, end = ranges_of(found)[index] if found else (0, 0)
    return MultiplexerAttributes(index, begin, end, found[index] if found else (), rows)


def _infer(shapes: Sequence[Shape], attributes: MultiplexerAttributes) -> Shape:
    return (*shapes[0][:-1], *attributes.dims) if attributes.end else shapes[0]


def _part(shape: Shape, attributes: MultiplexerAttributes) -> Mapping[int, tuple[int, int]]:
    if not attributes.end:
        return {0: (0, shape[0])} if shape else {}
    return {len(shape) - 1: (attributes.begin, attributes.end)}


def _gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: MultiplexerAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array]:
    if not attributes.end:
        return (gradient,)
    *lead, total = inputs[0].shape
    sizes = attributes.begin, total - attributes.end
    before, after = (xp.zeros((*lead, size), dtype=gradient.dtype) for size in sizes)
    own = gradient.reshape((*lead, elements(attributes.dims)))
    return (xp.concatenate([before, own, after], axis=-1),)


def _form(attributes: MultiplexerAttributes) -> Op:
    return _FORMS[attributes.rows]


def _own_rows(attributes: MultiplexerAttributes, context: OpContext) -> Any:
    return first_rows(layout_of(context, 0)) if attributes.rows == "sequence" else slice(0, 1)


def _rows_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: MultiplexerAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array]:
    found = xp.zeros_like(inputs[0])
    rows = _own_rows(attributes, context)
    found[rows, attributes.begin : attributes.end] = gradient.reshape(-1, attributes.end - attributes.begin)
    return (found,)


def _of_rows(xp: Any, inputs: Sequence[Array], attributes: MultiplexerAttributes, context: OpContext) -> Array:
    """One output of an operation that has several, with a value for each sequence or for the minibatch."""
    value = inputs[0][_own_rows(attributes, context), attributes.begin : attributes.end]
    if attributes.rows == "sequence":
        context.new_layout = single_frames(context, "OutputMultiplexer")
        return value.reshape(len(value), *attributes.dims)
    return value.sum(axis=0).reshape(attributes.dims)


@define_op(
    "OutputMultiplexer",
    infer=_infer,
    gradient=_gradient,
    attributes=MultiplexerAttributes,
    located=_located,
    form=_form,
    reads_inputs=False,
    reads_output=False,
    traits=attrs.evolve(BY_ROWS, part=_part),
)
def OUTPUT_MULTIPLEXER(
    xp: Any, inputs: Sequence[Array], attributes: MultiplexerAttributes, context: OpContext
) -> Array:
    """One output of an operation that has several, by its number."""
    value = inputs[0]
    if not attributes.end:
        return value
    return value[..., attributes.begin : attributes.end].reshape((*value.shape[:-1], *attributes.dims))


def _rows_form(**fields: Any) -> Op:
    return attrs.evolve(OUTPUT_MULTIPLEXER, forward=_of_rows, gradient=_rows_gradient, traits=NO_TRAITS, **fields)


_FORMS: Mapping[str, Op] = {
    "": OUTPUT_MULTIPLEXER,
    "sequence": _rows_form(new_axis=True, along_sequences=frozenset({0})),
    "minibatch": _rows_form(reduces_frames=True),
}

OPS = (OUTPUT_MULTIPLEXER,)
