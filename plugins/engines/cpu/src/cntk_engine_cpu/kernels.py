"""From a kernel's spec to something that can be called: compiled by numba and kept on disk, or run by NumPy."""

from __future__ import annotations

import atexit
import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cntk_engine_cpu.evaluate import Evaluator
from cntk_engine_cpu.source import KernelSpec

Kernel = Callable[..., None]

logger = logging.getLogger("cntk.engine")


class NumpyKernel:
    """Runs a spec with NumPy; called as the compiled one."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec

    def __call__(self, rows: int, columns: int, *arguments: Any) -> None:
        """Compute all results, then write them: a result may lie where an operand lies."""
        spec = self.spec
        symbols: dict[str, Any] = {}
        for (name, kind), array in zip(spec.operands, arguments, strict=False):
            symbols[name] = array[:, None] if kind == "col" else array
        rest = arguments[len(spec.operands) :]
        symbols.update(zip(spec.numbers, rest, strict=False))
        targets = self._targets(arguments, rest[len(spec.numbers) :])
        with np.errstate(all="ignore"):
            evaluate = Evaluator(symbols)
            values = [self._reduced(evaluate(result.expression), result.kind, rows, columns) for result in spec.results]
        for result, target, value in zip(spec.results, targets, values, strict=True):
            if result.accumulate:
                np.add(target, value, out=target)
            else:
                np.copyto(target, np.asarray(value, target.dtype))

    def _targets(self, arguments: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        operands = dict(zip((name for name, _ in self.spec.operands), arguments, strict=False))
        own = iter(outputs)
        return [operands[result.into] if result.into else next(own) for result in self.spec.results]

    @staticmethod
    def _reduced(value: Any, kind: str, rows: int, columns: int) -> Any:
        if kind == "full":
            return value
        full = np.broadcast_to(value, (rows, columns))
        axes: Any = {"row": 0, "col": 1, "scalar": None}[kind]
        return full.sum(axis=axes)


class KernelLibrary:
    """Makes kernels of specs: each once for a process, and once for a machine where the cache folder can be written.

    Args:
        compiled: use numba; otherwise NumPy.
    """

    def __init__(self, *, compiled: bool) -> None:
        self.compiled = compiled

    def get(self, spec: KernelSpec, dtype: np.dtype[Any]) -> Kernel:
        """Return the kernel of a spec."""
        return _compile(spec, dtype.name) if self.compiled else NumpyKernel(spec)


@cache
def _compile(spec: KernelSpec, dtype: str) -> Kernel:
    return compile_text(spec.source(dtype), "kernel", spec.signature(dtype))


@cache
def compile_file(path: Path, function: str, dtype: str, signature: str) -> Kernel:
    """Compile a function of a file of this package, which is written for float32, for a precision."""
    text = path.read_text(encoding="utf-8").replace("functions_float32", f"functions_{dtype}")
    return compile_text(text, function, signature)


@cache
def compile_text(text: str, function: str, signature: str) -> Kernel:
    """Compile a function of a module's text, or take it from the disk if it was compiled before.

    The kernel is kept: a loop is bound anew for every number of frames, and reading it from the disk takes as long as
    a minibatch.
    """
    import numba

    _prepare_compiler()
    stamp = hashlib.sha256(
        f"{numba.__version__}\n{MOST_OVERLAP_TESTS}\n{_own_functions()}\n{function} {signature}\n{text}".encode()
    )
    name = f"cntk_kernel_{stamp.hexdigest()[:24]}"
    path = cache_folder() / f"{name}.py"
    if not path.exists():
        say_compiling()
        _write(path, text)
    module_spec = importlib.util.spec_from_file_location(name, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    # A compiled function that comes from the disk looks for its module there.
    sys.modules[name] = module
    module_spec.loader.exec_module(module)
    return jit([signature])(getattr(module, function))


def jit(signatures: list[str]) -> Callable[[Any], Kernel]:
    """The decorator of all compiled kernels: for given types, kept on disk, NaN and infinities respected."""
    from numba import njit

    from cntk_engine_cpu.functions import FAST

    decorate: Callable[[Any], Kernel] = njit(signatures, cache=True, fastmath=FAST, error_model="numpy", nogil=True)
    return decorate


MOST_OVERLAP_TESTS = 512
"""Tests, made before a loop over columns, that its operands and results do not overlap. With more of them, the compiler
would not make vector code; a recurrent cell has more than its usual limit of 8."""


@cache
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


@cache
def say_compiling() -> None:
    """Tell, once for a process, why the start takes a while."""
    logger.info("compiling kernels for this network (once; they are kept in %s)", cache_folder())


@cache
def _own_functions() -> str:
    """What the generated code calls, so that a change there makes new kernels."""
    folder = Path(__file__).parent
    names = ("functions.py", "functions_float32.py", "functions_float64.py")
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


@cache
def cache_folder() -> Path:
    """The folder for compiled kernels: ``$CNTK_CACHE``, else the user's cache folder, else a temporary one."""
    base = os.environ.get("CNTK_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    version = importlib.metadata.version("numba")
    for root in filter(None, [base, os.path.join(home, "cntk")]):
        folder = Path(root) / "kernels" / f"numba-{version}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    temporary = tempfile.mkdtemp(prefix="cntk-kernels-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return Path(temporary)


def _write(path: Path, text: str) -> None:
    """Write under a temporary name first: another process may be doing the same."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)
