"""The two pluggy markers of the project."""

from __future__ import annotations

import pluggy

PROJECT = "cntk"
"""Project name of the markers: an implementation is known by its attribute ``cntk_impl``."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function or method that implements a hook of the same name."""
