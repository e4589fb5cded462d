"""The command ``cntk``: it parses, calls an action and prints. Everything heavy is imported where it is used.

Two ways to speak to it: ``cntk configFile=recipe.cntk key=value ...`` exactly as CNTK, and verbs
(``cntk train recipe.cntk``). Exit codes: 0 done, 1 the user's mistake or a failed run, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from cntk_core.cli.verbs import program
from cntk_core.cli.words import VERBS, make_parser
from cntk_core.errors import CntkError, did_you_mean

if TYPE_CHECKING:
    from cntk_core.actions.log import Log
    from cntk_core.cli.words import Verbs

USAGE = """\
-------------------------------------------------------------------
Usage: cntk configFile=yourConfigFile [key=value ...]
   or: cntk -f recipe.bs [-D "name = value"] [-I folder] [--cd folder]
   or: cntk train|test|write yourConfigFile [key=value ...]
   or: cntk demo        trains on real handwritten digits and shows how
   or: cntk --help      lists everything
-------------------------------------------------------------------"""

TRACEBACK = "CNTK_TRACEBACK"
"""Set this variable to 1 to see the Python traceback of an error."""

_INTERRUPTED = 130
_PATIENCE = 2.0
"""Seconds that a rank gives rank 0 to tell an error that both have."""
_DOCUMENT_OPTIONS = ("-f", "--file", "-I", "-D", "--cd")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        _say("\ninterrupted: what was saved before is kept; start the same command again to go on from there")
        _end_ranks("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone away; a second attempt to flush must not complain about it.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end_ranks("the reader of the output has gone away")
        return 1
    except BaseException as error:
        # Whatever it is (told to exit, or a traceback is wanted), other ranks must not wait for this one.
        _end_ranks(f"{type(error).__name__}: {error}")
        raise


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        _say("No command-line argument given.")
        _say(USAGE)
        return 1
    first = arguments[0]
    if first in _DOCUMENT_OPTIONS:
        return _run_as_cntk(arguments)
    if first not in VERBS and any("=" in argument for argument in arguments) and first not in ("-h", "--help"):
        return _run_as_cntk(arguments)
    return _run_verb(arguments)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- as CNTK ----------------------------------------------------------------------------------------------


def _run_as_cntk(arguments: list[str]) -> int:
    from cntk_core.actions.driver import run_recipe
    from cntk_core.actions.log import Log

    log = Log()
    try:
        run_recipe(arguments, log, program=program(), progress=sys.stderr.isatty())
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
    text = f"EXCEPTION occurred: {_text_of(error)}"
    log.plain()
    log.line(text)
    if log.to_file:
        log.console(text)
    _end_ranks(text)
    return error.exit_code if isinstance(error, CntkError) else 1


def _is_main_rank() -> bool:
    from cntk_core.actions.ranks import detect

    return detect().rank == 0


def _end_ranks(text: str) -> None:
    """End the other ranks of this run, if there are any.

    What all ranks find wrong, such as a mistake in the recipe, rank 0 tells; the others give it the time to do so.
    """
    from cntk_core.actions.ranks import detect, end_all

    launch = detect()
    if launch.size == 1:
        return
    if launch.rank:
        time.sleep(_PATIENCE)
        _say(text)
    defect, details = sys.exc_info()[1], ""
    if defect is not None and not isinstance(defect, CntkError | KeyboardInterrupt | SystemExit):
        import traceback

        details = traceback.format_exc()
        if os.environ.get(TRACEBACK) == "1":
            _say(details.rstrip())
    end_all(text, details)


def _text_of(error: Exception) -> str:
    if isinstance(error, CntkError):
        return str(error)
    if isinstance(error, OSError):
        name = f"'{error.filename}': " if error.filename else ""
        return f"{name}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error}" if str(error) else "there is not enough memory"
    return (
        f"this is a defect of the program: {type(error).__name__}: {error}\n"
        f"    Please report it with what {TRACEBACK}=1 shows."
    )


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
        text = f"error: {_text_of(error)}"
        if _is_main_rank():
            _say(text)
        _end_ranks(text)
        return error.exit_code if isinstance(error, CntkError) else 1


def _run_verb(arguments: list[str]) -> int:
    parser, verbs = make_parser()
    if not arguments[0].startswith("-") and arguments[0] not in VERBS:
        _add_plugin_verbs(parser, verbs, arguments[0])
    options, rest = parser.parse_known_args(arguments)
    overrides = getattr(options, "overrides", None)
    wrong = [text for text in rest if overrides is None or text.startswith("-") or "=" not in text]
    if wrong:
        parser.error(f"unrecognized arguments: {' '.join(wrong)}")
    if overrides is not None:
        options.overrides = [*overrides, *rest]
        odd = [text for text in options.overrides if "=" not in text]
        if odd:
            parser.error(f"'{odd[0]}' is not of the form key=value")
    if not hasattr(options, "run"):
        parser.print_help()
        return 2
    return _guarded(lambda: int(options.run(options) or 0))


def _add_plugin_verbs(parser: argparse.ArgumentParser, verbs: Verbs, wanted: str) -> None:
    """Ask the plugins for further verbs; only a word that is none of ours leads here."""
    from cntk_core.actions.plugins import add_commands

    add_commands(verbs)
    if wanted not in verbs.choices:
        parser.error(f"there is no verb '{wanted}'{did_you_mean(wanted, verbs.choices)}; see cntk --help")
