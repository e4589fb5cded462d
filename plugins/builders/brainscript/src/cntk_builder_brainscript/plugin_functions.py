"""Operations of plugins as functions: ``PReLU (x, slope, alpha = 0.1)``, with the attributes as named arguments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import attrs

from cntk_builder_brainscript.attributes import words_of
from cntk_builder_brainscript.parser import parse
from cntk_builder_brainscript.syntax import LIBRARY, RecordLiteral
from cntk_builder_brainscript.values import number_text
from cntk_core.api import BuildContext, Op, core_ops
from cntk_core.api.builders import SourceText

LANGUAGE = "brainscript"

_FACTORY: Any = attrs.Factory


def definition(name: str, context: BuildContext) -> RecordLiteral | None:
    """Return a record with one function, which makes the node of an operation, as the library would define it.

    The function takes the inputs of the operation by position (as one array, if their number is not fixed), and its
    attributes and ``tag`` by name.

    Args:
        name: as the recipe writes it; here case counts.
        context: what the builder is told.

    Returns:
        None where no plugin has such an operation. What the core has is in the library.
    """
    op = context.find_op(LANGUAGE, name)
    if op is None or not _is_of_plugin(op) or name not in _names(op):
        return None
    return parse(SourceText.of(_text(op, name), f"{LIBRARY}/{name}"), None)


def names(context: BuildContext) -> tuple[str, ...]:
    """Return the operations of plugins, for hints."""
    found = {name: context.find_op(LANGUAGE, name) for name in context.op_names(LANGUAGE)}
    return tuple(name for name, op in found.items() if op is not None and _is_of_plugin(op))


def _is_of_plugin(op: Op) -> bool:
    return core_ops().find("", op.name) is not op


def _names(op: Op) -> tuple[str, ...]:
    return (op.name, *op.aliases.get(LANGUAGE, ()))


def _text(op: Op, name: str) -> str:
    least, most = op.arity
    inputs = [f"input{number}" for number in range(1, least + 1)] if least == most else ["operands"]
    optional = [f"{word} = {default}" for word, default in _optional(op)]
    parameters = ", ".join([*inputs, *optional, "tag = ''"])
    given = "_AsNodes (operands)" if least != most else f"_AsNodes ([| {' ; '.join(inputs)} |])" if inputs else "()"
    return f"{name} ({parameters}) = new ComputationNode [ operation = '{op.name}' ; inputs = {given} ]"


def _optional(op: Op) -> Iterator[tuple[str, str]]:
    """Yield the word of each attribute and what stands for its default."""
    fields = {field.name: field for field in attrs.fields(op.attributes)}
    for attribute, word in words_of(op):
        default = fields[attribute].default
        if default is attrs.NOTHING:
            yield word, "BS.Constants.None"  # which is not given: the node says what it needs
        else:
            yield word, _written(default.factory() if isinstance(default, _FACTORY) else default)


def _written(value: Any) -> str:
    """Write a default as BrainScript does."""
    if value is None:
        return "BS.Constants.None"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number_text(float(value)) if math.isfinite(value) else f"{'-' if value < 0 else ''}1e999"
    if isinstance(value, tuple | list):
        return f"[| {' ; '.join(map(_written, value))} |]"
    return f"'{value}'" if '"' in str(value) else f'"{value}"'
