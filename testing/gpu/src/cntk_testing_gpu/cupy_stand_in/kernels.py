"""RawModule and RawKernel of the stand-in: CUDA C is compiled by the C++ compiler of this machine and run here.

What the kernels compute is what they would compute on a GPU, one thread after the other; barriers are kept. Kernels
from templates go through :mod:`cntk_testing_gpu.cuda_shim`, which is slower, and knows more orders of threads.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np

from cntk_testing_gpu.cuda_shim import HostCuda, Order
from cntk_testing_gpu.cupy_stand_in import streams
from cntk_testing_gpu.cupy_stand_in.arrays import ndarray
from cntk_testing_gpu.cupy_stand_in.streams import CudaError, settle

HERE = Path(__file__).parent
COMPILER = shutil.which("g++") or shutil.which("c++")

PLAIN = ("-nostdlib",)
"""Kernels need nothing of C++'s library, and much less time without it."""

HEADER = """
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __CUDA_HOST__ 1
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
struct dim3 { unsigned x, y, z; };
extern "C" {
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
void __syncthreads();
unsigned long long host_exchange(unsigned long long, int);
int host_lane();
#define ONE(n) float n##f(float); double n(double);
ONE(exp) ONE(log) ONE(log1p) ONE(expm1) ONE(sqrt) ONE(tanh) ONE(sin) ONE(cos) ONE(fabs) ONE(floor) ONE(ceil)
ONE(tan) ONE(sinh) ONE(cosh) ONE(asin) ONE(acos) ONE(atan) ONE(asinh) ONE(acosh) ONE(atanh) ONE(erf)
float powf(float, float); double pow(double, double);
float fmaxf(float, float); double fmax(double, double);
float fminf(float, float); double fmin(double, double);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
template <class T> inline T __ldg(const T *p) { return *p; }
template <class T> inline T __shfl_xor_sync(unsigned, T value, int mask, int = 32) {
    unsigned long long bits = 0; __builtin_memcpy(&bits, &value, sizeof value);
    bits = host_exchange(bits, host_lane() ^ mask); __builtin_memcpy(&value, &bits, sizeof value); return value;
}
template <class T> inline T __shfl_down_sync(unsigned, T value, int delta, int = 32) {
    unsigned long long bits = 0; __builtin_memcpy(&bits, &value, sizeof value);
    bits = host_exchange(bits, host_lane() + delta); __builtin_memcpy(&value, &bits, sizeof value); return value;
}
template <class T> inline T atomicAdd(T *p, T v) { T old = *p; *p += v; return old; }
"""

