"""Runs bound calls: as they are at first, later as CUDA graphs, as far as they only put work on the stream."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from cntk_engine_cuda.gpu import Call, Gpu

LEAST = 3
"""Calls that are worth a graph."""

WARM = 2
"""Runs before a graph is made: libraries set themselves up in the first, and sizes that come once need none."""


class Runner:
    """Some calls in order.

    Args:
        gpu: the device.
        calls: what to do.
        graphs: whether CUDA graphs are made.
    """

    def __init__(self, gpu: Gpu, calls: Sequence[Call], *, graphs: bool) -> None:
        groups = [(captured, list(part)) for captured, part in groupby(calls, key=lambda call: call.captured)]
        self._parts = [_Part(gpu, part, graphs=graphs and captured) for captured, part in groups]

    def __call__(self) -> None:
        """Do all of them."""
        for part in self._parts:
            part.run()

    @property
    def graphs(self) -> int:
        """How many graphs there are."""
        return sum(part.graph is not None for part in self._parts)


class _Part:
    def __init__(self, gpu: Gpu, calls: list[Call], *, graphs: bool) -> None:
        self._gpu = gpu
        self._calls = [(call.function, call.arguments) for call in calls]
        self._runs = 0
        self._wanted = graphs and len(calls) >= LEAST
        self.graph: Any = None

    def run(self) -> None:
        """Do it, on the current stream."""
        if self.graph is None and self._wanted and self._runs >= WARM:
            self._capture()
        if self.graph is not None:
            self.graph.launch(stream=self._gpu.stream)
            return
        self._runs += 1
        for function, arguments in self._calls:
            function(*arguments)

    def _capture(self) -> None:
        """Have a graph made of the calls. If that fails they are called as before, and it is told."""
        stream = self._gpu.stream
        self._wanted = False
        stream.begin_capture(self._gpu.cupy.cuda.runtime.streamCaptureModeThreadLocal)
        trouble: Exception | None = None
        try:
            for function, arguments in self._calls:
                function(*arguments)
        except Exception as error:  # whatever refuses to be captured
            trouble = error
        try:
            graph = stream.end_capture()
        except self._gpu.cupy.cuda.runtime.CUDARuntimeError as error:
            trouble = trouble or error
        if trouble is not None:
            warnings.warn(
                f"no CUDA graph could be made, the step runs without: {trouble}", RuntimeWarning, stacklevel=2
            )
            return
        self.graph = graph
