"""From a module in LLVM's language to machine code in memory; objects are kept on disk and verified.

LLVM comes as llvmlite, which is imported when something is compiled or loaded. What is compiled here depends on the
processor and on LLVM's version, and on nothing else but the text.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cntk_kit_engines.code_cache import CodeCache, cache_root

MOST_OVERLAP_TESTS = 512
"""Tests, made before a loop over columns, that its operands and results do not overlap. With more of them, the compiler
would not make vector code; a recurrent cell has more than its usual limit of 8."""

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
        cache = kernel_cache()
        whole = f"{compiler.identity}\n{name}\n{identity}"
        code = cache.read(whole)
        if code is None:
            say_compiling(cache.folder)
            code = compiler.compile(write())
            cache.write(whole, code)
        return compiler.load(name, code)


def kernel_cache() -> CodeCache:
    """Return the kernels of this machine that were compiled before, of all wheels."""
    return _kernel_cache(cache_root())


@functools.cache
def _kernel_cache(root: Path | None) -> CodeCache:
    return CodeCache("kernels", root and root / "kernels", title="kernels")


class _Compiler:
    """LLVM for the processor that this process runs on."""

    def __init__(self) -> None:
        import llvmlite
        import llvmlite.binding as llvm

        prepare_llvm()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features()
        text = features.flatten()
        if features.get("avx512f"):
            # Compilers avoid 512 bit on these processors, since it lowers their clock; our products do that anyway.
            text += ",-prefer-256-bit"
        triple, name = llvm.get_process_triple(), llvm.get_host_cpu_name()
        # On x86, code of an object would look for its numbers near itself, where the loader does not always put them.
        relocation = "pic" if triple.startswith(("aarch64", "arm64", "powerpc")) else "default"
        self._llvm: Any = llvm
        # The engine owns the machine that it is given, so that there are two.
        self._target, machine = (
            llvm.Target.from_triple(triple).create_target_machine(
                cpu=name, features=text, opt=3, reloc=relocation, codemodel="jitdefault"
            )
            for _ in range(2)
        )
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._loaded: dict[str, int] = {}
        version = f"llvmlite {llvmlite.__version__}, {MOST_OVERLAP_TESTS}"
        self.identity = f"{version}\n{triple} {name} {hashlib.sha256(text.encode()).hexdigest()}"

    def compile(self, text: str) -> bytes:
        """Return the object of a module."""
        llvm = self._llvm
        module = llvm.parse_assembly(text)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(self._target, options)
        builder.getModulePassManager().run(module, builder)
        code: bytes = self._target.emit_object(module)
        return code

    def load(self, name: str, code: bytes) -> int:
        """Return the address of the function of an object."""
        if name not in self._loaded:
            self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()
            address = int(self._engine.get_function_address(name))
            assert address, f"no function '{name}' in its object"
            self._loaded[name] = address
        return self._loaded[name]


@functools.cache
def _compiler() -> _Compiler:
    return _Compiler()


@functools.cache
def prepare_llvm() -> None:
    """Tell LLVM, for the whole process, how many tests for overlaps a loop is worth; numba, too, obeys."""
    import llvmlite.binding as llvm

    llvm.set_option("cntk_kit_engines", f"-runtime-memory-check-threshold={MOST_OVERLAP_TESTS}")


@functools.cache
def say_compiling(folder: Path | None) -> None:
    """Tell, once for a process, why the start takes a while."""
    kept = f"once; they are kept in {folder}" if folder is not None else "in each run, as they are not kept"
    logger.info("compiling kernels (%s)", kept)
