"""What making the node of a call gives, and the common way of making one: the op's settings are options."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import attrs

from cntk_builder_ndl.reading import Reader
from cntk_builder_ndl.scope import Operand
from cntk_core.api import BuildError, CntkError, Node, Op, Parameter, UnsupportedError


@attrs.frozen
class Made:
    """A node without its inputs.

    Attributes:
        node: the node.
        inputs: the operands that become its inputs.
        more: parameters that are made along with it, its last inputs.
    """

    node: Node
    inputs: tuple[Operand, ...] = ()
    more: tuple[Parameter, ...] = ()


Make = Callable[[Reader, Op], Made]
"""Makes the node of a call."""


def make_operation(reader: Reader, op: Op, **attributes: Any) -> Node:
    """Return the node of an operation with these attributes. Raises CntkError: they contradict each other."""
    try:
        made = op.attributes(**attributes)
    except CntkError as error:
        error.where = error.where or reader.where
        raise
    return Node(reader.node_name, op, attributes=made, where=reader.where)


def make_common(reader: Reader, op: Op) -> Made:
    """Make the node of a function whose arguments are all inputs; options are the op's settings in camel case.

    Raises:
        BuildError: the number of inputs or an option is wrong.
    """
    fewest, most = op.arity
    reader.expect(fewest, 10**6 if most is None else most)
    return Made(make_operation(reader, op, **read_settings(reader, op)), reader.nodes())


def read_settings(reader: Reader, op: Op, words: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the attributes of an op that the call gives as options.

    Args:
        words: the option of an attribute where it is not the attribute's name in camel case.

    Raises:
        BuildError: an option is wrong, or one without a default is missing.
    """
    found: dict[str, Any] = {}
    for name, read, default in _settings_of(op.attributes):
        key = (words or {}).get(name) or camel_case(name)
        if read is None:
            if default is attrs.NOTHING:
                raise UnsupportedError(
                    f"NDL has no way to write '{key}', which {reader.name} needs", where=reader.where
                )
        elif reader.given(key):
            found[name] = getattr(reader, read)(key, default)
        elif default is attrs.NOTHING:
            raise BuildError(f"{reader.name} needs {key}=...", where=reader.where, hint=reader.usage or None)
    return found


def camel_case(name: str) -> str:
    """Return ``outputRank`` for ``output_rank``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


_READERS: dict[Any, str] = {
    bool: "option_flag",
    int: "option_whole",
    float: "option_number",
    str: "option_text",
    tuple[int, ...]: "option_array",
    tuple[float, ...]: "option_numbers",
    tuple[bool, ...]: "option_flags",
    tuple[str, ...]: "option_texts",
}


@cache
def _settings_of(attributes: type) -> tuple[tuple[str, str | None, Any], ...]:
    """For each attribute of an op its name, how it is read, and its default."""
    hints = typing.get_type_hints(attributes)
    return tuple(
        (field.name, _READERS.get(_without_none(hints.get(field.name))), field.default)
        for field in attrs.fields(attributes)
    )


def _without_none(hint: Any) -> Any:
    """Return ``int`` for ``int | None``."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 else hint
