"""Runs CUDA kernels on the processor, as they are written, for tests where there is no GPU.

The source of the kernels is compiled by a C++ compiler behind ``cuda_shim.h``, which has threads, blocks, shared
memory, barriers and the operations of warps. It is slow and exact. Threads of a block take turns; their order can be
chosen, and races show as different numbers in different orders::

    program = HostCuda(source, ["quantize<float>"])
    program.launch("quantize<float>", grid=8, block=256, arguments=(values, words, np.int64(8)), order="shuffled")

Every array lies between guards, so what a kernel writes beside it is found; what it reads beside it is not a number.
Arithmetic is IEEE's without contraction to fused multiply-adds: what a GPU gives with ``--fmad=false``, but for
functions such as ``expf``.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Order = Literal["forward", "reverse", "shuffled"]

ORDERS: tuple[Order, ...] = ("forward", "reverse", "shuffled")
"""In which order the threads of a block take turns: by number, the other way round, or anew each time."""

GUARD_BYTES = 4096
"""Before and behind every array, of bytes that make numbers not a number."""

_HEADER = Path(__file__).with_name("cuda_shim.h")

_COMMAND = ("g++", "-std=c++20", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-shared", "-w")

_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:__align__\(\s*\w+\s*\)\s+)?(?P<type>[\w:<> ]+?)\s*\b(?P<name>\w+)\s*\[\s*\]\s*;"
)
"""Shared memory whose size the launch gives; C++ has no such declaration."""


class CudaSourceError(Exception):
    """A kernel does not compile, or its threads do what no GPU allows."""


def why_not_on_host() -> str:
    """Return why kernels cannot run on this processor; empty if they can."""
    return "" if shutil.which("g++") else "there is no g++ to compile kernels for the processor"


class HostCuda:
    """Kernels compiled for the processor.

    Args:
        source: CUDA C++ without includes, as for NVRTC.
        kernels: names of those that are launched, with template arguments where they have such.
        defines: macros, by name.

    Raises:
        CudaSourceError: with what the compiler says.
    """

    def __init__(self, source: str, kernels: Sequence[str], defines: dict[str, str] | None = None) -> None:
        self._numbers = {name: number for number, name in enumerate(kernels)}
        unit = _unit(source, kernels, defines or {})
        with tempfile.TemporaryDirectory(prefix="cuda-shim-") as folder:
            self._library = ctypes.CDLL(str(_kept(unit) or _compiled(Path(folder), unit)))

    def launch(
        self,
        kernel: str,
        *,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Array | np.generic],
        shared_bytes: int = 0,
        order: Order = "forward",
        seed: int = 0,
    ) -> None:
        """Run a kernel on arrays, in place.

        Args:
            kernel: one of the names.
            grid, block: up to three sizes.
            arguments: contiguous arrays for pointers; NumPy scalars of the parameters' types.
            shared_bytes: dynamic shared memory.
            order: in which the threads of a block take turns.
            seed: of a shuffled order.

        Raises:
            CudaSourceError: a barrier that not all threads reach, a lane outside its mask, writing beside an array.
        """
        held = [_Held(one) for one in arguments]
        pointers = (ctypes.c_void_p * max(len(held), 1))(*(one.address for one in held))
        sizes = (ctypes.c_uint * 6)(*_three(grid), *_three(block))
        failed = self._library.cuda_shim_launch(
            ctypes.c_int(self._numbers[kernel]),
            pointers,
            sizes,
            ctypes.c_size_t(shared_bytes),
            ctypes.c_int(ORDERS.index(order)),
            ctypes.c_uint64(seed),
        )
        if failed:
            say = self._library.cuda_shim_problem
            say.restype = ctypes.c_char_p
            raise CudaSourceError(f"{kernel}: {say().decode()}")
        for number, one in enumerate(held):
            one.give_back(f"{kernel}: argument {number}")


def _three(size: int | Sequence[int]) -> tuple[int, int, int]:
    given = (size,) if isinstance(size, int) else tuple(size)
    x, y, z = (*given, 1, 1, 1)[:3]
    return x, y, z


class _Held:
    """An argument where the kernel finds it: a scalar, or the address of a guarded copy of an array."""

    def __init__(self, given: Array | np.generic) -> None:
        self._array = given if isinstance(given, np.ndarray) else None
        if self._array is None:
            self._place = np.array(given)
        else:
            if not self._array.flags.c_contiguous:
                raise ValueError("kernels take contiguous arrays")
            self._bytes = np.full(self._array.nbytes + 2 * GUARD_BYTES, 0xFF, np.uint8)
            # Memory of a GPU is aligned to 256 bytes.
            first = GUARD_BYTES - (self._bytes.ctypes.data + GUARD_BYTES) % 256
            self._inside = slice(first, first + self._array.nbytes)
            self._bytes[self._inside] = self._array.reshape(-1).view(np.uint8)
            self._place = np.array(self._bytes.ctypes.data + first, np.uint64)
        self.address = self._place.ctypes.data

    def give_back(self, name: str) -> None:
        """Copy the array back, if the kernel kept to it."""
        if self._array is None:
            return
        guards = np.concatenate([self._bytes[: self._inside.start], self._bytes[self._inside.stop :]])
        touched = np.flatnonzero(guards != 0xFF)
        if touched.size:
            place = int(touched[0]) - self._inside.start
            side = f"{place} bytes behind" if place >= 0 else f"{-place} bytes before"
            raise CudaSourceError(f"{name} was written {side} its {'end' if place >= 0 else 'begin'}")
        self._array.reshape(-1).view(np.uint8)[...] = self._bytes[self._inside]


def _unit(source: str, kernels: Sequence[str], defines: dict[str, str]) -> str:
    """The kernels with what they need, as one unit for the compiler."""
    text = _DYNAMIC.sub(r"\g<type>* \g<name> = reinterpret_cast<\g<type>*>(cuda_shim::dynamic.data());", source)
    cases = "\n".join(
        f"        case {number}: return cuda_shim::run([](void** given) {{ cuda_shim::call({name}, given); }}, "
        "given, sizes, shared, order, seed);"
        for number, name in enumerate(kernels)
    )
    return f"""#include "{_HEADER}"
{"".join(f"#define {name} {value}{chr(10)}" for name, value in defines.items())}
#line 1 "kernels.cu"
{text}
#line 1 "launch"
extern "C" int cuda_shim_launch(
    int number, void** given, const unsigned* sizes, size_t shared, int order, uint64_t seed) {{
    switch (number) {{
{cases}
    }}
    return 1;
}}
extern "C" const char* cuda_shim_problem() {{ return cuda_shim::problem.c_str(); }}
"""


def _kept(unit: str) -> Path | None:
    """The library of a unit in the folder that ``CUDA_STANDIN_CACHE`` names, compiled if it is not there yet."""
    named = os.environ.get("CUDA_STANDIN_CACHE")
    if not named:
        return None
    header = _HEADER.read_text(encoding="utf-8")
    digest = hashlib.sha256("\n".join([*_COMMAND, header, unit]).encode()).hexdigest()[:32]
    library = Path(named) / f"shim-{digest}.so"
    if not library.exists():
        library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            # Another process may be doing the same: a library has its name when it is whole.
            _compiled(Path(folder), unit).rename(library)
    return library


def _compiled(folder: Path, unit: str) -> Path:
    (folder / "kernels.cpp").write_text(unit, encoding="utf-8")
    done = subprocess.run(
        [*_COMMAND, "-o", str(folder / "kernels.so"), str(folder / "kernels.cpp")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode:
        raise CudaSourceError(done.stderr)
    return folder / "kernels.so"
