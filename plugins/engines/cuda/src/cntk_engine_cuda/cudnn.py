"""cuDNN through its Python frontend: whether it is here, and plans that are made once for each shape."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import warnings
from collections import OrderedDict
from typing import Any

import attrs

from cntk_core.api import TrainingError
from cntk_engine_cuda.correlation import RESULT, Correlation, Operand, Product, choose_plan, make_graph
from cntk_engine_cuda.gpu import Array

OLDEST = 91100
"""The oldest cuDNN that was looked at: 9.11."""

RUNTIME = "CUDNN_FRONTEND_CUDART_LIB_NAME"
"""The environment variable in which the frontend finds the name of the runtime library."""

REMEMBERED = 2048
"""Plans that are kept: three for each layer and number of samples; an octave of numbers has 16."""

WORKSPACE = 1 << 29
"""Bytes that a plan may use while it computes."""

ALIGNMENT = 16
"""Bytes of which the places of operands are multiples; the frontend promises it to cuDNN."""


@attrs.frozen
class Missing:
    """Why there is no cuDNN.

    Attributes:
        reason: a clause.
    """

    reason: str


def import_cudnn() -> Any:
    """Return the module ``cudnn``. Raises whatever a broken installation raises."""
    return importlib.import_module("cudnn")


def look_for_cudnn() -> str | Missing:
    """Find out which cuDNN there is: its version and the frontend's. Never raises."""
    if importlib.util.find_spec("cudnn") is None:
        return Missing("its Python frontend is not installed")
    try:
        cudnn = import_cudnn()
        number = int(cudnn.backend_version())
        known = [hasattr(cudnn, name) for name in ("pygraph", "numerical_note", "heur_mode", "create_handle")]
    except Exception as error:  # whatever a broken installation raises
        return Missing(f"it cannot be used: {error}")
    if not all(known):
        return Missing(f"the module {getattr(cudnn, '__file__', 'cudnn')} is not NVIDIA's frontend")
    version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    if number < OLDEST:
        return Missing(f"it is {version}, and 9.11 is the oldest that does")
    return f"{version} (frontend {cudnn.__version__})"


class Plan:
    """A product that cuDNN has made ready for one shape.

    Attributes:
        workspace: bytes that it uses while it computes.
    """

    def __init__(self, graph: Any, handle: Any, product: Product) -> None:
        self._graph = graph
        self._handle = handle
        self._operands = [operand for operand in Operand if operand is not RESULT[product]] + [RESULT[product]]
        self.workspace = int(graph.get_workspace_size())

    def run(self, first: Array, second: Array, result: Array, workspace: Array) -> None:
        """Compute the result from the two others, which come in the order of :class:`Operand`.

        Raises:
            TrainingError: cuDNN reports an error.
        """
        arrays = dict(zip(self._operands, (first, second, result), strict=True))
        pack = {int(operand): int(array.data.ptr) for operand, array in arrays.items()}
        try:
            self._graph.execute(pack, int(workspace.data.ptr), handle=self._handle)
        except Exception as error:  # of the frontend or of the library
            raise TrainingError(
                f"cuDNN could not compute a convolution: {error}", hint="useCuDNN = false computes it without cuDNN."
            ) from error


def load_runtime(cuda: int) -> None:
    """Load the runtime library of a version of CUDA, and have the frontend take it.

    The frontend looks for it by name, but CuPy has it inside, so that nobody has loaded the one that lies beside
    CuPy's other libraries; and where there are those of two versions, the frontend takes the older.
    """
    with contextlib.suppress(Exception):  # it comes with CuPy, and knows where pip and conda put libraries
        importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib("cudart")
    name = f"libcudart.so.{cuda}"
    with contextlib.suppress(OSError):
        ctypes.CDLL(name)
        os.environ.setdefault(RUNTIME, name)


def start_cudnn(stream: Any, *, cuda: int, allow_tf32: bool) -> Cudnn | None:
    """Return cuDNN on the present device. If it does not start, it is told, and convolutions are done without.

    Args:
        stream: everything is computed there.
        cuda: major version of CuPy's CUDA.
        allow_tf32: whether factors may be rounded for tensor cores.
    """
    load_runtime(cuda)
    try:
        return Cudnn(stream, allow_tf32=allow_tf32)
    except Exception as error:  # whatever a library says that does not go with driver or device
        warnings.warn(f"convolutions are computed without cuDNN: {error}", RuntimeWarning, stacklevel=2)
        return None


class Cudnn:
    """cuDNN on one device.

    Args:
        stream: everything is computed there.
        allow_tf32: whether factors may be rounded for tensor cores.

    Raises:
        Exception: it cannot be started.
    """

    def __init__(self, stream: Any, *, allow_tf32: bool = False) -> None:
        self._module = import_cudnn()
        self._allow_tf32 = allow_tf32
        self._handle = self._module.create_handle()
        self._module.set_stream(self._handle, int(stream.ptr))
        self._plans: OrderedDict[tuple[Correlation, Product], Plan | Missing] = OrderedDict()

    def plan(self, correlation: Correlation, product: Product) -> Plan | Missing:
        """Return the plan for a product, or why there is none. No stream is captured meanwhile."""
        key = correlation, product
        if key not in self._plans:
            self._plans[key] = self._make(correlation, product)
            if len(self._plans) > REMEMBERED:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        return self._plans[key]

    def _make(self, correlation: Correlation, product: Product) -> Plan | Missing:
        try:
            graph = make_graph(self._module, correlation, product, handle=self._handle)
            choose_plan(self._module, graph, allow_tf32=self._allow_tf32, workspace=WORKSPACE)
            return Plan(graph, self._handle, product)
        except Exception as error:  # it says in many ways that it has no such plan
            return Missing(f"cuDNN refuses it: {' '.join(str(error).split())}")
