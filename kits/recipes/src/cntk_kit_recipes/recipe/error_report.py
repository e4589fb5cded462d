"""What is said of an error, and how the other ranks of a run hear of it. Nothing heavy is imported here."""

from __future__ import annotations

import os
import sys
import time

from cntk_core.errors import CntkError, RankGone, RankMissing
from cntk_core.system.console import tell

TRACEBACK = "CNTK_TRACEBACK"
"""Set this variable to 1 to see the Python traceback of an error."""

SIGNALLED = 128
"""Exit codes above are of ranks that were told to end: by somebody, or by a launcher that has seen another rank end."""

_PATIENCE = 2.0
"""Seconds that a rank gives rank 0 to tell an error that both have."""


def say(text: str) -> None:
    """Print a line on the console."""
    tell(text)


def tells_errors() -> bool:
    """Whether this process tells its errors at once: the first rank, or the only one, where no launcher does it."""
    from cntk_kit_recipes.recipe.ranks import detect, is_told_by_launcher

    launch = detect()
    return launch.rank == 0 and not is_told_by_launcher(launch)


def end_ranks(text: str) -> None:
    """End the other ranks of this run, if there are any.

    What all ranks find wrong, such as a mistake in the recipe, rank 0 tells; the others give it the time to do so.
    A launcher of ours tells it once for all of them, when they have ended.
    """
    from cntk_kit_recipes.recipe.ranks import detect, end_all, is_told_by_launcher

    launch = detect()
    if launch.size == 1:
        return
    by_launcher = is_told_by_launcher(launch)
    defect, details = sys.exc_info()[1], ""
    if launch.rank:
        if not isinstance(defect, RankGone | RankMissing):
            time.sleep(_PATIENCE)
        if not by_launcher:
            say(text)
    if defect is not None and not isinstance(defect, CntkError | KeyboardInterrupt | SystemExit):
        import traceback

        details = traceback.format_exc()
        if os.environ.get(TRACEBACK) == "1":
            say(details.rstrip())
    told = isinstance(defect, CntkError) and defect.exit_code > SIGNALLED
    end_all(text, details, consequence=told or isinstance(defect, RankGone), say=say if by_launcher else None)


def text_of(error: Exception) -> str:
    """Return what a user is told of an error."""
    from cntk_core.plugins.addresses import with_addresses

    return with_addresses(_text_of(error))


def _text_of(error: Exception) -> str:
    if isinstance(error, CntkError):
        return str(error)
    if isinstance(error, UnicodeEncodeError) and error.encoding == sys.getfilesystemencoding():
        return (
            f"'{error.object}' cannot be the name of a file here: the locale's encoding is {error.encoding}\n"
            "    Set LC_ALL=C.UTF-8 or PYTHONUTF8=1."
        )
    from cntk_core.plugins.faults import fault_error, took_part

    broken = fault_error(error)
    if broken is not None:
        return str(broken)
    if isinstance(error, OSError):
        name = f"'{error.filename}': " if error.filename else ""
        return f"{name}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error}" if str(error) else "there is not enough memory"
    others = took_part()
    return (
        f"this is a defect of the program: {type(error).__name__}: {error}\n"
        f"    Please report it with what {TRACEBACK}=1 shows."
        + (f"\n    It may also come from {', '.join(others)}: try without." if others else "")
    )
