"""Time depthwise convolution, layer normalization and Gelu on the CPU engine beside NumPy and PyTorch, in one run.

    python benchmarks/later_ops.py [--rounds 15] [--json F]

Each is computed forward and backward: the gradients by the data and by all parameters, in single precision. NumPy is
the CPU engine without compiled kernels and oneDNN, that is by the operations' own functions. What is printed is the
minimum CPU time of all threads; the candidates take turns. PyTorch is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from cntk_builder_python import Convolution2D, Graph, LayerNormalization, gelu
from cntk_engine_cpu import CpuEngine
from cntk_engine_cpu.engine import CpuOptions

from cntk_core.api import Minibatch, ParameterStore, StreamData
from cntk_core.api.engines import frame_layout, make_plan


@attrs.frozen
class Case:
    """What is timed: a layer on so many samples of a shape."""

    name: str
    frames: int
    shape: tuple[int, ...]
    layer: Callable[[], Any]


CASES = (
    Case(
        "depthwise 3 x 3, 64 channels", 8, (64, 56, 56), lambda: Convolution2D(3, 64, pad=True, groups=64, bias=False)
    ),
    Case(
        "3 x 3 in 8 groups, 64 channels", 8, (64, 56, 56), lambda: Convolution2D(3, 64, pad=True, groups=8, bias=False)
    ),
    Case(
        "3 x 3 with dilation 2, 64 channels",
        4,
        (64, 56, 56),
        lambda: Convolution2D(3, 64, pad=True, dilation=2, bias=False),
    ),
    Case("layer normalization", 2048, (512,), lambda: LayerNormalization(axes=1)),
    Case("Gelu by the error function", 2048, (2048,), lambda: gelu),
    Case("Gelu by tanh", 2048, (2048,), lambda: lambda x: gelu(x, "tanh")),
)


def ours(case: Case, *, portable: bool) -> Callable[[], None]:
    """Return what computes a case with the CPU engine."""
    graph = Graph(np.float32)
    # The data are a parameter's product, so that they have a gradient.
    scaled = graph.input("x", case.shape) * graph.parameter((1,), init=1.0)
    y = case.layer()(scaled)
    graph.criterion(graph.apply("SumElements", y * y), "sum")
    network = graph.finish()
    plan = make_plan(network, [network["sum"]], network["sum"])
    settings = CpuOptions(num_cpu_threads=1, cpu_kernels="numpy" if portable else "compiled")
    os.environ["CNTK_CPU"] = "numpy" if portable else ""
    program = CpuEngine(settings).compile(plan, ParameterStore(network.parameters, np.float32))
    data = np.random.default_rng(1).normal(size=(case.frames, *case.shape)).astype(np.float32)
    minibatch = Minibatch({"x": StreamData(data, frame_layout(case.frames))}, case.frames)

    def work() -> None:
        program.compute_gradients(minibatch)

    return work


def torch_work(case: Case) -> Callable[[], None]:
    """Return what computes a case with PyTorch."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    layers = {
        "depthwise": lambda: nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False),
        "3 x 3 in": lambda: nn.Conv2d(64, 64, 3, padding=1, groups=8, bias=False),
        "3 x 3 with": lambda: nn.Conv2d(64, 64, 3, padding=2, dilation=2, bias=False),
        "layer": lambda: nn.LayerNorm(case.shape),
        "Gelu by the": nn.GELU,
        "Gelu by tanh": lambda: nn.GELU("tanh"),
    }
    layer = next(make() for start, make in layers.items() if case.name.startswith(start))
    data = torch.randn(case.frames, *case.shape)
    if data.ndim == 4:
        data = data.to(memory_format=torch.channels_last)
    scale = torch.ones(1, requires_grad=True)

    def work() -> None:
        y = layer(data * scale)
        (y * y).sum().backward()

    return work


def best(rounds: int, works: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return the minimum CPU milliseconds of each work; they take turns."""
    for work in works.values():
        work()
    found = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            start = time.process_time()
            work()
            found[name] = min(found[name], 1e3 * (time.process_time() - start))
    return found


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    record = {}
    for case in CASES:
        works = {"ours": ours(case, portable=False), "NumPy": ours(case, portable=True)}
        if importlib.util.find_spec("torch") is not None:
            works["PyTorch"] = torch_work(case)
        record[case.name] = found = best(options.rounds, works)
        print(f"{case.name:36}", "  ".join(f"{name} {value:8.2f} ms" for name, value in found.items()), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
