"""Compiles the text of a kernel with numba, or takes it from the disk where it was compiled before."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cntk_core.api.engines import kept_kernel
from cntk_engine_cpu.denormals import denormals_kept

Kernel = Callable[..., None]

FAST = {"reassoc", "nsz", "contract", "arcp"}
"""Liberties that keep NaN and infinities as they are."""

CALLED = tuple(
    str(Path(__file__).with_name(name)) for name in ("functions.py", "functions_float32.py", "functions_float64.py")
)
"""Files of the functions that kernels call."""


@functools.cache
def compile_file(path: Path, function: str, dtype: str, signature: str) -> Kernel:
    """Compile a function of a file of this package, which is written for float32, for a precision."""
    text = path.read_text(encoding="utf-8").replace("functions_float32", f"functions_{dtype}")
    return compile_text(text, function, signature)


@functools.cache
def compile_text(text: str, function: str, signature: str) -> Kernel:
    """Compile a function of a module's text, or take it from the disk if it was compiled before.

    The kernel is kept: a loop is bound anew for every number of frames, and reading it from the disk takes as long as
    a minibatch.
    """
    # A loop is compiled in the middle of its first step.
    with denormals_kept():
        identity = "\n".join([function, signature, text])
        name = f"cntk_kernel_{hashlib.sha256(identity.encode()).hexdigest()[:24]}"
        # A compiled function that comes from the disk looks for its module there.
        module = sys.modules[name] = ModuleType(name)
        # Before the text imports functions, which are given to numba: see there.
        kept = kept_kernel(*CALLED, text=identity, fastmath=FAST, error_model="numpy", nogil=True)
        exec(compile(text, f"<{name}>", "exec"), module.__dict__)
        kernel: Any = kept(getattr(module, function))
        kernel.compile(signature)
        kernel.disable_compile()
        compiled: Kernel = kernel
        return compiled
