"""The profiler of the original: here times are measured by ``cntk explain --time``."""

from __future__ import annotations

import warnings

_TEXT = "there is no profile of a program; `cntk explain --time` measures the steps of a recipe or a saved model"


def start_profiler(dir: str = "profiler", sync_gpu: bool = True, reserve_mem: int = 32 * 1024 * 1024) -> None:
    """Say where times are found."""
    warnings.warn(_TEXT, UserWarning, stacklevel=2)


def stop_profiler() -> None:
    """Do nothing."""


def enable_profiler() -> None:
    """Do nothing."""


def disable_profiler() -> None:
    """Do nothing."""
