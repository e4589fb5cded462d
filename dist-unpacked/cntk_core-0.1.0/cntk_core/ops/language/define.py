"""Decorators that turn a function into an :class:`~cntk_core.ops.language.op.Op`, the core's own ops too."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cntk_core.ops.language.op import Array, Elementwise, NoAttributes, Op
from cntk_core.ops.language.shapes import Shape, broadcast
from cntk_core.ops.language.traits import BY_ELEMENTS, NO_TRAITS, Traits

Names = Mapping[str, tuple[str, ...]]


def elementwise_op(
    name: str,
    *,
    gradient: Callable[..., Any] | None = None,
    attributes: type = NoAttributes,
    differentiable: tuple[bool, ...] | None = None,
    aliases: Names | None = None,
    traits: Traits = BY_ELEMENTS,
    doc: str = "",
) -> Callable[[Callable[..., Any]], Op]:
    """Make an element-wise op of a scalar expression ``(m, attributes, x, y, ...)``.

    The expression may use operators, numbers and the functions of the math namespace ``m``; no ``if`` on values and no
    array functions, so that an engine can trace it. Broadcasting and shapes need no code.

    Args:
        name: the op's name in every language.
        gradient: ``(m, attributes, g, y, *inputs) -> expression`` for one input, a sequence of them for several (None
            where it is zero). ``g`` is the gradient of the output ``y``. Without it no gradient flows.
        attributes: attrs class of the op's settings.
        differentiable: for each input, whether a gradient can flow to it; by default to all if there is a gradient.
        aliases: language to further names.
        traits: those of every element-wise op, and what else is true of this one.
        doc: one line; by default the first line of the function's documentation.
    """

    def define(forward: Callable[..., Any]) -> Op:
        count = len(inspect.signature(forward).parameters) - 2
        flows = differentiable if differentiable is not None else (gradient is not None,)
        return Op(
            name=name,
            arity=(count, count),
            infer=broadcast_shape,
            attributes=attributes,
            elementwise=Elementwise(forward, _as_sequence(gradient, count)),
            differentiable=flows,
            complete=fill_from_others if count > 1 else None,
            guess=guess_broadcast,
            aliases=aliases or {},
            traits=traits,
            doc=doc or _first_line(forward),
        )

    return define


def define_op(
    name: str,
    *,
    infer: Callable[[Sequence[Shape], Any], Shape],
    inputs: int | tuple[int, int | None] = 1,
    gradient: Callable[..., Sequence[Array | None]] | None = None,
    differentiable: tuple[bool, ...] | None = None,
    traits: Traits = NO_TRAITS,
    doc: str = "",
    **fields: Any,
) -> Callable[[Callable[..., Array]], Op]:
    """Make an op of a function ``(xp, inputs, attributes, context) -> output`` over an array module ``xp``.

    Args:
        name: the op's name in every language.
        infer: the shape rule.
        inputs: how many inputs, or the fewest and the most (None is any number).
        gradient: as in :class:`~cntk_core.ops.language.op.Op`; without it no gradient flows.
        differentiable: for each input (the last repeats), whether a gradient can flow to it.
        traits: what is true of the function, from which engines conclude where and how they may run it:
            ``Traits(row_wise=True, pure_xp=True)`` is compiled by XLA and runs on the arrays of a GPU.
        doc: one line; by default the first line of the function's documentation.
        fields: further fields of :class:`~cntk_core.ops.language.op.Op`.
    """

    def define(forward: Callable[..., Array]) -> Op:
        return Op(
            name=name,
            arity=(inputs, inputs) if isinstance(inputs, int) else inputs,
            infer=infer,
            forward=forward,
            gradient=gradient,
            differentiable=differentiable if differentiable is not None else (gradient is not None,),
            traits=traits,
            doc=doc or _first_line(forward),
            **fields,
        )

    return define


def declare_op(
    name: str,
    doc: str,
    *,
    infer: Callable[[Sequence[Shape], Any], Shape],
    inputs: int | tuple[int, int | None] = 1,
    differentiable: tuple[bool, ...] = (True,),
    **fields: Any,
) -> Op:
    """Declare an op that cannot run yet: its names, inputs, attributes and shape rule, as in :func:`define_op`."""
    return Op(
        name=name,
        arity=(inputs, inputs) if isinstance(inputs, int) else inputs,
        infer=infer,
        differentiable=differentiable,
        doc=doc,
        **fields,
    )


def broadcast_shape(shapes: Sequence[Shape], attributes: Any) -> Shape:
    """Shape rule of element-wise ops."""
    return broadcast(shapes)


def scalar_shape(shapes: Sequence[Shape], attributes: Any) -> Shape:
    """Shape rule of criteria and of ops with one number for each frame."""
    return (1,)


def first_shape(shapes: Sequence[Shape], attributes: Any) -> Shape:
    """Shape rule of ops that keep the shape of their first input."""
    return shapes[0]


def guess_broadcast(shapes: Sequence[Shape | None], attributes: Any) -> Shape | None:
    """Guess an element-wise result from the inputs that are known: the others are probably no larger."""
    known = [shape for shape in shapes if shape is not None and 0 not in shape]
    return broadcast(known) if known else None


def guess_first(shapes: Sequence[Shape | None], attributes: Any) -> Shape | None:
    """Guess that the result has the shape of the first input."""
    return shapes[0]


def fill_from_others(shapes: Sequence[Shape], attributes: Any) -> list[Shape]:
    """Replace dimensions 0 by those of the other operands; what no operand knows stays 0."""
    return [tuple(dim or _known(shapes, len(shape) - axis) for axis, dim in enumerate(shape)) for shape in shapes]


def _known(shapes: Sequence[Shape], axis: int) -> int:
    """Dimension that the operands give to an axis counted from the end; 1 if those that are known lack it."""
    complete = [shape for shape in shapes if len(shape) < axis or shape[-axis]]
    if not complete:
        return 0
    return max(shape[-axis] if len(shape) >= axis else 1 for shape in complete)


def _as_sequence(gradient: Callable[..., Any] | None, count: int) -> Callable[..., Sequence[Any]]:
    if gradient is None:
        return lambda m, attributes, g, y, *inputs: (None,) * count
    if count != 1:
        return gradient

    def single(*args: Any) -> Sequence[Any]:
        result = gradient(*args)
        return result if isinstance(result, tuple | list) else (result,)

    return single


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").split("\n", 1)[0]
