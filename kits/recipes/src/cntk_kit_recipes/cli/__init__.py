"""The command ``cntk``: it parses, calls an action and prints. Everything heavy is imported where it is used.

Two ways to speak to it: ``cntk configFile=recipe.cntk key=value ...`` exactly as CNTK, and verbs
(``cntk train recipe.cntk``). Exit codes: 0 done, 1 the user's mistake or a failed run, 2 usage, 130 interrupted,
143 told to end (SIGTERM) while training.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from cntk_core.errors import CntkError, WrongResult, shown
from cntk_core.system.console import leave, open_missing
from cntk_kit_recipes.cli.address_words import addresses_in
from cntk_kit_recipes.cli.arguments import program
from cntk_kit_recipes.cli.plugin_words import PLUGIN_OPTIONS, check_words, split_plugins, without_plugins
from cntk_kit_recipes.cli.safe_words import split_safe, trusting
from cntk_kit_recipes.cli.words import installed, parser_of, whole_parser
from cntk_kit_recipes.recipe.error_report import TRACEBACK, end_ranks, say, tells_errors, text_of

if TYPE_CHECKING:
    from cntk_kit_recipes.recipe.log import Log

USAGE = """\
-------------------------------------------------------------------
Usage: cntk configFile=yourConfigFile [key=value ...] [--plugin FILE] [--no-plugin NAME] [--safe]
   or: cntk -f recipe.bs [-D "name = value"] [-I folder] [--cd folder]
   or: cntk train|test|write yourConfigFile [key=value ...]
   or: cntk demo        trains on real handwritten digits and shows how
   or: cntk --help      lists everything
-------------------------------------------------------------------"""

_INTERRUPTED = 130
_DOCUMENT_OPTIONS = ("-f", "--file", "-I", "-D", "--cd")


_COLLECTED = 10_000
"""New objects after which Python looks for cycles that nobody holds."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Args:
        argv: the words; None are those of this process, which is then told to look for cycles seldom.
    """
    if argv is None:
        _collect_seldom()
    open_missing()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        say("\ninterrupted: what was saved before is kept; start the same command again to go on from there")
        end_ranks("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone away; a second attempt to flush must not complain about it.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        end_ranks("the reader of the output has gone away")
        return 1
    except BaseException as error:
        # Whatever it is (told to exit, or a traceback is wanted), other ranks must not wait for this one.
        end_ranks(f"{type(error).__name__}: {error}")
        raise
    finally:
        leave()


def _collect_seldom() -> None:
    """Look for cycles less often than Python does by itself: a start makes many objects, and nearly all of them stay.

    When a process ends, Python looks through all of them three times, which takes longer than importing NumPy.
    """
    gc.set_threshold(_COLLECTED, 10, 10)
    atexit.unregister(_collect_once)
    atexit.register(_collect_once)


def _collect_once() -> None:
    """At the end, let go of the cycles that nobody holds; Python then finds nothing more to look through."""
    gc.collect()
    gc.freeze()


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        say("No command-line argument given.")
        say(USAGE)
        return 1
    try:
        arguments, safe = split_safe(arguments)
    except CntkError as error:
        say(f"error: {error}")
        return error.exit_code
    words = without_plugins(arguments)
    first = words[0] if words else ""
    if first in _DOCUMENT_OPTIONS:
        return _run_as_cntk(arguments, safe)
    if any("=" in word for word in words) and not _is_verb(first, arguments):
        return _run_as_cntk(arguments, safe)
    return _run_verb(arguments, safe)


def _is_verb(first: str, arguments: list[str]) -> bool:
    """Whether a command line with a ``=`` somewhere is nevertheless that of a verb."""
    if first in ("-h", "--help"):
        return True
    if "=" in first or first.startswith("-"):
        return False
    return any(argument.startswith(PLUGIN_OPTIONS) for argument in arguments) or first in installed()


# -- as CNTK ----------------------------------------------------------------------------------------------


def _run_as_cntk(arguments: list[str], safe: str) -> int:
    from cntk_kit_recipes.recipe.driver import run_recipe
    from cntk_kit_recipes.recipe.log import Log

    log = Log()
    try:
        words, plugins = split_plugins(arguments)
        if not any(word in _DOCUMENT_OPTIONS for word in words):
            check_words(words)
        with trusting(safe):
            run_recipe(words, log, plugin_files=plugins, program=program(), progress=sys.stderr.isatty())
    except BrokenPipeError:
        raise
    except (CntkError, OSError, MemoryError, Exception) as error:
        return _report_as_cntk(error, log)
    finally:
        log.close()
    return 0


def _report_as_cntk(error: Exception, log: Log) -> int:
    if os.environ.get(TRACEBACK) == "1":
        raise error
    text = f"EXCEPTION occurred: {text_of(error)}"
    log.plain()
    log.line(text)
    if log.to_file:
        log.console(text)
    end_ranks(text)
    return error.exit_code if isinstance(error, CntkError) else 1


# -- verbs ------------------------------------------------------------------------------------------------


def _guarded(step: Callable[[], int]) -> int:
    """Run a step and turn its errors into one message."""
    try:
        return step()
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK) == "1":
            raise
        text = f"error: {text_of(error)}"
        if tells_errors():
            say(text)
        end_ranks(text)
        return error.exit_code if isinstance(error, CntkError) else 1


def _run_verb(arguments: list[str], safe: str) -> int:
    return _guarded(partial(_run_words, arguments, safe))


def _run_words(arguments: list[str], safe: str) -> int:
    words, files = split_plugins(arguments)
    if not words or words[0].startswith("-"):
        parser = whole_parser()
        parser.parse_args(words)
        parser.print_help()
        return 2
    with addresses_in(words) as words:
        return _run_word(files, words, safe)


def _run_word(files: list[str], words: list[str], safe: str) -> int:
    parser = parser_of(words[0], files)
    options = _parse(parser, words)
    if not hasattr(options, "run"):
        parser.print_help()
        return 2
    options.plugin = [*files, *getattr(options, "plugin", ())]
    options.safe = safe
    # A process that starts ranks runs no recipe; they are told.
    with trusting("" if getattr(options, "ranks", None) is not None else safe):
        code = options.run(options)
        if not isinstance(code, int | None):
            raise WrongResult(options.run, f"returned {shown(code)}, not the exit status")
        return int(code or 0)


def _parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Parse a command line; ``key=value`` may stand anywhere on that of a verb that takes such."""
    options, rest = parser.parse_known_args(words)
    overrides = getattr(options, "overrides", None)
    wrong = [text for text in rest if overrides is None or text.startswith("-") or "=" not in text]
    if wrong:
        parser.error(f"unrecognized arguments: {' '.join(wrong)}")
    if overrides is not None:
        options.overrides = [*overrides, *rest]
        odd = [text for text in options.overrides if "=" not in text]
        if odd:
            parser.error(f"'{odd[0]}' is not of the form key=value")
    return options
