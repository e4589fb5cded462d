"""``cntk -f recipe.bs``: recipes that are written in the language of a builder as a whole.

Rules of the original: docs/original-rules.md#the-command-line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from cntk_core.config import COMMAND_LINE, Config, UnreadKeys
from cntk_core.contract.builder import BuildContext, Document, NetworkBuilder
from cntk_core.errors import ConfigError, Location, UsageError

if TYPE_CHECKING:
    from cntk_core.plugins.manager import PluginManager
    from cntk_core.plugins.registry import Registry
    from cntk_kit_recipes.recipe.log import Log

FILES = ("-f", "--file")
FOLDERS = "-I"
DEFINITION = "-D"
DIRECTORY = "--cd"
OPTIONS = (*FILES, FOLDERS, DEFINITION, DIRECTORY)
"""The options that belong to such recipes."""

_USAGE = 'cntk -f recipe.bs [-f more.bs] [-D "name = value"] [-I folder] [--cd folder]'
_CONFIG_FILE = "configfile="


@attrs.frozen
class DocumentLine:
    """A command line with ``-f``, taken apart.

    Attributes:
        document: what is read.
        directory: where the run goes before anything is read (``--cd``), ``None`` if it stays.
    """

    document: Document
    directory: tuple[str, Location] | None = None


def is_document(arguments: Sequence[str]) -> bool:
    """Whether a command line is one for :func:`split_document`: it has such an option and names no ``configFile=``."""
    named = any(argument.lower().startswith(_CONFIG_FILE) for argument in arguments)
    return not named and any(argument in OPTIONS for argument in arguments)


def split_document(arguments: Sequence[str]) -> DocumentLine:
    """Sort the options of a command line; nothing is read.

    Several files and folders may be joined with ``;``. What follows a file and is no option is a file, too.

    Raises:
        UsageError: an option is unknown, has no value, or no file is named.
    """
    files: list[tuple[str, Location]] = []
    definitions: list[tuple[str, Location]] = []
    folders: list[str] = []
    directory: tuple[str, Location] | None = None
    option = ""
    waits = False
    for number, text in enumerate(arguments, start=1):
        where = Location(COMMAND_LINE, number, 1)
        if not waits and text.startswith("-"):
            if text not in OPTIONS:
                raise UsageError(f"unknown option '{text}'", where=where, hint=_USAGE)
            option, waits = text, True
        elif not waits and (option not in FILES or ("=" in text and not Path(text).exists())):
            hint = f'Values of a recipe\'s members are given as {DEFINITION} "{text}".' if "=" in text else _USAGE
            raise UsageError(f"'{text}' belongs to no option", where=where, hint=hint)
        else:
            waits = False
            if option in FILES:
                files += [(path, where) for path in text.split(";") if path]
            elif option == FOLDERS:
                folders += [path for path in text.split(";") if path]
            elif option == DEFINITION:
                definitions.append((text, where))
            else:
                directory = (text, where)
    if waits:
        raise UsageError(f"{option} needs a value", where=Location(COMMAND_LINE, len(arguments), 1), hint=_USAGE)
    if not files:
        raise UsageError("no file is named", hint=_USAGE)
    return DocumentLine(Document(tuple(files), tuple(definitions), tuple(folders)), directory)


def load_document(arguments: Sequence[str], plugins: PluginManager, log: Log) -> Config:
    """Read the recipe that a command line with ``-f`` names, from the folder that it names.

    Raises:
        CntkError, Problems: the command line or the recipe is wrong, or no builder reads it.
    """
    line = split_document(arguments)
    if line.directory is not None:
        _enter(*line.directory)
        log.plain(f"Changed current directory to {line.directory[0]}")
    registry = plugins.registry
    builder = recipe_builder(registry, line.document)()
    context = BuildContext(find_op=registry.ops.find, op_names=registry.ops.names, trace=log.line)
    return attrs.evolve(builder.read_recipe(line.document, context), unread=UnreadKeys())


def recipe_builder(registry: Registry, document: Document) -> type[NetworkBuilder]:
    """Return the builder that reads a recipe: the one that claims the suffix of its first file, else any suffix.

    Raises:
        PluginError: there is none.
    """
    path, where = document.files[0]
    found: dict[str, list[tuple[int, str]]] = {}
    for offer in registry.builders.offers():
        builder = offer.outcome()
        if isinstance(builder, type):
            for suffix in builder.recipe_suffixes:
                found.setdefault(suffix.lower(), []).append((-builder.priority, offer.name))
    ending = Path(path).suffix.lower()
    names = sorted(found.get(ending) or found.get("", []))
    if not names:
        raise registry.builders.nothing(where)
    return registry.builders.get(names[0][1], where=where)


def _enter(directory: str, where: Location) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise ConfigError(f"the folder '{directory}' cannot be entered: {error.strerror}", where=where) from None
