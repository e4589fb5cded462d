"""What the command line says of trust: ``--safe`` or ``--safe=FOLDER``, wherever it stands. No recipe can say it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cntk_core.errors import Location, UsageError
from cntk_core.trust import OPTION, trusting_nothing

_HERE = "."


def split_safe(arguments: Sequence[str]) -> tuple[list[str], str]:
    """Take the option out of a command line.

    Returns:
        The other words in their order, and the output folder; empty without the option.

    Raises:
        UsageError: it names no folder, or it stands there twice.
    """
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    found = [at for at, text in enumerate(words[:end]) if text.partition("=")[0] == OPTION]
    if not found:
        return words, ""
    where = Location("<command line>", found[-1] + 1, 1)
    if len(found) > 1:
        raise UsageError(f"{OPTION} is there twice", where=where)
    _, equals, folder = words.pop(found[0]).partition("=")
    if equals and not folder:
        raise UsageError(
            f"{OPTION}= needs a folder", where=where, hint=f"{OPTION} alone means the folder that you are in."
        )
    return words, folder or _HERE


def join_safe(folder: str) -> list[str]:
    """Return the words that say the same: what :func:`split_safe` took out."""
    return [f"{OPTION}={Path(folder).absolute()}"] if folder else []


def trusting(folder: str) -> AbstractContextManager[object]:
    """Within, a recipe writes below this folder only; without one it may do all."""
    return trusting_nothing(Path(folder)) if folder else nullcontext()
