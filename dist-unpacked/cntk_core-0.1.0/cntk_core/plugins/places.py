"""Where plugins come from, and the places in them that messages name."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import attrs


@attrs.frozen
class Source:
    """Where an offer comes from: a wheel with its version, or a file.

    Attributes:
        name: distribution name, or the path of a file as it was given.
        version: version of the wheel; empty for a file.
    """

    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}" if self.version else self.name

    @property
    def is_wheel(self) -> bool:
        """Whether it was installed."""
        return bool(self.version)

    @property
    def qualifier(self) -> str:
        """What people write before the colon to mean this source: the wheel's or the file's name."""
        return self.name if self.is_wheel else Path(self.name).name

    def answers_to(self, qualifier: str) -> bool:
        """Whether what stands before a colon means this source."""
        return same_wheel(self.qualifier, qualifier) or self.name == qualifier


HERE = Source("this program")
"""Source of what a program registers itself."""

CORE = Source("cntk-core")
"""Source of the core's own answers to hooks."""


@attrs.define
class Taken:
    """How long an import took, in seconds."""

    seconds: float = 0.0


def same_wheel(left: str, right: str) -> bool:
    """Whether two spellings mean the same distribution (case, ``-``, ``_`` and ``.`` do not count)."""
    return normal_name(left) == normal_name(right)


def normal_name(name: str) -> str:
    """Return the one spelling of a distribution's name that all its spellings share."""
    return re.sub(r"[-_.]+", "-", name).lower()


def reason_of(error: BaseException) -> str:
    """What an error says, never an empty text."""
    if isinstance(error, SystemExit):
        return f"it ends the program with sys.exit({'' if error.code is None else repr(error.code)})"
    return str(error) or type(error).__name__


def last_line(error: BaseException) -> str:
    """``folder/module.py:12`` of the innermost frame outside the import machinery; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return short_place(error.filename, error.lineno)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
        and Path(frame.filename).parent != _HERE
        and Path(frame.filename).parent.name not in ("importlib", "metadata")
    ]
    return short_place(frames[-1].filename, frames[-1].lineno) if frames else ""


def short_place(filename: str, line: int | None) -> str:
    """``folder/module.py:12``."""
    return f"{'/'.join(Path(filename).parts[-2:])}:{line}"


def remedy_for(source: Source) -> str:
    """What somebody can do about a plugin that fails."""
    how = "CNTK_TRACEBACK=1 shows how it was called."
    if source.is_wheel:
        return f"Report it to those who made {source.name}, or leave it out: --no-plugin {source.name}. {how}"
    return f"Mend {'the program' if source == HERE else 'the file'}. {how}"


_HERE = Path(__file__).parent
