"""Debugging."""

from __future__ import annotations


def set_checked_mode(enable: bool) -> None:
    """Check more while values are computed; the core always checks shapes and data."""
