"""Helpers of the package and of tests that were written for the original."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cntk._inherited import inherit


def get_python_function_arguments(f: Callable[..., Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the names of a function's parameters that have no default, and annotations."""
    given = getattr(f, "argument_names", None)
    if given is not None:
        return list(given), {}
    spec = inspect.getfullargspec(f)
    annotations = dict(spec.annotations)
    if any(isinstance(each, str) for each in annotations.values()):
        annotations = dict(inspect.get_annotations(f, eval_str=True))
    names = spec.args
    if spec.defaults:
        names = names[: -len(spec.defaults)]
    if inspect.ismethod(f) or (names and names[0] == "self"):
        names = names[1:]
    return names, annotations


def map_function_arguments(
    params: Sequence[Any], params_dict: Mapping[str, Any], *args: Any, **kwargs: Any
) -> dict[Any, Any]:
    """Return arguments by parameter.

    Args:
        params: the parameters.
        params_dict: the same by name.
        args, kwargs: the arguments.

    Raises:
        TypeError: there is no such parameter, or it is given twice.
    """
    found = dict(zip(params, args, strict=False))
    for name, value in kwargs.items():
        if name not in params_dict:
            raise TypeError(f"got an unexpected keyword argument '{name}'")
        if params_dict[name] in found:
            raise TypeError(f"got multiple values for argument '{name}'")
        found[params_dict[name]] = value
    return {each: found[each] for each in params if each in found}


def get_data_type(*args: Any) -> Any:
    """Return the type of numbers of variables, functions, arrays and numbers together; None if it is not known.

    Raises:
        ValueError: they have none.
    """
    from cntk.core import NDArrayView, Value
    from cntk.ops.functions import Function
    from cntk.variables import VariableMixin

    typed: set[Any] = set()
    plain: set[Any] = set()
    for each in args[0] if len(args) == 1 and isinstance(args[0], list) else args:
        if isinstance(each, VariableMixin | Value | NDArrayView):
            typed.add(each.dtype)
        elif isinstance(each, Function):
            typed.update(output.dtype for output in each.outputs)
        elif isinstance(each, np.ndarray):
            if each.dtype not in (np.float32, np.float64, np.float16):
                raise ValueError(f'NumPy type "{each.dtype}" is not supported')
            plain.add(each.dtype.type)
        elif isinstance(each, float | int | np.number):
            plain.add(np.float64 if type(each) is np.float64 else np.float32)
    for found in (typed, plain):  # what variables have counts before what numbers have
        for dtype in (np.float64, np.float32, np.float16):
            if dtype in found:
                return dtype
    return None


def _ones_like(batch: Any, precision: Any) -> list[Any]:
    return [np.ones_like(each, dtype=precision) for each in batch]


def eval(
    op: Any,
    arguments: Any = None,
    precision: Any = None,
    device: Any = None,
    backward_pass: bool = False,
    expected_backward: Any = None,
) -> Any:
    """Evaluate a function and, if that is wanted, gradients of the sum of its elements.

    Args:
        op: the function.
        arguments: what its arguments are given.
        precision: type of the gradients that are given for its outputs.
        device: is taken for compatibility.
        backward_pass: compute gradients as well.
        expected_backward: by which variables; by default all arguments.

    Returns:
        The values by variable, and the gradients by variable, None without them.
    """
    if not backward_pass:
        return op.forward(arguments, op.outputs, None, device=device)[1], None
    state, forward = op.forward(arguments, op.outputs, op.outputs, device=device)
    roots = {each: _ones_like(value, precision) for each, value in forward.items()}
    wanted = expected_backward if expected_backward is not None else arguments
    if not isinstance(wanted, Mapping):
        wanted = dict.fromkeys(op.arguments)
    return forward, op.backward(state, roots, set(wanted))


inherit(__name__)
