"""Which plans cuDNN makes for convolutions on GPUs that are described to it, none being here; run as a program.

The library chooses and builds plans for a device from its description alone. Where there is no driver, its libraries
still want to load one: then a few functions that only say their version take its place. The program prints, as JSON,
what became of every product of every convolution, and where the frontend is not what the stand-in takes it for. It
ends with status 77 and a reason if it cannot be tried here.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np

NOT_HERE = 77

H200 = {
    "deviceName": "NVIDIA H200", "deviceVer": 900, "multiProcessorCount": 132, "maxSharedMemoryPerBlockOptin": 232448,
    "totalGlobalMem": 150754820096, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "memoryBusWidth": 6144,
    "l2CacheSize": 62914560, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024,
    "oversizedSharedMemoryPerBlock": 0, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "cudaDeviceId": 0,
    "driverVer": 12090, "smCountOrigin": 0,
}  # fmt: skip
A100 = H200 | {
    "deviceName": "NVIDIA A100", "deviceVer": 800, "multiProcessorCount": 108, "maxSharedMemoryPerBlockOptin": 166912,
    "totalGlobalMem": 84987740160, "smClockRateKHz": 1410000, "memClockRateKHz": 1593000, "memoryBusWidth": 5120,
    "l2CacheSize": 41943040,
}  # fmt: skip
DEVICES = {"sm_80": A100, "sm_90": H200}

DRIVER = """
int cuInit(int f) { return 0; }
int cuDriverGetVersion(int *v) { *v = 12090; return 0; }
int cuGetErrorString(int e, const char **s) { *s = "no device"; return 0; }
int cuModuleGetFunction(void) { return 100; }
int cuModuleLoadData(void) { return 100; }
int cuModuleUnload(void) { return 100; }
int cuTensorMapEncodeIm2col(void) { return 100; }
int cuTensorMapEncodeTiled(void) { return 100; }
"""
RUNTIME = """
int cudaGetDevice(int *d) { *d = 0; return 0; }
int cudaRuntimeGetVersion(int *v) { *v = 12090; return 0; }
int cudaDeviceGetAttribute(int *v, int a, int d) { *v = 0; return 0; }
const char *cudaGetErrorString(int e) { return "no device"; }
int cudaGetLastError(void) { return 0; }
int cudaGetDeviceProperties(void *p, int d) { return 0; }
"""


@attrs.frozen
class Form:
    """Windows over samples: what is given of them in the order of memory, channels first."""

    frames: int
    maps: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]


FORMS = {
    "same": Form(16, 64, (32, 28, 28), (32, 3, 3), (1, 1, 1), (0, 1, 1), (0, 1, 1)),
    "first layer of ImageNet": Form(64, 64, (3, 224, 224), (3, 7, 7), (1, 2, 2), (0, 3, 3), (0, 2, 2)),
    "first layer of MNIST": Form(64, 16, (1, 28, 28), (1, 5, 5), (1, 1, 1), (0, 2, 2), (0, 2, 2)),
    "one by one": Form(32, 256, (64, 56, 56), (64, 1, 1), (1, 1, 1), (0, 0, 0), (0, 0, 0)),
    "one by one, strided": Form(32, 256, (64, 56, 56), (64, 1, 1), (1, 2, 2), (0, 0, 0), (0, 0, 0)),
    "the whole sample": Form(32, 1000, (256, 4, 4), (256, 4, 4), (1, 1, 1), (0, 0, 0), (0, 0, 0)),
    "one frame": Form(1, 3, (2, 5, 4), (2, 3, 2), (1, 1, 1), (0, 0, 0), (0, 0, 0)),
    "sizes that are odd": Form(3, 7, (5, 13, 11), (5, 4, 3), (1, 2, 1), (0, 2, 0), (0, 1, 1)),
    "uneven padding": Form(8, 7, (5, 13, 11), (5, 4, 4), (1, 1, 1), (0, 1, 1), (0, 2, 2)),
    "padding wider than the kernel": Form(8, 7, (5, 13, 11), (5, 2, 2), (1, 1, 1), (0, 3, 3), (0, 3, 3)),
    "elements left over": Form(4, 16, (3, 12, 14), (3, 3, 3), (1, 2, 2), (0, 0, 0), (0, 0, 0)),
    "one axis": Form(16, 64, (40, 100), (40, 5), (1, 1), (0, 2), (0, 2)),
    "one axis without channels": Form(16, 64, (101,), (5,), (3,), (2,), (0,)),
    "three axes": Form(4, 16, (8, 10, 12, 14), (8, 3, 3, 3), (1, 1, 1, 1), (0, 1, 1, 1), (0, 1, 1, 1)),
    "three axes, strided": Form(4, 16, (3, 10, 12, 14), (3, 3, 2, 4), (1, 2, 1, 2), (0, 1, 0, 2), (0, 0, 1, 1)),
    "along channels": Form(4, 16, (8, 12, 14), (3, 3, 3), (2, 1, 1), (1, 1, 1), (1, 1, 1)),
}


def _windows(form: Form) -> Any:
    from cntk_engine_cuda.windows import AXES, Windows

    axes = zip(form.sizes, form.kernel, form.strides, form.lower, form.upper, strict=True)
    counts = tuple((size + low + up - width) // step + 1 for size, width, step, low, up in axes)
    parts = (form.sizes, form.kernel, form.strides, form.lower, counts)
    missing = AXES - len(form.sizes)
    return Windows(*((fill,) * missing + part for part, fill in zip(parts, (1, 1, 1, 0, 1), strict=True)))


def plans(cudnn: Any) -> Iterator[dict[str, str]]:
    """What becomes of each product."""
    from cntk_engine_cuda.correlation import Product, choose_plan, correlation_of, make_graph
    from cntk_engine_cuda.cudnn import WORKSPACE

    described = {name: cudnn.create_device_properties(json.dumps(device)) for name, device in DEVICES.items()}
    precisions = (("float32", False), ("float32", True), ("float64", False))
    for name, form in FORMS.items():
        for dtype, allow_tf32 in precisions:
            correlation = correlation_of(_windows(form), form.maps, form.frames, np.dtype(dtype))
            assert not isinstance(correlation, str)
            for device, properties in described.items():
                for product in Product:
                    made = {"form": name, "precision": "TF32" if allow_tf32 else dtype, "device": device}
                    try:
                        graph = make_graph(cudnn, correlation, product, device_property=properties)
                        choose_plan(cudnn, graph, allow_tf32=allow_tf32, workspace=WORKSPACE)
                        size, refused = str(graph.get_workspace_size()), ""
                    except Exception as error:
                        size, refused = "", " ".join(str(error).split())
                    yield made | {"product": product.value, "workspace": size, "refused": refused}


def differences(real: Any) -> Iterator[str]:
    """Where the frontend is not what the stand-in takes it for."""
    import cudnn_standin

    for name in ("create_handle", "set_stream", "backend_version"):
        yield from _different(name, getattr(cudnn_standin, name), getattr(real, name, None))
    for name in ("data_type", "heur_mode", "numerical_note", "build_plan_policy"):
        theirs = getattr(real, name)
        yield from (f"{name}.{each.name}" for each in getattr(cudnn_standin, name) if not hasattr(theirs, each.name))
    for ours, theirs in ((cudnn_standin.pygraph, real.pygraph), (cudnn_standin.Tensor, getattr(real, "Tensor", None))):
        for name, function in vars(ours).items():
            if inspect.isfunction(function) and theirs is not None and not name.startswith("_"):
                yield from _different(f"{ours.__name__}.{name}", function, getattr(theirs, name, None))
    yield from _different("pygraph", cudnn_standin.pygraph.__init__, real.pygraph.__init__)
    if not issubclass(real.cudnnGraphNotSupportedError, Exception):
        yield "cudnnGraphNotSupportedError"


def _different(name: str, ours: Any, theirs: Any) -> Iterator[str]:
    if theirs is None:
        yield f"{name} is missing"
        return
    try:
        known = inspect.signature(theirs).parameters
    except (TypeError, ValueError):  # of compiled functions the text alone tells the arguments
        known = {}
    if not known or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values()):
        return
    for each, parameter in inspect.signature(ours).parameters.items():
        if each not in known and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            yield f"{name} has no argument {each}"


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _with_stubs() -> None:
    """Begin again with libraries in the place of those of a driver that is missing."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        _leave("there is no driver, and no compiler to make something in its place")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("libcuda.so.1", DRIVER), ("libcudart.so.12", RUNTIME)):
            source = Path(folder) / f"{name}.c"
            source.write_text(text)
            command = [str(compiler), "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", "-o", str(Path(folder) / name)]
            subprocess.run([*command, str(source)], check=True)
        found = os.environ.get("LD_LIBRARY_PATH", "")
        environment = os.environ | {
            "LD_LIBRARY_PATH": f"{folder}:{found}",
            "CUDNN_FRONTEND_CUDART_LIB_NAME": "libcudart.so.12",
            "CNTK_CUDNN_STUBS": folder,
        }
        raise SystemExit(subprocess.run([sys.executable, __file__], env=environment, check=False).returncode)


def _leave(reason: str) -> None:
    print(reason)
    raise SystemExit(NOT_HERE)


def main() -> None:
    """Print what was found."""
    if importlib.util.find_spec("cudnn") is None:
        _leave("cuDNN's Python frontend is not installed")
    if "CNTK_CUDNN_STUBS" not in os.environ and not _loads("libcuda.so.1"):
        _with_stubs()
    import cudnn

    try:
        version = cudnn.backend_version_string()
    except Exception as error:
        _leave(f"cuDNN cannot be used: {error}")
    found = {"version": version, "differences": list(differences(cudnn)), "plans": list(plans(cudnn))}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
