"""``cntk completion``: a script that lets a shell complete verbs, options and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from cntk_core.contract.verb import Verb
from cntk_core.errors import UsageError, did_you_mean

_FILES = ("recipe", "source", "model")
"""Names of arguments that are files, whatever stands for them in the help."""

_FILE_WORDS = ("FILE", "MODEL", "LOG")
_FOLDER_WORDS = ("DIR", "FOLDER")


class Completion(Verb):
    """Write a script with which a shell completes verbs, options and files."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the shell."""
        parser.add_argument("shell", metavar="SHELL", help="bash, zsh, fish, tcsh or powershell")

    def run(self, options: argparse.Namespace) -> int:
        """Print the script.

        Raises:
            UsageError: there is no script for such a shell.
        """
        print(script(options.shell, options.plugin))
        return 0


def script(shell: str, plugin_files: list[str]) -> str:
    """Return the script for a shell, with the verbs of all wheels that are installed.

    Args:
        shell: its name.
        plugin_files: further files with verbs.

    Raises:
        UsageError: there is none for such a shell.
    """
    import shtab

    from cntk_kit_recipes.cli.words import full_parser

    if shell not in shtab.SUPPORTED_SHELLS:
        known = list(shtab.SUPPORTED_SHELLS)
        raise UsageError(
            f"there is no completion for the shell '{shell}'{did_you_mean(shell, known)}",
            hint=f"Shells: {', '.join(known)}",
        )
    parser = full_parser(plugin_files)
    for action in _actions(parser):
        kind = _kind(action)
        if kind and not hasattr(action, "complete"):
            action.complete = shtab.FILE if kind == "file" else shtab.DIRECTORY  # type: ignore[attr-defined]
    return shtab.complete(parser, shell=shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of all parsers below it."""
    for action in parser._actions:  # argparse has no other way to see them
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
        elif action.nargs != 0:
            yield action


def _kind(action: argparse.Action) -> str:
    """Return ``file``, ``folder`` or nothing: what a value of an argument names."""
    word = action.metavar if isinstance(action.metavar, str) else ""
    if word.startswith(_FILE_WORDS) or (not action.option_strings and action.dest in _FILES):
        return "file"
    return "folder" if word.startswith(_FOLDER_WORDS) or action.dest == "folder" else ""