_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\(\d+\)\s*)?(\w+)\s*\(([^)]*)\)\s*\{')


def folder() -> Path:
    """Where compiled kernels are kept from run to run."""
    made = Path(os.environ.get("CUDA_STANDIN_CACHE") or Path(tempfile.gettempdir()) / f"cuda-standin-{os.getuid()}")
    made.mkdir(mode=0o700, parents=True, exist_ok=True)
    return made


def _build(text: str, name: str, command: Sequence[str]) -> Path:
    library = _place(text, name, command)
    if not library.exists():
        _compile(text, command, [library])
    return library


def _place(text: str, name: str, command: Sequence[str]) -> Path:
    """Where what is made of a text is kept."""
    digest = hashlib.sha256("\n".join([*command, text]).encode()).hexdigest()[:32]
    return folder() / f"{name}-{digest}.so"


def _compile(text: str, command: Sequence[str], libraries: Sequence[Path]) -> None:
    """Make a library, under one or more names."""
    with tempfile.TemporaryDirectory(dir=folder()) as scratch:
        source = Path(scratch) / f"source{'.c' if libraries[0].name.startswith('runtime') else '.cpp'}"
        source.write_text(text)
        made = Path(scratch) / "made.so"
        done = subprocess.run(
            [*command, "-o", str(made), str(source), "-lm", "-lc"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CompileException(f"{done.stderr}\n{text}")
        for number, library in enumerate(libraries):
            own = Path(scratch) / str(number)
            os.link(made, own)
            own.rename(library)


class CompileException(Exception):
    """The source is wrong (``cupy.cuda.compiler.CompileException``)."""


@cache
def _runtime() -> Any:
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None
    path = _build((HERE / "host_runtime.c").read_text(), "runtime", [compiler, "-shared", "-fPIC", "-O2"])
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    library.host_launch.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int]
    return library


def _arguments(code: str) -> dict[str, list[str]]:
    """The types of the arguments of each kernel of a source."""
    types = {}
    for name, arguments in _KERNEL.findall(code):
        given = [part.replace("__restrict__", " ").strip() for part in arguments.split(",")]
        types[name] = [re.sub(r"\s+", " ", re.sub(r"\w+$", "", part)).strip() for part in given]
    return types


def _apart(code: str, types: dict[str, list[str]], mark: str) -> str:
    """A source that can stand beside others in one file, with functions that call its kernels by addresses.

    Args:
        code: of the kernels.
        types: of their arguments.
        mark: what tells its names from those of the others.
    """
    calls = ""
    for name, kinds in types.items():
        call = ", ".join(f"*({kind}*)p[{index}]" for index, kind in enumerate(kinds))
        calls += f'\nextern "C" void host_{mark}_{name}(void** p) {{ {name}({call}); }}'
    own = set(_MACRO.findall(code)).difference(_MACRO.findall(HEADER))
    forgotten = "".join(f"\n#undef {name}" for name in sorted(own))
    inside = code.replace('extern "C" __global__', "__global__")
    return f"\nnamespace n{mark} {{\n#line 1\n{inside}{calls}\n}}{forgotten}\n"


class RawModule:
    """Some kernels of one source.

    Attributes:
        order: in which the threads of a block take turns, in kernels from templates.
        prepared: programs of such kernels that are compiled already, by their source; they have every kernel that is
            asked for.
    """

    order: ClassVar[Order] = "forward"
    prepared: ClassVar[dict[str, HostCuda]] = {}

    def __init__(
        self, *, code: str, options: tuple[str, ...] = (), backend: str = "nvrtc", name_expressions: Sequence[str] = ()
    ) -> None:
        assert isinstance(options, tuple), "CuPy wants a tuple of options"
        assert backend == "nvrtc"
        self.code = code
        self._macros = [option for option in options if option.startswith("-D")]
        self._library: Any = None
        self._types: dict[str, list[str]] = {}
        self._exact: HostCuda | None = None
        if name_expressions:
            if "--fmad=false" not in options:
                raise CudaError("the shim rounds products and sums one by one; a GPU does with --fmad=false alone")
            self._exact = self.prepared.get(code) or HostCuda(code, name_expressions)
            return
        self._types = _arguments(code)
        command = [str(COMPILER), "-shared", "-fPIC", "-O0", "-w", "-fno-exceptions", *self._macros, *PLAIN]
        self._command = tuple(command)
        self._place = _place(f"{HEADER}\n{code}", "kernels", command)
        _waiting.add(self)

    def compile(self) -> None:
        """Compile the source, and with it those that wait for it as well: starting a compiler takes most of its time.

        Raises:
            CompileException: the source is wrong.
        """
        with _compiling:
            if self._library is not None:
                return
            _runtime()
            if not self._place.exists():
                others = {each._place: each for each in _waiting if each._command == self._command}
                modules = {place: each for place, each in others.items() if not place.exists()} | {self._place: self}
                try:
                    _compile_together(list(modules.values()))
                except CompileException:
                    if len(modules) == 1:
                        raise
                    _compile_together([self])
            self._library = ctypes.CDLL(str(self._place))
            _waiting.discard(self)

    def address(self, name: str) -> Any:
        """Return where a kernel is, which is compiled when this is first asked."""
        self.compile()
        return ctypes.cast(getattr(self._library, f"host_{self._mark}_{name}"), ctypes.c_void_p)

    @property
    def _mark(self) -> str:
        return self._place.stem.partition("-")[2]

    def get_function(self, name: str) -> Any:
        """Return a kernel by its name."""
        if self._exact is not None:
            return functools.partial(_launch_exactly, self._exact, name)
        if name not in self._types:
            raise AttributeError(f"CUDA_ERROR_NOT_FOUND: named symbol not found: {name}")
        barriers = "__syncthreads" in self.code or "_sync(" in self.code
        known = {name: meaning for meaning, name in re.findall(r"^typedef ([\w ]+) (\w+);", self.code, re.MULTILINE)}
        known["F"] = "double" if "-DUSE_DOUBLE" in self._macros else "float"
        types = [_meaning(kind, known) for kind in self._types[name]]
        return RawKernel(functools.cache(functools.partial(self.address, name)), types, barriers, name)


def _compile_together(modules: Sequence[RawModule]) -> None:
    modules = sorted(modules, key=lambda module: module._place)
    parts = [_apart(module.code, module._types, module._mark) for module in modules]
    _compile(HEADER + "".join(parts), modules[0]._command, [module._place for module in modules])


_waiting: WeakSet[RawModule] = WeakSet()
"""Modules that are not compiled yet."""

_compiling = threading.RLock()


def _launch_exactly(
    program: HostCuda, name: str, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0
) -> None:
    settle()
    given = [one.use() if isinstance(one, ndarray) else one for one in args]
    if not all(isinstance(one, np.ndarray | np.generic) for one in given):
        raise CudaError("kernels take arrays of a device and NumPy's scalars")
    program.launch(name, grid=grid, block=block, arguments=given, shared_bytes=shared_mem, order=RawModule.order)


def _meaning(kind: str, known: dict[str, str]) -> str:
    return re.sub(r"\w+", lambda word: known.get(word.group(), word.group()), kind)


_TYPES: dict[str, Any] = {
    "int": np.int32, "unsigned": np.uint32, "long long": np.int64, "unsigned long long": np.uint64,
    "float": np.float32, "double": np.float64, "unsigned char": np.uint8,
}  # fmt: skip


class RawKernel:
    """One kernel; where it is is found when it is first launched."""

    def __init__(self, find: Callable[[], Any], types: list[str], barriers: bool, name: str) -> None:
        self._find = find
        self._types = types
        self._barriers = barriers
        self._name = name

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...]) -> None:
        """Launch it on the current stream."""
        sizes = [np.array((*part, 1, 1)[:3], np.uint32) for part in (grid, block)]
        assert all(isinstance(size, int) for part in (grid, block) for size in part), "sizes of a launch are integers"
        if any(size <= 0 for part in (grid, block) for size in part) or max(grid[1:], default=1) > 65535:
            raise RuntimeError(f"CUDA_ERROR_INVALID_VALUE: invalid argument: {self._name} {grid} {block}")
        if int(np.prod(sizes[1])) > 1024:
            raise RuntimeError(f"CUDA_ERROR_INVALID_VALUE: too many threads in a block: {self._name} {block}")
        if len(args) != len(self._types):
            raise TypeError(f"{self._name} takes {len(self._types)} arguments, not {len(args)}")
        given = [self._address(kind, value) for kind, value in zip(self._types, args, strict=True)]

        def launch() -> None:
            pointers = (ctypes.c_void_p * max(1, len(given)))(*[holder.ctypes.data for holder in given])
            grid_at, block_at = (part.ctypes.data for part in sizes)
            if _runtime().host_launch(self._find(), pointers, grid_at, block_at, int(self._barriers)):
                raise AssertionError(f"{self._name}: some threads of a block never came to a barrier")

        streams.launch(self._name, launch, given, args)

    def _address(self, kind: str, value: Any) -> Any:
        wanted = _TYPES[kind.replace("const", "").replace("*", "").strip()]
        if "*" in kind:
            if not isinstance(value, ndarray):
                raise TypeError(f"{self._name}: an array was expected for {kind}, not {type(value)}")
            if not value.flags.c_contiguous:
                raise AssertionError(f"{self._name}: an array that is not in one piece")
            if value.dtype != wanted:
                raise AssertionError(f"{self._name}: an array of {value.dtype} for {kind}")
            value.use()
            return np.array([value.data.ptr], np.uint64)
        if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
            # CuPy passes numbers of Python with 8 bytes; a kernel that takes another type gets nonsense.
            value = np.int64(value) if isinstance(value, int) else np.float64(value)
        if type(value) is not wanted:
            raise AssertionError(f"{self._name}: {type(value).__name__} for an argument of type {kind}")
        return np.array([value])
