"""Sizes of dimensions, of which some are known only with the data: those are negative."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def are_free(sizes: Iterable[Any]) -> bool:
    """Whether one of some sizes is known only with the data."""
    return any(size < 0 for size in sizes)
