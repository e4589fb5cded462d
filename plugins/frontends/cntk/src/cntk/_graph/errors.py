"""What is raised: the original's exceptions are of two types, and scripts catch either."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from cntk_core.api import CntkError, Problems


class GraphError(ValueError, RuntimeError):
    """Something does not fit: a shape, an axis, an argument, data."""


class _Told:
    """Raises the core's errors as :class:`GraphError`; a class of its own, since each minibatch goes through here."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise what was raised, if it is the core's."""
        if isinstance(error, Problems):
            raise GraphError("\n".join(map(_text, error.errors))) from None
        if isinstance(error, CntkError):
            raise GraphError(_text(error)) from None


_TOLD = _Told()


def told() -> AbstractContextManager[None]:
    """Return what raises the core's errors as :class:`GraphError`."""
    return _TOLD


def _text(error: CntkError) -> str:
    return f"{error.message}\n{error.hint}" if error.hint else error.message
