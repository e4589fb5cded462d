"""The name under which scripts import the original's library itself; it hands on :mod:`cntk.cntk_py`."""

from __future__ import annotations

from cntk import cntk_py

__all__ = [name for name in vars(cntk_py) if not name.startswith("_")]


def __getattr__(name: str) -> object:
    return getattr(cntk_py, name)
