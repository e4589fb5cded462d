"""What a model editing script says, before it is run."""

from __future__ import annotations

import attrs

from cntk_builder_ndl.mel.commands import Command
from cntk_core.api import Location
from cntk_core.api.builders import SourceText


@attrs.frozen
class Argument:
    """One argument of a command, without its quotation marks."""

    text: str
    where: Location


@attrs.frozen
class Call:
    """A command with its arguments; ``name=LoadModel(...)`` has ``name`` as its first one.

    Attributes:
        command: what is called.
        arguments: in order, without the options.
        options: by the option's full name.
        where: the place of the command's name.
    """

    command: Command
    arguments: tuple[Argument, ...]
    options: dict[str, Argument]
    where: Location


@attrs.frozen
class Copy:
    """``target = source``: a copy, or a statement of NDL if ``source`` is no node.

    Attributes:
        target, source: names or patterns.
        ndl: the same as a statement of NDL; None if it cannot be one.
    """

    target: Argument
    source: Argument
    ndl: SourceText | None
    where: Location


@attrs.frozen
class InLine:
    """A statement of NDL that adds to the default model."""

    text: SourceText
    where: Location


@attrs.frozen
class Snippet:
    """``name=[ ... ]``: a new model, described in NDL."""

    name: Argument
    text: SourceText
    where: Location


Step = Call | Copy | InLine | Snippet
