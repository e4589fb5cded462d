"""Functions that numba compiles, kept on disk as :class:`cntk_kit_engines.code_cache.CodeCache` does it.

numba's own cache (``njit(cache=True)``) believes what it finds: an empty file or a flipped bit ends every later run,
and so does a full disk. Needs numba, which is imported when a function is made.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import pickle
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cntk_kit_engines.code_generator import MOST_OVERLAP_TESTS, prepare_llvm
from cntk_kit_engines.machine_code import kernel_cache, say_compiling

logger = logging.getLogger("cntk.engine")


def kept_kernel(*sources: str, text: str = "", **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator, as ``numba.njit``: what it compiles is kept, and verified before it is believed.

    A function must not have variables of a function around it, which nothing here knows of. Functions that are only
    called by compiled ones need ``njit`` alone, since they become part of their callers.

    Made before any other function of a module is given to numba: what the compiler is told about vectors, for the whole
    process, counts from its first function on.

    Args:
        sources: files whose text decides about the compiled code: that of the function (``__file__``), those of
            compiled functions that it calls and of constants that it uses.
        text: all else that decides, as the text of a function that is in no file. Versions, options and the
            processor need not be named.
        options: those of ``njit``.
    """
    from numba import njit

    _prepare_compiler()
    said = [f"{name}={sorted(value) if isinstance(value, set) else value}" for name, value in sorted(options.items())]

    def make(function: Callable[..., Any]) -> Any:
        kernel: Any = njit(**options)(function)
        name = f"{function.__module__}.{function.__qualname__}"
        kernel._cache = VerifiedKernels(sources, "\n".join([", ".join(said), name, text]))
        return kernel

    return make


class VerifiedKernels:
    """What numba asks for kernels that were compiled before, in place of its own cache: for one function.

    Args:
        sources: files that decide about the compiled code.
        identity: all else that does, but for versions and the processor.
    """

    def __init__(self, sources: tuple[str, ...], identity: str) -> None:
        self._sources = sources
        self._identity = identity

    @property
    def cache_path(self) -> str:
        """Where kernels lie."""
        return str(kernel_cache().folder or "")

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return what was compiled for a signature, None if there is nothing to be believed."""
        from numba.core import compiler

        rebuild: Any = compiler.CompileResult._rebuild
        target.refresh()
        identity = self._for(signature, target.codegen())
        code = kernel_cache().read(identity) if identity else None
        if code is None:
            say_compiling(kernel_cache().folder)
            return None
        try:
            return rebuild(target, *pickle.loads(code))
        except Exception as error:
            # It is what was written, and still this numba cannot make use of it.
            kernel_cache().discard(identity, f"cannot be loaded ({type(error).__name__}: {error})")
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for a signature, unless it holds addresses of this process."""
        from numba.core import serialize

        dumps: Any = serialize.dumps
        identity = self._for(signature, compiled.codegen)
        if identity and not compiled.lifted and not compiled.library.has_dynamic_globals:
            kernel_cache().write(identity, dumps(compiled._reduce()))

    def _for(self, signature: Any, codegen: Any) -> str:
        """What the code for a signature was compiled from; empty if that cannot be told."""
        sources = _digest(self._sources)
        lines = [codegen.magic_tuple(), signature, _versions(), sources, self._identity]
        return "\n".join(map(str, lines)) if sources else ""


@functools.cache
def _versions() -> str:
    import llvmlite
    import numba

    python = f"{platform.python_implementation()} {platform.python_version()} {sys.implementation.cache_tag}"
    return f"numba {numba.__version__}, llvmlite {llvmlite.__version__}, {python}, {MOST_OVERLAP_TESTS}"


@functools.cache
def _digest(sources: tuple[str, ...]) -> str:
    """SHA-256 of the SHA-256 of each file; empty if one cannot be read, of which the log is told."""
    try:
        each = b"".join(hashlib.sha256(Path(source).read_bytes()).digest() for source in sources)
    except OSError as error:
        told = "compiled kernels are not kept, each run compiles them anew: '%s' cannot be read: %s"
        logger.warning(told, error.filename, error.strerror)
        return ""
    return hashlib.sha256(each).hexdigest()


@functools.cache
def _prepare_compiler() -> None:
    """Have numba's compiler use the longest vectors, in this process; ``NUMBA_CPU_FEATURES`` of the user stays.

    Whoever compiles first, a reader or an engine: an engine's sums are in another order with other vectors.
    """
    import llvmlite.binding as llvm
    from numba.core import config

    settings: Any = config
    prepare_llvm()
    features = llvm.get_host_cpu_features()
    if features.get("avx512f") and settings.CPU_FEATURES is None:
        # Compilers avoid 512 bit on these processors, since it lowers their clock; our matrix products do that anyway.
        settings.CPU_FEATURES = features.flatten() + ",-prefer-256-bit"
