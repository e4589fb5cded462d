"""The name under which the original has its helpers for debugging; they are in :mod:`cntk.debugging`."""

from __future__ import annotations

from cntk.debugging import *  # noqa: F403
