"""Calling functions, and making functions of Python functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cntk._graph.edit import make, make_block
from cntk.internal import sanitize_input, variable_of
from cntk.internal.utils import get_python_function_arguments

if TYPE_CHECKING:
    from cntk.ops.functions import Function
    from cntk.variables import Variable


def apply(f: Function, given: Mapping[Variable, Any]) -> Any:
    """Apply a function to what is given for its arguments.

    Raises:
        TypeError, ValueError: it does not fit.
    """
    from cntk.ops.functions import CloneMethod, Function
    from cntk.variables import Variable

    if given and not any(isinstance(value, Function | Variable) for value in given.values()):
        values = f.eval(dict(given))
        return tuple(values[each] for each in f.outputs) if len(f.outputs) > 1 else values
    found = {each: sanitize_input(value, each._dtype or _fallback(given)) for each, value in given.items()}
    _check(found)
    return f._cloned(CloneMethod.share, found, fresh_inputs=False)


def _fallback(given: Mapping[Variable, Any]) -> Any:
    import numpy as np

    from cntk.variables import Variable

    typed = [value._dtype for value in given.values() if isinstance(value, Variable)]
    return next((dtype for dtype in typed if dtype is not None), np.float32)


def _check(given: Mapping[Variable, Variable]) -> None:
    """Look whether variables can take the place of arguments whose types are said.

    Raises:
        TypeError: one cannot.
    """
    for index, (each, value) in enumerate(given.items()):
        if each.is_placeholder or each._shape is None:
            continue
        told = f"argument {each.name}" if each.name else f"positional argument {index}"
        if value._shape is None:
            raise TypeError(f"{told} has a known shape, and cannot be passed a Variable of unknown shape")
        rank = len(each._shape)
        axes = value._axes and value._axes != each._axes
        if value._shape[len(value._shape) - rank :] != each._shape or axes or value._dtype != each._dtype:
            raise TypeError(
                f"{told}'s type {each._type} is incompatible with the type {value._type} of the passed Variable"
            )


def input_of_type(said: Any, name: str) -> Variable:
    """Return an input of a shape or a type.

    Raises:
        TypeError: it is none.
    """
    from cntk import ops
    from cntk.variables import Variable

    if isinstance(said, Variable):
        return said
    type_ = Variable._Type._sanitize(said)
    if not isinstance(type_, Variable._Type):
        raise TypeError(f"a type is a number, a shape or Tensor[...] and the like, not {said!r}")
    return ops.input_variable(name=name, **type_)


def function_of(f: Callable[..., Any], make_block: bool = False, op_name: str = "", name: str = "") -> Function:
    """Return the function of a Python function, as a block if that is wanted.

    Raises:
        TypeError: it returns nothing, or does not read all its arguments.
    """
    from cntk.default_options import default_options

    with default_options(pure=True):
        names, annotations = get_python_function_arguments(f)
        args = [_argument(each, annotations) for each in names]
        if make_block:
            inner = [_argument(each, annotations) for each in names]
            found = _invoke(f, inner, inner)
            _check_read(f, found, inner)
            return _block_of(found, dict(zip(inner, args, strict=True)), op_name, name)
        found = _invoke(f, args, args)
        told = [each.name for each in found.signature]
        if set(told) == set(names) and told != names:
            found = _invoke(f, args, _in_order(args))
    _check_read(f, found, args)
    return found


def _argument(name: str, annotations: Mapping[str, Any]) -> Variable:
    from cntk import ops
    from cntk.variables import UNKNOWN, Variable

    type_ = Variable._Type._sanitize(annotations.get(name))
    if isinstance(type_, Variable._Type) and type_.get("shape") != UNKNOWN:
        return ops.input_variable(name=name, **type_)
    return ops.placeholder(name=name)


def _in_order(args: Sequence[Variable]) -> list[Variable]:
    """Return arguments behind a block that reads them in their order."""
    from cntk import ops
    from cntk._graph.primitive import preorder

    inner = [ops.placeholder(name=each.name) for each in args]
    combined = make("Combine", inner)
    assert preorder([combined])
    return list(make_block("Tuple", inner, combined, dict(zip(inner, args, strict=True))).outputs)


def _invoke(f: Callable[..., Any], args: Sequence[Variable], given: Sequence[Variable]) -> Function:
    from cntk import ops
    from cntk.ops.functions import Function

    open_ = Function._placeholders_under_construction
    before = set(open_)
    open_.update(args)
    try:
        found = f(*given)
    finally:
        open_.clear()
        open_.update(before)
    if found is None:
        raise TypeError(f"CNTK Function '{f.__name__}' must return a value")
    if not isinstance(found, tuple):
        return found if isinstance(found, Function) else ops.combine([variable_of(found)])
    outputs: list[Any] = []
    for each in found:
        variable = variable_of(each)
        outputs.append(ops.alias(variable) if variable in outputs else variable)
    return ops.combine(outputs)


def _check_read(f: Callable[..., Any], found: Function, args: Sequence[Variable]) -> None:
    reads = found.signature
    if set(reads) == set(args):
        return
    missing = ", ".join(each.name for each in reads if each not in args)
    unused = ", ".join(each.name for each in args if each not in reads)
    count = len(set(reads) ^ set(args))
    kind = f"{count} missing arguments ({missing})" if missing else f"{count} unused arguments ({unused})"
    raise TypeError(f"CNTK Function '{f.__name__}' has {kind}, which is currently not supported")


def _block_of(found: Function, arguments: Mapping[Variable, Variable], op_name: str, name: str) -> Function:
    from cntk.ops.functions import Function

    primitive = make_block(op_name, found.outputs, found._primitive, arguments, name)
    return Function._of(primitive)
