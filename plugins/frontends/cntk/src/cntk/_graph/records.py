"""Functions as records of the original's files, from which a network is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from cntk_model_cntk2 import records, values

from cntk._graph.primitive import COMBINE, NUMBERS, USER, Primitive
from cntk.axis import Axis

if TYPE_CHECKING:
    from cntk.variables import Variable

_NOWHERE = Path("the functions of this program")
_COUNTED = {NUMBERS[name] for name in ("Slice", "Splice", "ReduceElements")}
NEWEST = records.NEWEST["PrimitiveFunction"]


def axis_record(axis: Axis) -> values.Axis:
    """Return an axis as files have it."""
    if axis.is_static_axis:
        return values.Axis(axis.static_axis_index(), "", True)
    return values.Axis(axis._index, axis.name, axis.is_ordered)


def shape_record(shape: Iterable[int]) -> values.NDShape:
    """Return a shape, in NumPy's order, as files have it."""
    return values.NDShape(tuple(shape)[::-1])


def _axes_record(axes: tuple[Axis, ...]) -> tuple[values.Axis, ...]:
    return tuple(axis_record(axis) for axis in reversed(axes))


def variable_record(variable: Variable) -> records.Variable:
    """Return a leaf; only numbers that are constant have their value."""
    array = None
    if variable.is_constant and variable._shape is not None and np.prod(variable._shape) == 1:
        from cntk._graph.leaves import current_value

        value = np.asarray(current_value(variable))  # type: ignore[arg-type]
        array = values.Array(variable._shape[::-1], value.reshape(-1))
    return records.Variable(
        uid=variable.uid,
        kind=variable._kind,
        name=variable.name,
        dims=_dims(variable),
        axes=_axes_record(variable._axes or ()),
        sparse=variable.is_sparse,
        needs_gradient=variable.needs_gradient,
        double=variable._dtype == np.float64,
        value=array,
        entry=records.Entry({}, f"{variable}", _NOWHERE),
    )


def _dims(variable: Variable) -> tuple[int, ...]:
    """Dimensions; what is to be inferred of an input, data bring."""
    dims = tuple(variable._shape or ())[::-1]
    return dims if variable.is_parameter or variable.is_constant else tuple(-3 if dim == -1 else dim for dim in dims)


def output_uid(variable: Variable) -> str:
    """Return the name of a variable in records, where outputs are called by their functions."""
    owner = variable._owner
    return variable.uid if owner is None else f"{owner.uid}_Output_{variable._index}"


def function_record(primitive: Primitive, inputs: Iterable[str] | None = None) -> records.Function:
    """Return a function. That of a block has to be combined with what is inside."""
    place = f"the function {primitive.called} '{primitive.name or primitive.uid}'"
    block = None
    if primitive.inside is not None:
        arguments = {inner.uid: output_uid(outer) for inner, outer in primitive.inside.arguments.items()}
        block = records.Block(primitive.inside.kind, _inside_uid(primitive), arguments)
    return records.Function(
        uid=primitive.uid,
        operation=primitive.number,
        name=primitive.name,
        inputs=tuple(map(output_uid, primitive.inputs)) if inputs is None else tuple(inputs),
        version=NEWEST,
        attributes=records.Entry(_counted(primitive), place, _NOWHERE),
        block=block,
    )


def _counted(primitive: Primitive) -> Mapping[str, Any]:
    """Attributes in which axes count from the front, where that is known: in loops it is not known later."""
    if primitive.number not in _COUNTED or not primitive.inputs or primitive.inputs[0]._shape is None:
        return primitive.attributes
    rank = max(len(each._shape or ()) for each in primitive.inputs)

    def counted(value: Any) -> Any:
        if isinstance(value, values.Axis) and value.is_static and -rank <= value.index < 0:
            return values.Axis(value.index + rank, "", True)
        return [counted(each) for each in value] if isinstance(value, list) else value

    return {key: counted(value) for key, value in primitive.attributes.items()}


def _inside_uid(primitive: Primitive) -> str:
    return f"{primitive.uid}.inside"


def composite_record(
    primitives: Iterable[Primitive], leaves: Mapping[Variable, records.Variable], roots: Iterable[Variable]
) -> records.Composite:
    """Return the records of functions.

    Args:
        primitives: all that are needed, those inside of blocks as well.
        leaves: what they read and none of them makes.
        roots: whose values are wanted.
    """
    functions: dict[str, records.Function] = {}
    numbers: dict[str, records.Variable] = {}  # in loops: that they have no axes does not follow from anything
    for one in primitives:
        functions[one.uid] = function_record(one)
        if one.inside is not None:
            functions[_inside_uid(one)] = _combined(_inside_uid(one), one.inside.roots)
        if one.delays and one.inputs[0]._owner is not None and _is_number(one.inputs[0]):
            numbers[output_uid(one.inputs[0])] = variable_record(one.inputs[0])
    functions["root"] = _combined("root", roots)
    variables = numbers | {output_uid(each): made for each, made in leaves.items()}
    return records.Composite("root", variables, functions, _NOWHERE)


def _is_number(variable: Variable) -> bool:
    return variable._shape is not None and set(variable._shape) <= {1}


def _combined(uid: str, variables: Iterable[Variable]) -> records.Function:
    inputs = tuple(map(output_uid, variables))
    return records.Function(uid, COMBINE, "", inputs, NEWEST, records.Entry({}, uid, _NOWHERE), None)


__all__ = [
    "NEWEST",
    "USER",
    "axis_record",
    "composite_record",
    "function_record",
    "output_uid",
    "shape_record",
    "variable_record",
]
