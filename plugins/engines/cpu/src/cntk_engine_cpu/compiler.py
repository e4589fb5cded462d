"""Compiles the text of a kernel with numba, or takes it from the disk where it was compiled before."""

from __future__ import annotations

import functools
import hashlib
import logging
import pickle
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cntk_core.api.engines import CodeCache
from cntk_engine_cpu.denormals import denormals_kept

Kernel = Callable[..., None]

logger = logging.getLogger("cntk.engine")

MOST_OVERLAP_TESTS = 512
"""Tests, made before a loop over columns, that its operands and results do not overlap. With more of them, the compiler
would not make vector code; a recurrent cell has more than its usual limit of 8."""


@functools.cache
def kernel_cache() -> CodeCache:
    """The kernels of this machine that were compiled before."""
    return CodeCache("kernels", title="kernels")


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
        _prepare_compiler()
        identity = "\n".join([_surroundings(), f"{function} {signature}", text])
        name = f"cntk_kernel_{hashlib.sha256(identity.encode()).hexdigest()[:24]}"
        # A compiled function that comes from the disk looks for its module there.
        module = sys.modules[name] = ModuleType(name)
        exec(compile(text, f"<{name}>", "exec"), module.__dict__)
        return jit(getattr(module, function), signature, identity)


def jit(function: Any, signature: str, identity: str) -> Kernel:
    """Compile a function for given types as all kernels are: kept on disk, NaN and infinities respected.

    Args:
        function: what is compiled.
        signature: the types of its arguments.
        identity: all that decides about the compiled code, but for the processor.
    """
    from numba import njit

    from cntk_engine_cpu.functions import FAST

    kernel: Any = njit(fastmath=FAST, error_model="numpy", nogil=True)(function)
    # numba's own cache believes what it finds.
    kernel._cache = VerifiedKernels(kernel_cache(), identity)
    kernel.compile(signature)
    kernel.disable_compile()
    compiled: Kernel = kernel
    return compiled


class VerifiedKernels:
    """What numba asks for kernels that were compiled before, in place of its own cache: for one function.

    Args:
        cache: where they lie.
        identity: all that decides about the compiled code, but for the processor.
    """

    def __init__(self, cache: CodeCache, identity: str) -> None:
        self._cache = cache
        self._identity = identity

    @property
    def cache_path(self) -> str:
        """Where kernels lie."""
        return str(self._cache.folder or "")

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return what was compiled for a signature, None if there is nothing to be believed."""
        from numba.core import compiler

        rebuild: Any = compiler.CompileResult._rebuild
        target.refresh()
        identity = self._for(signature, target.codegen())
        code = self._cache.read(identity)
        if code is None:
            say_compiling()
            return None
        try:
            return rebuild(target, *pickle.loads(code))
        except Exception as error:
            # It is what was written, and still this numba cannot make use of it.
            self._cache.discard(identity, f"cannot be loaded ({type(error).__name__}: {error})")
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for a signature, unless it holds addresses of this process."""
        from numba.core import serialize

        dumps: Any = serialize.dumps
        if compiled.lifted or compiled.library.has_dynamic_globals:
            return
        self._cache.write(self._for(signature, compiled.codegen), dumps(compiled._reduce()))

    def _for(self, signature: Any, codegen: Any) -> str:
        return f"{codegen.magic_tuple()}\n{signature}\n{self._identity}"


@functools.cache
def _surroundings() -> str:
    """What decides about compiled code beside its text: versions, options, the functions that kernels call."""
    import llvmlite
    import numba

    folder = Path(__file__).parent
    names = ("functions.py", "functions_float32.py", "functions_float64.py")
    functions = hashlib.sha256(b"".join((folder / name).read_bytes() for name in names)).hexdigest()
    python = f"{platform.python_implementation()} {platform.python_version()} {sys.implementation.cache_tag}"
    return f"numba {numba.__version__}, llvmlite {llvmlite.__version__}, {python}, {MOST_OVERLAP_TESTS}, {functions}"


@functools.cache
def _prepare_compiler() -> None:
    """Have numba's compiler use the longest vectors, in this process; ``NUMBA_CPU_FEATURES`` of the user stays."""
    import llvmlite.binding as llvm
    from numba.core import config

    settings: Any = config
    llvm.set_option("cntk_engine_cpu", f"-runtime-memory-check-threshold={MOST_OVERLAP_TESTS}")
    features = llvm.get_host_cpu_features()
    if features.get("avx512f") and settings.CPU_FEATURES is None:
        # Compilers avoid 512 bit on these processors, since it lowers their clock; our matrix products do that anyway.
        settings.CPU_FEATURES = features.flatten() + ",-prefer-256-bit"


@functools.cache
def say_compiling() -> None:
    """Tell, once for a process, why the start takes a while."""
    folder = kernel_cache().folder
    kept = f"once; they are kept in {folder}" if folder is not None else "in each run, as they are not kept"
    logger.info("compiling kernels for this network (%s)", kept)
