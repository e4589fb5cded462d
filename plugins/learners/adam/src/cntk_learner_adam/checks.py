"""Checks of option values. The names in messages are replaced by those of the recipe."""

from __future__ import annotations

import math
from typing import Any

import attrs


def is_share(instance: Any, field: attrs.Attribute[Any], value: float | None) -> None:
    """Raise ValueError unless a number is in [0, 1); None is fine."""
    if value is not None and not 0.0 <= value < 1.0:
        raise ValueError(f"'{field.name}' must be in [0, 1), not {value:g}")


def is_positive(instance: Any, field: attrs.Attribute[Any], value: float) -> None:
    """Raise ValueError unless a number is more than 0."""
    if not 0.0 < value < math.inf:
        raise ValueError(f"'{field.name}' must be more than 0, not {value:g}")


def is_not_negative(instance: Any, field: attrs.Attribute[Any], value: float) -> None:
    """Raise ValueError if a number is negative."""
    if not 0.0 <= value < math.inf:
        raise ValueError(f"'{field.name}' must not be negative, not {value:g}")
