"""Values that are not evaluated yet, and the paths that name them (see :mod:`~cntk_builder_brainscript.values`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cntk_builder_brainscript.syntax import Expression
from cntk_core.api import CntkError

if TYPE_CHECKING:
    from cntk_builder_brainscript.values import Record

Path = tuple[Any, str] | None
"""The path to a value: ``None`` for the root, else (path before, segment)."""


def path_text(path: Path) -> str:
    """Write a path out, such as ``L[1].b``; the root is an empty text."""
    segments = []
    while path is not None:
        path, segment = path
        segments.append(segment)
    segments.reverse()
    return _joined(segments)


def bounded_path_text(path: Path, limit: int) -> str:
    """Write a path out as :func:`path_text` does.

    Raises OverflowError with the beginning of the path if it has more segments than the limit.
    """
    segments: list[str] = []
    rest = path
    while rest is not None and len(segments) <= limit:
        rest, segment = rest
        segments.append(segment)
    if len(segments) > limit:
        raise OverflowError(path_text(path)[:60] + "...")
    segments.reverse()
    return _joined(segments)


def _joined(segments: Sequence[str]) -> str:
    return "".join(s if i == 0 or s.startswith("[") else "." + s for i, s in enumerate(segments))


class Machine(Protocol):
    """What a thunk needs of the evaluator."""

    active: list[Thunk]
    """The thunks that are being evaluated, outermost first."""

    def evaluate(self, expression: Expression, scope: Record | None, path: Path) -> object:
        """Return the value of an expression."""

    def circular(self, thunk: Thunk) -> CntkError:
        """Return the error for a thunk that needs itself."""


class Thunk:
    """A value that is evaluated when it is first needed."""

    __slots__ = ("expression", "machine", "path", "running", "scope", "value")

    def __init__(self, machine: Machine, expression: Expression, scope: Record | None, path: Path) -> None:
        self.machine: Machine | None = machine
        self.expression = expression
        self.scope = scope
        self.path = path
        self.running = False
        self.value: object = None

    def force(self) -> object:
        """Return the value; evaluate it at the first call."""
        machine = self.machine
        if machine is None:
            return self.value
        if self.running:
            raise machine.circular(self)
        active = machine.active
        active.append(self)
        self.running = True
        try:
            value = machine.evaluate(self.expression, self.scope, self.path)
        finally:
            self.running = False
            active.pop()
        self.value = value
        self.machine = self.scope = None
        return value


def force(value: object) -> object:
    """Return a value that may still be a thunk."""
    return value.force() if type(value) is Thunk else value
