"""What a step puts on the device, counted when it is bound: launches, blocks, threads, and numbers that are touched.

Blocks that are too many or too few, and kernels that could have been one, change no result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import SimpleNamespace
from typing import Any

import attrs
from cntk_engine_cuda import CudaEngine, bound
from cntk_engine_cuda.gpu import Gpu

from cntk_core.api import Minibatch
from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.networks import Sample


@attrs.define
class Launches:
    """Of the calls of one run.

    Attributes:
        launches: of kernels.
        blocks, threads: of all grids, and of one block of each.
        packed: kernels whose threads take several numbers at once.
        numbers: elements of the arrays that kernels are given.
        others: calls of libraries, copies, what the host does.
        alone: those that cannot be part of a graph.
    """

    launches: int = 0
    blocks: int = 0
    threads: int = 0
    packed: int = 0
    numbers: int = 0
    others: int = 0
    alone: int = 0

    def add(self, call: Any) -> None:
        """Count a call."""
        self.alone += not call.captured
        if not isinstance(call.function, SimpleNamespace):
            self.others += 1
            return
        grid, block, arguments = call.arguments
        self.launches += 1
        self.blocks += prod(grid)
        self.threads += prod(block)
        self.packed += call.function.packed
        self.numbers += sum(int(one.size) for one in arguments if getattr(one, "shape", ()))

    def __str__(self) -> str:
        return " ".join(map(str, attrs.astuple(self)))


def texts_of(monkeypatch: Any, sample: Sample, minibatches: Sequence[Minibatch]) -> list[set[str]]:
    """Return the texts of the kernels that each minibatch, one after the other, adds to those before."""
    seen: set[str] = set()
    found: list[set[str]] = []

    def kernel(gpu: Gpu, spec: Any, dtype: Any) -> Any:
        if spec.text not in seen:
            seen.add(spec.text)
            found[-1].add(spec.text)
        return SimpleNamespace()

    monkeypatch.setattr(bound.Runner, "__call__", lambda runner: None)
    monkeypatch.setattr(Gpu, "kernel", kernel)
    monkeypatch.setattr(Gpu, "of_text", lambda gpu, text, name, dtype: SimpleNamespace())
    engine = CudaEngine()
    engine.gpu.processors = 4
    run = start(engine, sample, rule=MOMENTUM)
    for data in minibatches:
        found.append(set())
        run.program.train_step(data, run.scalars(MOMENTUM))
    return found


def count_launches(
    monkeypatch: Any, sample: Sample, minibatch: Callable[[Sample], Minibatch], *, processors: int = 4
) -> str:
    """Bind a training step and count what it would do; nothing is compiled, and nothing runs.

    An evaluation comes first; without a criterion there is nothing else.
    """
    found: list[Launches] = []

    class Counted:
        def __init__(self, gpu: Gpu, calls: Any, *, graphs: bool) -> None:
            found.append(Launches())
            for call in calls:
                found[-1].add(call)

        def __call__(self) -> None:
            """Nothing runs."""

    def kernel(gpu: Gpu, spec: Any, dtype: Any) -> Any:
        return SimpleNamespace(packed=getattr(spec, "packed", False))

    monkeypatch.setattr(bound, "Runner", Counted)
    monkeypatch.setattr(Gpu, "kernel", kernel)
    monkeypatch.setattr(Gpu, "of_text", lambda gpu, text, name, dtype: SimpleNamespace(packed=False))
    engine = CudaEngine()
    engine.gpu.processors = processors
    run = start(engine, sample, rule=MOMENTUM)
    data = minibatch(sample)
    run.program.evaluate(data)
    if sample.criterion is not None:
        run.program.train_step(data, run.scalars(MOMENTUM))
    return " | ".join(map(str, found))
