"""Compiles CUDA kernels for GPUs that need not be there, for tests: what a compiler catches is caught everywhere.

NVRTC is taken from the wheel ``nvidia-cuda-nvrtc-cu12`` (or ``-cu13``) or from the system; without it, nvcc.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from cntk_testing_gpu.cuda_shim import CudaSourceError

ARCHITECTURES = ("sm_80", "sm_90")
"""A100 and H100; what compiles for both compiles for those between."""


def why_not_compile() -> str:
    """Return why kernels cannot be compiled here; empty if they can."""
    if _nvrtc() is not None or shutil.which("nvcc"):
        return ""
    return "there is neither NVRTC (pip install nvidia-cuda-nvrtc-cu12) nor nvcc to compile kernels"


def compile_cuda(source: str, architecture: str, options: Sequence[str] = (), names: Sequence[str] = ()) -> bytes:
    """Compile kernels to the code of a GPU and return it.

    Args:
        source: CUDA C++ without includes.
        architecture: such as ``sm_90``.
        options: more for the compiler (``--fmad=false``).
        names: kernels from templates, such as ``quantize<float>``; others are in the source by themselves.

    Raises:
        CudaSourceError: with what the compiler says, warnings too.
    """
    nvrtc = _nvrtc()
    if nvrtc is None:
        return _with_nvcc(source, architecture, options, names)
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None):
        raise CudaSourceError("NVRTC takes no program")
    try:
        for name in names:
            nvrtc.nvrtcAddNameExpression(program, name.encode())
        given = [f"--gpu-architecture={architecture}".encode(), *(option.encode() for option in options)]
        failed = nvrtc.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
        said = _text(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
        if failed or said:
            raise CudaSourceError(f"{architecture}: {said or f'error {failed}'}")
        return _text(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    room = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, room)
    return room.raw


@cache
def _nvrtc() -> ctypes.CDLL | None:
    """NVRTC of a wheel or of the system; None if there is none."""
    for path in (*_in_wheels(), ctypes.util.find_library("nvrtc")):
        if path is not None:
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
    return None


def _in_wheels() -> list[str]:
    """``nvidia`` is a namespace of all wheels of its libraries: ``cuda_nvrtc`` of CUDA 12, ``cu13`` of CUDA 13."""
    spec = find_spec("nvidia")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or [] if spec is not None else [])]
    return [
        str(path)
        for folder in folders
        for place in ("cuda_nvrtc", "cu13")
        for path in sorted((folder / place / "lib").glob("libnvrtc.so.*"))
        if "alt" not in path.name
    ]


def _with_nvcc(source: str, architecture: str, options: Sequence[str], names: Sequence[str]) -> bytes:
    used = f"void* kernels[] = {{{', '.join(f'(void*){name}' for name in names)}}};" if names else ""
    with tempfile.TemporaryDirectory(prefix="nvcc-") as folder:
        unit, code = Path(folder, "kernels.cu"), Path(folder, "kernels.cubin")
        unit.write_text(f"{source}\n{used}\n", encoding="utf-8")
        command = ["nvcc", "-cubin", f"-arch={architecture}", *options, "-o", str(code), str(unit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode or done.stderr.strip():
            raise CudaSourceError(f"{architecture}: {done.stderr.strip()}")
        return code.read_bytes()
