"""``-D``: definitions of the command line that take the place of members of a recipe."""

from __future__ import annotations

import attrs

from cntk_builder_brainscript.lexer import Include
from cntk_builder_brainscript.parser import parse
from cntk_builder_brainscript.syntax import Expression, New, RecordLiteral, RecordMember
from cntk_core.api import CntkError, Location, Problems
from cntk_core.api.builders import SourceText


def with_definitions(text: RecordLiteral, definitions: str, where: Location, include: Include) -> RecordLiteral:
    """Return a text in which members are defined otherwise, or are new.

    A definition sees what the member in its place would see. A record changes the members that it names in the record
    (or the ``new Kind [...]``) that it meets; any other value takes its place.

    Raises:
        BuildError, Problems: the definitions are no BrainScript.
    """
    source = SourceText.of(definitions, where.file, where.line, where.column)
    try:
        return merged(text, parse(source, include))
    except CntkError as error:
        if not isinstance(error, Problems) and error.hint is None and not {"'", '"'} & set(definitions):
            name, _, value = definitions.partition("=")
            error.hint = f"A text needs quotation marks: -D \"{name.strip()} = '{value.strip()}'\"."
        raise


def merged(base: RecordLiteral, definitions: RecordLiteral) -> RecordLiteral:
    """Return a record with other members, in the records in it as well."""
    members = dict(base.members)
    for name, member in definitions.members.items():
        members[name] = _member(members.get(name), member)
    return attrs.evolve(base, members=members)


def _member(old: RecordMember | None, new: RecordMember) -> RecordMember:
    if old is None or not isinstance(new.value, RecordLiteral):
        return new
    value: Expression
    if isinstance(old.value, RecordLiteral):
        value = merged(old.value, new.value)
    elif isinstance(old.value, New) and isinstance(old.value.record, RecordLiteral):
        value = attrs.evolve(old.value, record=merged(old.value.record, new.value))
    else:
        return new
    return attrs.evolve(old, value=value)
