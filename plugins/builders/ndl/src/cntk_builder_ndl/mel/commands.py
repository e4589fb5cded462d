"""The commands of the model editing language (docs/original-rules.md#mel): names, arguments, options."""

from __future__ import annotations

import attrs

from cntk_core.api import BuildError, Location, did_you_mean

MODEL_FORMATS = ("cntk", "cntk_legacy_no_tensorlib")
COPY_MODES = ("all", "value")


@attrs.frozen
class Command:
    """One command.

    Attributes:
        name: as the documentation spells it.
        usage: how it is called.
        fewest, most: numbers of arguments, options not counted; None is any number.
        aliases: further names.
        options: names of its options; further names of one are joined with ``|``.
    """

    name: str
    usage: str
    fewest: int
    most: int | None
    aliases: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


COMMANDS = (
    Command("CreateModel", "CreateModel()", 0, 0),
    Command("CreateModelWithName", "CreateModelWithName(model)", 1, 1),
    Command("LoadModel", "LoadModel(file, format=cntk)", 1, 1, options=("format",)),
    Command("LoadModelWithName", "LoadModelWithName(model, file, format=cntk)", 2, 2, options=("format",)),
    Command("LoadNDLSnippet", "LoadNDLSnippet(model, file, section=name)", 2, 2, options=("section",)),
    Command("SaveDefaultModel", "SaveDefaultModel(file, format=cntk)", 1, 1, options=("format",)),
    Command("SaveModel", "SaveModel(model, file, format=cntk)", 1, 2, ("SaveModelWithName",), ("format",)),
    Command("SetDefaultModel", "SetDefaultModel(model)", 1, 1),
    Command("UnloadModel", "UnloadModel(model, ...)", 1, None),
    Command("DumpModel", "DumpModel(model, file, includeData=false)", 2, 2, ("Dump", "DumpNetwork"), ("includeData",)),
    Command("DumpNode", "DumpNode(node, file, includeData=false)", 2, 2, options=("includeData",)),
    Command("CopyNode", "CopyNode(from, to, copy=all|value)", 2, 2, ("Copy",), ("copy|copyFlag",)),
    Command("CopySubTree", "CopySubTree(root, model, prefix, copy=all|value)", 3, 3, options=("copy|copyFlag",)),
    Command("CopyNodeInputs", "CopyNodeInputs(from, to)", 2, 2, ("CopyInputs",)),
    Command("SetNodeInput", "SetNodeInput(node, index, input)", 3, 3, ("SetInput",)),
    Command("SetNodeInputs", "SetNodeInputs(node, input, ...)", 2, None, ("SetInputs",)),
    Command("SetProperty", "SetProperty(node, property, value)", 3, 3),
    Command("SetPropertyForSubTree", "SetPropertyForSubTree(root, property, value)", 3, 3),
    Command("RemoveNode", "RemoveNode(node, ...)", 1, None, ("Remove", "DeleteNode", "Delete")),
    Command("Rename", "Rename(old, new)", 2, 2),
    Command("ReviseParameter", "ReviseParameter(node, file)", 2, 2),
)
"""All commands, in the order in which a shortened name is looked for."""

NAMES = tuple(name for command in COMMANDS for name in (command.name, *command.aliases))


def is_short_for(word: str, name: str) -> bool:
    """Tell whether a word is a name or begins it with at least half of its letters; case does not count."""
    return bool(word) and name.lower().startswith(word.lower()) and len(word) >= len(name) // 2


def choose(word: str, names: tuple[str, ...]) -> str | None:
    """Return the name that a word is or is short for, None if there is none; a whole name goes first."""
    exact = [name for name in names if name.lower() == word.lower()]
    short = [name for name in names if is_short_for(word, name)]
    return next(iter([*exact, *short]), None)


def find_command(word: str, where: Location) -> Command:
    """Return the command that a word means.

    Raises:
        BuildError: there is none.
    """
    name = choose(word, NAMES)
    if name is None:
        raise BuildError(
            f"there is no command '{word}'{did_you_mean(word, NAMES)}",
            where=where,
            hint=f"Commands: {', '.join(command.name for command in COMMANDS)}",
        )
    return next(command for command in COMMANDS if name in (command.name, *command.aliases))


def find_option(command: Command, word: str, where: Location) -> str:
    """Return the full name of an option of a command.

    Raises:
        BuildError: the command has no such option.
    """
    for names in command.options:
        if choose(word, tuple(names.split("|"))) is not None:
            return names.split("|")[0]
    known = [name for names in command.options for name in names.split("|")]
    raise BuildError(
        f"{command.name} has no option '{word}'{did_you_mean(word, known)}", where=where, hint=f"Usage: {command.usage}"
    )


def makes_model(word: str) -> Command | None:
    """Return the command of ``name=CreateModel()`` and ``name=LoadModel(...)``; anything else there is NDL."""
    for name in ("CreateModel", "LoadModel"):
        if is_short_for(word, name):
            return next(command for command in COMMANDS if command.name == f"{name}WithName")
    return None
