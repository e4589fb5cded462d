"""From a module in LLVM's language to machine code in memory; objects are kept on disk and verified.

LLVM comes as llvmlite, whose library is imported when something is compiled, or cannot be loaded without it. What is
compiled here depends on the processor and on LLVM's version, and on nothing else but the text.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cntk_kit_engines.code_cache import CodeCache, cache_root
from cntk_kit_engines.code_generator import PIPELINE, CodeGenerator, host, prepare_llvm
from cntk_kit_engines.object_loader import CannotLoad, load_object, loads_here
from cntk_kit_engines.processor import processor
from cntk_kit_engines.shipped_code import shipped_code

logger = logging.getLogger("cntk.engine")

_lock = threading.RLock()


def can_compile() -> bool:
    """Whether there is a compiler (llvmlite)."""
    return importlib.util.find_spec("llvmlite") is not None


def load_function(name: str, identity: str, write: Callable[[], str]) -> int:
    """Return the address of a function, compiled now or by an earlier process.

    Args:
        name: of the function in the module; no other function of this process has it.
        identity: all that decides about the module's text; versions and the processor need not be named.
        write: gives the module's text in LLVM's language. It is only called where nothing is kept.

    Raises:
        RuntimeError: LLVM does not understand the text.
    """
    with _lock:
        compiler = _compiler()
        # What was shipped comes first, so that sums do not depend on what a machine has kept from earlier runs.
        code = shipped_code().read(f"{name}\n{identity}")
        return compiler.load(name, code if code is not None else _kept_code(compiler, name, identity, write))


def _kept_code(compiler: _Compiler, name: str, identity: str, write: Callable[[], str]) -> bytes:
    """The code that an earlier process has kept, or that is compiled now."""
    cache = kernel_cache()
    whole = f"{compiler.identity}\n{name}\n{identity}"
    code = cache.read(whole)
    if code is None:
        say_compiling(cache.folder)
        code = compiler.compile(write())
        cache.write(whole, code)
    return code


def kernel_cache() -> CodeCache:
    """Return the kernels of this machine that were compiled before, of all wheels."""
    return _kernel_cache(cache_root())


@functools.cache
def _kernel_cache(root: Path | None) -> CodeCache:
    return CodeCache("kernels", root and root / "kernels", title="kernels")


class _Compiler:
    """LLVM for the processor that this process runs on. Its library is imported where it is needed."""

    def __init__(self) -> None:
        import llvmlite

        self._loaded: dict[str, int] = {}
        known = processor()
        whose = host().identity if known is None else known.identity
        self.identity = f"llvmlite {llvmlite.__version__}, {PIPELINE}\n{whose}"

    @functools.cached_property
    def _generator(self) -> CodeGenerator:
        return CodeGenerator(host())

    @functools.cached_property
    def _engine(self) -> Any:
        import llvmlite.binding as llvm

        prepare_llvm()
        return llvm.create_mcjit_compiler(llvm.parse_assembly(""), host().machine())

    def compile(self, text: str) -> bytes:
        """Return the object of a module."""
        return self._generator.compile(text)

    def load(self, name: str, code: bytes) -> int:
        """Return the address of the function of an object."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name, code)
        return self._loaded[name]

    def _load(self, name: str, code: bytes) -> int:
        if loads_here():
            with contextlib.suppress(CannotLoad, OSError):
                return load_object(code, name)
        import llvmlite.binding as llvm

        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        address = int(self._engine.get_function_address(name))
        assert address, f"no function '{name}' in its object"
        return address


@functools.cache
def _compiler() -> _Compiler:
    return _Compiler()


@functools.cache
def say_compiling(folder: Path | None) -> None:
    """Tell, once for a process, why the start takes a while."""
    kept = f"once; they are kept in {folder}" if folder is not None else "in each run, as they are not kept"
    logger.info("compiling kernels (%s)", kept)
