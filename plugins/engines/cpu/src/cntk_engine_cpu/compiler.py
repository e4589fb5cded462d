"""Compiles the text of a kernel, or takes it from the disk where it was compiled before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from cntk_core.api.engines import Native, native_function
from cntk_engine_cpu.denormals import denormals_kept

Kernel = Callable[..., None]
"""Called with numbers and arrays: a compiled function, or one of NumPy."""

CALLED = ("functions_{dtype}.py", "functions.py")
"""Files of the functions that kernels call."""


@functools.cache
def compile_file(path: Path, function: str, dtype: str, signature: str) -> Native:
    """Compile a function of a file of this package, which may be written for any precision."""
    return compile_text(path.read_text(encoding="utf-8"), function, dtype, signature)


def compile_text(text: str, function: str, dtype: str, signature: str) -> Native:
    """Compile a function of a module's text, or take it from the disk if it was compiled before.

    It may call the functions of :mod:`functions` and of those of its precision, ``dtype``.
    """
    # A loop is compiled in the middle of its first step.
    with denormals_kept():
        return native_function(text, function, signature, _library(dtype))


@functools.cache
def _library(dtype: str) -> tuple[str, ...]:
    folder = Path(__file__).parent
    return tuple((folder / name.format(dtype=dtype)).read_text(encoding="utf-8") for name in CALLED)
