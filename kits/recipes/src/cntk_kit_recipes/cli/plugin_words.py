"""What the command line says of plugins: ``--plugin FILE`` and ``--no-plugin NAME``, wherever they stand."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_core.errors import Location, UsageError, did_you_mean
from cntk_core.plugins.discovery import OFF

PLUGIN, NO_PLUGIN = "--plugin", "--no-plugin"
PLUGIN_OPTIONS = (PLUGIN, NO_PLUGIN)

_COMMAND_LINE = "<command line>"


def split_plugins(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take what concerns plugins out of a command line.

    Returns:
        The other words in their order, and what plugin managers take: files and wheels, and with ``-`` in front what is
        switched off.

    Raises:
        UsageError: an option has no value.
    """
    rest: list[str] = []
    plugins: list[str] = []
    waiting = iter(enumerate(arguments, start=1))
    for number, text in waiting:
        if text == "--":
            rest += [text, *(word for _, word in waiting)]
            break
        option, equals, value = text.partition("=")
        if option not in PLUGIN_OPTIONS:
            rest.append(text)
            continue
        if not equals:
            _, value = next(waiting, (0, ""))
        if not value or value.startswith("-"):
            what = "a file" if option == PLUGIN else "the name of a plugin"
            raise UsageError(f"{option} needs {what}", where=Location(_COMMAND_LINE, number, 1))
        plugins.append(value if option == PLUGIN else f"{OFF}{value}")
    return rest, plugins


def without_plugins(arguments: Sequence[str]) -> list[str]:
    """Return the other words, also of a command line that is wrong."""
    try:
        return split_plugins(arguments)[0]
    except UsageError:
        return [text for text in arguments if text.partition("=")[0] not in PLUGIN_OPTIONS]


def join_plugins(plugins: Sequence[str]) -> list[str]:
    """Return the options that say the same: what :func:`split_plugins` took apart."""
    return [
        word
        for plugin in plugins
        for word in ((NO_PLUGIN, plugin.removeprefix(OFF)) if plugin.startswith(OFF) else (PLUGIN, plugin))
    ]


def check_words(arguments: Sequence[str]) -> None:
    """Make sure that beside ``configFile=`` there is nothing but ``key=value``.

    Raises:
        UsageError: there is an option or a word that means nothing there.
    """
    for number, text in enumerate(arguments, start=1):
        if text.startswith("--") or "=" not in text:
            guess = did_you_mean(text, PLUGIN_OPTIONS) if text.startswith("-") else ""
            raise UsageError(
                f"'{text}' means nothing beside configFile={guess}",
                where=Location(_COMMAND_LINE, number, 1),
                hint="cntk configFile=recipe.cntk [key=value ...] [--plugin FILE] [--no-plugin NAME] [--safe]",
            )
