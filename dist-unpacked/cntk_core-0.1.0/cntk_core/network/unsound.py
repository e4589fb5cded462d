"""How a file is refused that can be read, but describes no sound network."""

from __future__ import annotations

from pathlib import Path

from cntk_core.errors import CntkError, ModelFormatError, Problems

_SHOWN = 300
"""Longest message of the network's own checks that is passed on: a hostile file can make them very long."""


def unsound(path: Path, error: CntkError) -> ModelFormatError:
    """Return what is raised for a file instead of what the network says of its contents."""
    first = error.errors[0] if isinstance(error, Problems) else error
    message = first.message
    if len(message) > _SHOWN:
        message = f"{message[: _SHOWN // 2]} ... {message[-_SHOWN // 2 :]}"
    return ModelFormatError(f"'{path}' holds no sound network: {message}")
