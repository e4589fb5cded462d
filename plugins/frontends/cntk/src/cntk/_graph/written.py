"""Functions that users wrote, in model files: what is kept of them, and how they come back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cntk_model_cntk2.records import Function as Record
from cntk_model_cntk2.records import Written
from cntk_model_cntk2.values import SizeT

from cntk._graph.errors import GraphError
from cntk._graph.plain import plain_value, python_value
from cntk._graph.primitive import Primitive
from cntk._graph.records import output_uid

if TYPE_CHECKING:
    from cntk.ops._user import UserFunction
    from cntk.ops.functions import Function
    from cntk.variables import Variable

_VERSION, _STATE_VERSION = 0, 1

CALLBACKS: dict[str, Callable[[list[Any], str, Any], Any]] = {}
"""What makes functions of files, by the names of their operations, where it is not ``deserialize`` of their class."""


def user_record(one: Primitive) -> dict[str, Any]:
    """Return what a file has of a function that a user wrote.

    Raises:
        GraphError: its state cannot be kept in a file.
    """
    assert one.user is not None
    kind = type(one.user)
    try:
        state = plain_value(one.user.serialize())
    except ValueError as error:
        raise GraphError(f"serialize of {one.called} gives what a file cannot hold: {error}") from None
    return {
        "version": SizeT(_VERSION),
        "type": "UserDefinedFunction",
        "uid": one.uid,
        **({"name": one.name} if one.name else {}),
        "inputs": [output_uid(each) for each in one.inputs],
        "native": False,
        "user_defined_state": {
            "class": kind.__name__,
            "module": kind.__module__,
            "op_name": one.user.op_name,
            "state": state,
            "version": _STATE_VERSION,
        },
    }


def user_primitive(record: Record, inputs: list[Variable], own: Iterable[UserFunction] = ()) -> Primitive:
    """Return the function of a user that a file has, made anew by what he wrote.

    Args:
        record: of the file.
        inputs: its inputs; placeholders for those that are made later.
        own: functions that are cloned where their class cannot make one of a file.

    Raises:
        GraphError: what would make it is not there, or makes something else.
    """
    from cntk.ops._user import UserFunction
    from cntk.ops.functions import Function

    assert record.written is not None
    state = python_value(record.written.state)
    found: Any
    if record.written.called in CALLBACKS:
        found = CALLBACKS[record.written.called](inputs, record.name, state)
    else:
        found = _by_class(record, inputs, state, own)
    if isinstance(found, UserFunction):
        found._declare()
    if not isinstance(found, Function):
        raise GraphError(f"{_place(record)}, and what is to make it of the file gives {type(found).__name__}")
    return found._primitive


def _by_class(record: Record, inputs: list[Variable], state: Any, own: Iterable[UserFunction]) -> Function:
    from cntk.ops._user import UserFunction

    written = record.written
    assert written is not None
    if written.native:
        raise _unmade(record, written, "which needs the original's library")
    if written.module not in sys.modules:  # a file is data: it does not choose what is imported
        raise _unmade(record, written, f"import '{written.module}' before the model is loaded")
    kind = getattr(sys.modules[written.module], written.kind, None)
    if not isinstance(kind, type) or not issubclass(kind, UserFunction):
        raise _unmade(record, written, f"there is no UserFunction '{written.kind}' in '{written.module}'")
    if kind.deserialize is not UserFunction.deserialize:
        found: Function = kind.deserialize(inputs, record.name, state)
        return found
    for each in own:
        if type(each) is kind and each.name == record.name:
            cloned: Function = each.clone(inputs)
            return cloned
    raise _unmade(record, written, "its class has no 'deserialize'")


def _place(record: Record) -> str:
    called = record.written.called if record.written is not None else ""
    return f"the function '{record.name or record.uid}' was written by its user ({called})"


def _unmade(record: Record, written: Written, why: str) -> GraphError:
    language = " in C++" if written.native else ""
    return GraphError(
        f"'{record.attributes.path}': {_place(record)}{language}, {why}; or say what makes it: "
        f"Function.register_udf_deserialize_callback('{written.called}', lambda inputs, name, state: ...)"
    )


def custom_record(custom: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file has of the attributes that a user gave a function.

    Raises:
        GraphError: they cannot be kept in a file.
    """
    try:
        return {"customAttributes": plain_value(custom)} if custom else {}
    except ValueError as error:
        raise GraphError(f"custom_attributes hold what a file cannot: {error}") from None


__all__ = ["CALLBACKS", "custom_record", "user_primitive", "user_record"]
