"""What is raised: the original's exceptions are of two types, and scripts catch either."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cntk_core.api import CntkError, Problems


class GraphError(ValueError, RuntimeError):
    """Something does not fit: a shape, an axis, an argument, data."""


@contextmanager
def told() -> Iterator[None]:
    """Raise the core's errors as :class:`GraphError`."""
    try:
        yield
    except Problems as error:
        raise GraphError("\n".join(map(_text, error.errors))) from None
    except CntkError as error:
        raise GraphError(_text(error)) from None


def _text(error: CntkError) -> str:
    return f"{error.message}\n{error.hint}" if error.hint else error.message
