"""Inputs, parameters, constants, placeholders; combining and naming functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cntk._graph.edit import make_block
from cntk.axis import Axis
from cntk.default_options import default_override_or, get_default_override
from cntk.internal import sanitize_dtype_numpy, sanitize_dynamic_axes, sanitize_shape, variable_of
from cntk.ops._making import made, one
from cntk.ops.functions import Function
from cntk.variables import INPUT, OUTPUT, PLACEHOLDER, UNKNOWN, Constant, Parameter, Variable

_SAMPLES = [Axis.default_batch_axis()]
_SINGLE = default_override_or(np.float32)


def input_variable(
    shape: Any,
    dtype: Any = _SINGLE,
    needs_gradient: bool = False,
    is_sparse: bool = False,
    dynamic_axes: Any = _SAMPLES,
    name: str = "",
) -> Variable:
    """Return an input: a value for each sample of a minibatch.

    Args:
        shape: of a sample; :data:`cntk.FreeDimension` is a dimension whose size each minibatch brings.
        dtype: float32 or float64.
        needs_gradient: gradients flow to it.
        is_sparse: data give only elements that are not zero.
        dynamic_axes: the batch axis, and perhaps a sequence axis; none for one value of the whole minibatch.
        name: of the user.
    """
    typed = get_default_override(input_variable, dtype=dtype)
    return Variable._made(
        INPUT,
        sanitize_shape(shape),
        sanitize_dtype_numpy(np.float32 if typed is None else typed),
        _ordered(sanitize_dynamic_axes(dynamic_axes)),
        name=name,
        sparse=is_sparse,
        gradient=needs_gradient,
    )


def _ordered(reverse: tuple[Axis, ...]) -> tuple[Axis, ...]:
    axes = reverse[::-1]
    if axes == Axis.unknown_dynamic_axes():
        return axes
    batch = Axis.default_batch_axis()
    if axes and all(each.is_ordered for each in axes):
        return (batch, *axes)
    return tuple(sorted(axes, key=lambda each: each.is_ordered))


input = input_variable


def output_variable(shape: Any, dtype: Any, dynamic_axes: Any, needs_gradient: bool = True, name: str = "") -> Variable:
    """Return what a :class:`UserFunction` says of an output of its own."""
    axes = _ordered(sanitize_dynamic_axes(dynamic_axes))
    return Variable._made(
        OUTPUT,
        None if shape == UNKNOWN else sanitize_shape(shape),
        None if dtype is None else sanitize_dtype_numpy(dtype),
        axes,
        name=name,
        gradient=needs_gradient,
    )


def placeholder(shape: Any = None, dynamic_axes: Any = None, name: str = "") -> Variable:
    """Return what stands for something that is said later.

    Args:
        shape: of a sample, if it is known.
        dynamic_axes: if they are known.
        name: of the user.
    """
    if isinstance(shape, str):  # the name, which came first once
        shape, name = None, shape
    known = None if shape is None or shape == UNKNOWN else sanitize_shape(shape)
    axes = None if dynamic_axes is None or dynamic_axes == Axis.unknown_dynamic_axes() else dynamic_axes
    return Variable._made(
        PLACEHOLDER, known, None, None if axes is None else _ordered(sanitize_dynamic_axes(axes)), name=name
    )


def parameter(shape: Any = None, init: Any = None, dtype: Any = None, device: Any = None, name: str = "") -> Parameter:
    """Return a tensor that is learned; arguments as of :class:`~cntk.variables.Parameter`.

    Raises:
        ValueError: there is neither a shape nor a first value; or the value is no number, array or initializer.
    """
    from cntk.initializer import Initial

    if init is None:
        init = 0
    if dtype is None and isinstance(init, np.ndarray) and init.dtype in (np.float32, np.float64):
        dtype = init.dtype
    if shape is None and isinstance(init, Initial):
        raise ValueError("a parameter with an initializer needs a shape")
    return Parameter(shape, init, _SINGLE if dtype is None else dtype, device, name)


def constant(value: Any = None, shape: Any = None, dtype: Any = None, device: Any = None, name: str = "") -> Constant:
    """Return a tensor that is not learned; arguments as of :class:`~cntk.variables.Constant`."""
    if value is None:
        value = 0
    if isinstance(value, int | float | np.number):
        return Constant(value, () if shape is None else shape, _SINGLE if dtype is None else dtype, device, name)
    if dtype is None and isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float64):
        dtype = value.dtype
    return Constant(np.asarray(value), shape, _SINGLE if dtype is None else dtype, device, name)


# -- several functions as one -------------------------------------------------------------------------------


def combine(*operands: Any, name: str = "") -> Function:
    """Return a function with the outputs of several; they may stand in a list."""
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    found: list[Variable] = []
    for each in given:
        found += list(each.outputs) if isinstance(each, Function) else [variable_of(each)]
    if not found:
        raise ValueError("there is nothing to combine")
    return made("Combine", *found, name=name)


def alias(x: Any, name: str = "") -> Function:
    """Return a function with another name."""
    return made("NoOp", one(x), name=name)


def as_composite(root_function: Function, name: str = "") -> Function:
    """Return the function that stands for all on which a primitive function depends.

    Raises:
        TypeError: it is no function.
    """
    if not isinstance(root_function, Function):
        raise TypeError(f"expected a primitive function, not {type(root_function).__name__}")
    return Function._of(root_function._primitive)


def as_block(composite: Any, block_arguments_map: Any, block_op_name: str, block_instance_name: str = "") -> Function:
    """Return a function as a block: what it is made of is hidden in lists and searches.

    Args:
        composite: the function.
        block_arguments_map: its placeholders with what they stand for.
        block_op_name: what such a block is called.
        block_instance_name: of this one.
    """
    pairs: Sequence[Any] = (
        list(block_arguments_map.items()) if isinstance(block_arguments_map, Mapping) else block_arguments_map
    )
    found = {variable_of(inner): variable_of(outer) for inner, outer in pairs}
    function = composite if isinstance(composite, Function) else combine([composite])
    primitive = make_block(block_op_name, function.outputs, function._primitive, found, block_instance_name)
    return Function._of(primitive)


__all__ = [
    "alias",
    "as_block",
    "as_composite",
    "combine",
    "constant",
    "input",
    "input_variable",
    "output_variable",
    "parameter",
    "placeholder",
]
