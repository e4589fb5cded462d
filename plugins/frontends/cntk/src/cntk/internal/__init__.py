"""What modules of the package, and tests of the original, share: arguments in one form."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cntk._graph.errors import GraphError
from cntk._graph.feeding import has_sequences
from cntk._inherited import inherit
from cntk.internal.sanitize import (
    is_byte_buffer,
    is_string,
    sanitize_2d_number,
    sanitize_axis,
    sanitize_axis_list,
    sanitize_convolution_args,
    sanitize_dtype_cntk,
    sanitize_dtype_numpy,
    sanitize_dynamic_axes,
    sanitize_multi_axis_reduction_list,
    sanitize_permutation,
    sanitize_pooling_args,
    sanitize_precision,
    sanitize_random_args,
    sanitize_range,
    sanitize_shape,
)

if TYPE_CHECKING:
    from cntk.core import Value
    from cntk.ops.functions import Function
    from cntk.variables import Variable

_Any = TypeVar("_Any", bound=Callable[..., Any])


def typemap(f: _Any) -> _Any:
    """Return a function as it is: there are no objects of another language to be converted."""
    return f


def map_if_possible(obj: Any) -> None:
    """Do nothing: there are no objects of another language to be converted."""


def bounded_cache(maxsize: int) -> Callable[[_Any], Any]:
    """Return a decorator that keeps the results of the last calls."""
    return lru_cache(maxsize)


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, list | tuple) else (x,)


def variable_of(value: Any) -> Variable:
    """Return the variable that a function has as its output, or a variable as it is.

    Raises:
        TypeError: it is neither.
    """
    from cntk.ops.functions import Function
    from cntk.variables import Variable

    if isinstance(value, Function):
        return value.output
    if not isinstance(value, Variable):
        raise TypeError(f"expected a Variable or a Function, not {type(value).__name__}")
    return value


def sanitize_input(arg: Any, fallback_dtype: Any = np.float32, reshape: Any = None) -> Variable:
    """Return an operand as a variable: numbers and arrays become constants.

    Raises:
        TypeError, ValueError: it is no operand.
    """
    from cntk.ops.functions import Function
    from cntk.variables import Constant, Variable

    if isinstance(arg, Variable):
        return arg
    if isinstance(arg, Function):
        return arg.output
    if isinstance(arg, list | tuple) and any(isinstance(each, Variable | Function) for each in arg):
        raise ValueError("a list of variables is no operand; combine() or splice() them")
    array = np.asarray(arg)
    if array.dtype.kind not in "fiub":
        raise GraphError(f"an operand is a Variable, a Function, a number or an array, not {type(arg).__name__}")
    array = np.array(array, fallback_dtype)
    return Constant(array if reshape is None else array.reshape(reshape))


def sanitize_variable_or_function(arg: Any) -> Any:
    """Return a variable, or the output of a function."""
    return variable_of(arg)


def sanitize_variables_or_functions(arg: Any) -> list[Variable]:
    """Return the variables of a variable, a function, or a list of them; a function may have several outputs."""
    from cntk.ops.functions import Function

    found: list[Variable] = []
    for each in arg if isinstance(arg, list | tuple) else [arg]:
        found += list(each.outputs) if isinstance(each, Function) else [variable_of(each)]
    return found


def sanitize_function(arg: Any) -> Function:
    """Return a function, or the one that computes a variable.

    Raises:
        TypeError: it is neither.
    """
    from cntk.ops.functions import Function
    from cntk.variables import VariableMixin

    if isinstance(arg, VariableMixin):
        from cntk.ops import combine

        arg = combine([arg])
    if not isinstance(arg, Function):
        raise TypeError(f"expected a Function or a Variable, not {type(arg).__name__}")
    return arg


def sanitize_batch(var: Variable, batch: Any, seq_starts: Any = None, device: Any = None) -> Value:
    """Return data for a variable as a value.

    Raises:
        ValueError: they do not fit; or sequences are said to go on, but the variable has none.
    """
    from cntk.core import Value

    if isinstance(batch, Value):
        if seq_starts:
            raise ValueError("for values that are made already no starts of sequences can be said")
        return batch
    if seq_starts and not has_sequences(var):
        raise ValueError("you specified sequence begin markers, but your variable has no sequences")
    if seq_starts and isinstance(batch, np.ndarray) and len(batch) == len(seq_starts):
        batch = list(batch)
    if any(isinstance(each, np.ndarray) and not each.flags.c_contiguous for each in _arrays(batch)):
        warnings.warn("data is not C contiguous; rearrange your data/computation to avoid costly copies",
                      RuntimeWarning, stacklevel=2)  # fmt: skip
    return Value.create(var, batch, seq_starts, device)


def _arrays(batch: Any) -> Any:
    return batch if isinstance(batch, list | tuple) else [batch]


def sanitize_value(shape: Any, value: Any, dtype: Any, device: Any) -> Any:
    """Return a first value as an array of a type; None becomes zeros.

    Raises:
        ValueError: there is neither a shape nor a value.
    """
    from cntk.core import NDArrayView

    if value is None:
        if shape is None:
            raise ValueError("you need to specify at least shape or value")
        return NDArrayView(shape, dtype, device)
    array = np.asarray(value, dtype)
    return NDArrayView.from_dense(array if shape is None else np.broadcast_to(array, sanitize_shape(shape)).copy())


def sanitize_var_map(
    op_arguments: Any,
    arguments: Any,
    precision: Any = None,
    device: Any = None,
    extract_values_from_minibatch_data: bool = True,
) -> dict[Variable, Any]:
    """Return what is given for variables by variable.

    Args:
        op_arguments: the variables.
        arguments: a dictionary by variable or by name, what the only variable takes, or a tuple of either and the
            starts of sequences.
        precision: is taken for compatibility.
        device: is taken for compatibility.
        extract_values_from_minibatch_data: take the data of what a reader gives.

    Raises:
        ValueError: a name is not there, or there is no dictionary for several variables.
    """
    several = tuple(op_arguments)
    if arguments is None or (isinstance(arguments, dict | list | tuple) and len(arguments) == 0):
        return {}
    starts = None
    if isinstance(arguments, tuple) and len(arguments) == 2 and isinstance(arguments[1], list | tuple):
        arguments, starts = arguments
    if not isinstance(arguments, Mapping):
        if len(several) != 1:
            raise ValueError(f"data without a dictionary can be given to one variable, and there are {len(several)}")
        arguments = {several[0]: arguments}
    found: dict[Variable, Any] = {}
    for key, value in arguments.items():
        variable = _named(several, key) if isinstance(key, str) else variable_of(key)
        own = starts[variable] if isinstance(starts, Mapping) else starts
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], list) and own is None:
            value, own = value
        if extract_values_from_minibatch_data and hasattr(value, "end_of_sweep"):
            value = value.data
        found[variable] = sanitize_batch(variable, value, own, device)
    return found


def _named(variables: tuple[Any, ...], name: str) -> Any:
    found = [each for each in variables if each.name == name]
    if len(found) != 1:
        names = ", ".join(each.name or each.uid for each in variables)
        told = f"there is no input with the name '{name}'" if not found else f"several inputs have the name '{name}'"
        raise ValueError(f"{told}; the inputs are {names}")
    return found[0]


def sanitize_variable_value_dict(var_value_dict: Any) -> dict[Variable, Any]:
    """Return values by variable."""
    return {variable_of(variable): value for variable, value in (var_value_dict or {}).items()}


def sanitize_Function_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of a function as they are."""
    return dict(attributes)


def _value_as_sequence(val: Any, var: Variable) -> Any:
    return val.as_sequences(var)


def _value_as_sequence_or_array(val: Any, var: Variable) -> Any:
    return val.as_sequences(var) if has_sequences(var) else val.asarray()


__all__ = [
    "GraphError",
    "bounded_cache",
    "is_byte_buffer",
    "is_string",
    "map_if_possible",
    "sanitize_2d_number",
    "sanitize_Function_attributes",
    "sanitize_axis",
    "sanitize_axis_list",
    "sanitize_batch",
    "sanitize_convolution_args",
    "sanitize_dtype_cntk",
    "sanitize_dtype_numpy",
    "sanitize_dynamic_axes",
    "sanitize_function",
    "sanitize_input",
    "sanitize_multi_axis_reduction_list",
    "sanitize_permutation",
    "sanitize_pooling_args",
    "sanitize_precision",
    "sanitize_random_args",
    "sanitize_range",
    "sanitize_shape",
    "sanitize_value",
    "sanitize_var_map",
    "sanitize_variable_or_function",
    "sanitize_variable_value_dict",
    "sanitize_variables_or_functions",
    "typemap",
    "variable_of",
]

inherit(__name__)
