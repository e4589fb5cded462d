"""Every exception of the project: what happened, where, and how to mend it.

All of them derive from :class:`CntkError`. The command line prints ``str(error)`` and exits with
``error.exit_code``; a Python traceback is shown only for a defect of the program itself.

The text has at most three parts, one per line group::

    recipe.cntk:31:5: learner 'sgd' has no option 'momentm'; did you mean 'momentum'?
        Options: momentum, nesterov

The first line is ``where: message``; the indented lines are the hint.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any

import attrs


@attrs.frozen
class Location:
    """A place in a recipe or data file. Lines and columns count from 1; 0 means unknown."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return ":".join([self.file or "<text>", *map(str, takewhile(bool, (self.line, self.column)))])


class CntkError(Exception):
    """A mistake of the user or a failed run, with its place and its remedy."""

    exit_code = 1

    def __init__(self, message: str, *, where: Location | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where is not None else self.message
        if self.hint:
            text += "".join(f"\n    {line}" for line in self.hint.splitlines())
        return text


class UsageError(CntkError):
    """The command line itself is wrong."""

    exit_code = 2


class ConfigError(CntkError):
    """The text of a recipe cannot be read, or a value has the wrong type."""


class MissingKeyError(ConfigError):
    """A required key is not given."""


class OptionError(ConfigError):
    """A block has a key that its component does not know."""


class BuildError(CntkError):
    """A network description is wrong (NDL, BrainScript, a builder's options)."""


class NetworkError(CntkError):
    """The network is not well formed: a cycle without delay, a missing root, a duplicate name."""


class ShapeError(NetworkError):
    """The shapes of an operation's inputs do not fit."""


class DataError(CntkError):
    """A data file is missing or malformed."""


class ModelFormatError(CntkError):
    """A model file is not one of ours, is damaged, or is from a newer version."""


class CheckpointError(CntkError):
    """No usable checkpoint where one is required."""


class TrainingError(CntkError):
    """Training cannot go on: the criterion is not a number, a file cannot be written."""


class RankMissing(TrainingError):
    """Other ranks did not come to an operation within the deadline."""


class RankGone(TrainingError):
    """Another rank has failed or is gone; why, it may have said itself."""


class UnsupportedError(CntkError):
    """Something that the original had and this version does not have yet; always named."""


class PluginError(CntkError):
    """Base of the plug-in system's errors."""


class MissingPluginError(PluginError):
    """Nothing installed offers the wanted name.

    Args:
        requirement: what ``pip install`` is given to get it; empty if nothing is known to have it.
    """

    def __init__(
        self, message: str, *, where: Location | None = None, hint: str | None = None, requirement: str = ""
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.requirement = requirement


class BrokenPluginError(PluginError):
    """A wheel offers the name, but its class cannot be imported."""


class PluginUnavailableError(PluginError):
    """The plugin is installed and sound, but cannot run on this machine."""


class AmbiguousPluginError(PluginError):
    """Two wheels offer the same name."""


class IncompatiblePluginError(PluginError):
    """The plugin was written for another version of the plugin interface."""


class WrongResult(TypeError):
    """A function gave what cannot be used. If it is a plugin's, the fault boundary says so; otherwise it is a defect.

    Args:
        function: what was called; a method, too.
        message: what is wrong with what it gave: ``returned None, not the new value and the slots``.
    """

    def __init__(self, function: Any, message: str) -> None:
        inner = getattr(function, "__func__", function)
        super().__init__(f"{getattr(inner, '__qualname__', inner)} {message}")
        self.function = inner
        self.message = message


def shown(value: Any) -> str:
    """Return what a function gave in a few words: ``None``, ``2 values``, ``an array of (2, 3)``, ``a Network``."""
    if isinstance(value, list | tuple):
        return f"{len(value)} values"
    if isinstance(getattr(value, "shape", None), tuple):
        return f"an array of {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= 40 and type(value).__module__ == "builtins" else f"a {type(value).__name__}"


class Problems(CntkError):
    """Several errors found in one pass, reported together.

    Args:
        errors: at least one. One alone should be raised as itself: use :func:`raise_problems`.
    """

    def __init__(self, errors: Sequence[CntkError]) -> None:
        self.errors = tuple(errors)
        super().__init__(f"{len(self.errors)} problems")

    def __str__(self) -> str:
        missing = dict.fromkeys(
            error.requirement for error in self.errors if isinstance(error, MissingPluginError) and error.requirement
        )
        install = [f"All that is missing: pip install {' '.join(missing)}"] if len(missing) > 1 else []
        return "\n".join([*(str(error) for error in self.errors), *install, f"{len(self.errors)} problems found"])


def raise_problems(errors: Sequence[CntkError]) -> None:
    """Raise nothing, the one error, or all of them as :class:`Problems`."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise Problems(errors)


def collect(read: Callable[..., Any], errors: list[CntkError]) -> Any:
    """Return what a function returns, or put its errors to the others and return None."""
    try:
        return read()
    except Problems as error:
        errors.extend(error.errors)
    except CntkError as error:
        errors.append(error)
    return None


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that a misspelt one most probably means (case does not count)."""
    by_lower, meant = {name.lower(): name for name in known}, word.lower()
    found = difflib.get_close_matches(meant, by_lower, cutoff=0.6)
    if not found:
        return None
    swapped = [name for name in found if sorted(name) == sorted(meant)]  # letters that changed places are most common
    return by_lower[(swapped or found)[0]]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` or an empty string."""
    guess = nearest(word, known)
    return f"; did you mean '{guess}'?" if guess else ""
