"""CudaEngine: makes programs, and says what it found on this machine."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import attrs

from cntk_core.api import (
    Available,
    ExecutionEngine,
    ParameterStore,
    Plan,
    TrainingError,
    Unavailable,
    UpdateRule,
    local_rank,
    option,
    options,
)
from cntk_core.api.engines import compiles, kernel_tables
from cntk_engine_cuda.cudnn import Missing, look_for_cudnn, start_cudnn
from cntk_engine_cuda.gpu import Gpu, import_cublas, import_cupy

if TYPE_CHECKING:
    from cntk_engine_cuda.program import CudaProgram

DRIVERS = {12: "525", 13: "580"}
"""The oldest driver for each major version of CUDA."""

INSTALL = 'pip install "cntk-engine-cuda[cuda13]" (driver 580 or later) or "cntk-engine-cuda[cuda12]" (525 or later)'


@options
class CudaOptions:
    """Keys of the recipe that the CUDA engine reads."""

    device_id: str = option(
        default="auto", key="deviceId", doc="number of the GPU; auto gives each rank of a machine another one"
    )
    cuda_graphs: bool = option(
        default=True, doc="run what is the same in every minibatch as one CUDA graph, not kernel by kernel"
    )
    use_cudnn: bool = option(
        default=True,
        key="useCuDNN",
        doc="compute convolutions by cuDNN where it is installed, not as products of matrices",
    )
    allow_tf32: bool = option(
        default=False, key="allowTF32", doc="let cuDNN round the factors of convolutions to 10 bits, for tensor cores"
    )


@attrs.frozen
class Found:
    """What there is on this machine.

    Attributes:
        names: of the GPUs, by number.
        driver, runtime: versions of CUDA, as (major, minor).
        cupy: version of CuPy.
    """

    names: tuple[str, ...]
    driver: tuple[int, int]
    runtime: tuple[int, int]
    cupy: str


def _version(number: int) -> tuple[int, int]:
    return number // 1000, number % 1000 // 10


def look() -> Found | Unavailable:
    """Find out what this machine has. Never raises."""
    if importlib.util.find_spec("cupy") is None:
        return Unavailable("CuPy is not installed.", INSTALL)
    try:
        cupy = import_cupy()
        import_cublas()
        runtime = cupy.cuda.runtime
        driver, library = _version(runtime.driverGetVersion()), _version(runtime.runtimeGetVersion())
    except Exception as error:  # whatever a broken installation raises
        return Unavailable(f"CuPy cannot be used: {error}", INSTALL)
    if driver == (0, 0):
        return Unavailable("there is no NVIDIA driver.", "Install the driver of the GPU; nvidia-smi shows it then.")
    if driver[0] < library[0]:
        need = f"driver {DRIVERS[library[0]]} or later" if library[0] in DRIVERS else "a newer driver"
        return Unavailable(
            f"the driver is too old: it knows CUDA {_show(driver)}, and CuPy {cupy.__version__} is made for CUDA "
            f"{_show(library)}.",
            f'Install {need}, or pip install "cntk-engine-cuda[cuda{driver[0]}]".',
        )
    try:
        names = tuple(
            runtime.getDeviceProperties(number)["name"].decode() for number in range(runtime.getDeviceCount())
        )
    except runtime.CUDARuntimeError as error:
        return Unavailable(f"CUDA finds no GPU: {error}", "CUDA_VISIBLE_DEVICES may hide it.")
    if not names:
        return Unavailable("CUDA finds no GPU.", "CUDA_VISIBLE_DEVICES may hide it.")
    return Found(names, driver, library, str(cupy.__version__))


def _show(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


class CudaEngine(ExecutionEngine):
    """Compiles plans to kernels that are generated for them, cuBLAS products and CUDA graphs."""

    options = CudaOptions
    requires_api = "1.0"
    priority = 20
    settings: CudaOptions

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self._gpu: Gpu | None = None

    @classmethod
    def availability(cls) -> Available | Unavailable:
        """Say which GPUs are here, or what is missing."""
        found = look()
        if isinstance(found, Unavailable):
            return found
        gpus = ", ".join(f"GPU {number}: {name}" for number, name in enumerate(found.names))
        cudnn = look_for_cudnn()
        convolutions = f"no cuDNN: {cudnn.reason}" if isinstance(cudnn, Missing) else f"cuDNN {cudnn}"
        return Available(
            f"{gpus}; CUDA {_show(found.runtime)}, driver for {_show(found.driver)}, CuPy {found.cupy}; {convolutions}"
        )

    @classmethod
    def devices(cls) -> tuple[int, ...]:
        """Numbers of the GPUs."""
        found = look()
        return () if isinstance(found, Unavailable) else tuple(range(len(found.names)))

    @property
    def gpu(self) -> Gpu:
        """The device.

        Raises:
            TrainingError: there is none, or none of the number that ``deviceId`` gives.
        """
        if self._gpu is None:
            found = look()
            if isinstance(found, Unavailable):
                raise TrainingError(f"the CUDA engine cannot run here: {found.reason}", hint=found.hint)
            text = self.settings.device_id.lower()
            # Of several ranks on a machine each takes its own, as far as there are so many.
            automatic = (local_rank() or 0) % len(found.names)
            number = automatic if text == "auto" else int(text) if text.isdigit() else -1
            if not 0 <= number < len(found.names):
                known = ", ".join(map(str, range(len(found.names))))
                raise TrainingError(f"there is no GPU deviceId={self.settings.device_id}", hint=f"There are: {known}.")
            self._gpu = self._start(number)
        return self._gpu

    def _start(self, number: int) -> Gpu:
        gpu = Gpu(number)
        if self.settings.use_cudnn and not isinstance(look_for_cudnn(), Missing):
            with gpu.current():
                cuda, _ = _version(gpu.cupy.cuda.runtime.runtimeGetVersion())
                gpu.cudnn = start_cudnn(gpu.stream, cuda=cuda, allow_tf32=self.settings.allow_tf32)
        return gpu

    @compiles
    def compile(
        self, plan: Plan, store: ParameterStore, rule: UpdateRule | None = None, *, seed: int = 0
    ) -> CudaProgram:
        """Make a program of a plan."""
        # Whether there is a GPU is asked in every run; what it would be programmed with is not needed for that.
        from cntk_engine_cuda.binding import KERNELS
        from cntk_engine_cuda.program import CudaProgram, Settings
        from cntk_engine_cuda.site import OpKernel

        settings = Settings(graphs=self.settings.cuda_graphs, kernels=kernel_tables(self.kernels, KERNELS, OpKernel))
        return CudaProgram(self.gpu, plan, store, rule, settings, seed)
