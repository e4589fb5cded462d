"""Compiles recurrent loops: delays, products, element-wise groups, and vectors cut apart and put together.

A slice of a vector is not copied: what reads it reads the columns of the whole vector, and its gradient is written
there. A loop with any other op is left to :mod:`loops`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cntk_core.api.engines import Loop, LoopGradient, delay_rows
from cntk_engine_cpu.compiler import Kernel, compile_file, compile_text
from cntk_engine_cpu.kernels import Bound
from cntk_engine_cpu.loop_backward import BackwardWriter
from cntk_engine_cpu.loop_cells import FIXED
from cntk_engine_cpu.loop_forward import ForwardWriter
from cntk_engine_cpu.loop_source import ARGUMENTS, LoopText
from cntk_engine_cpu.loop_writer import NotCompiled
from cntk_engine_cpu.loops import finish_delays, layout_of, prepare_delays
from cntk_engine_cpu.site import Array, Call, Site

MANY_SLOTS = 12
"""Rows of the first time step from which products are best left to the library alone (:mod:`few_rows`)."""

LETTERS = np.frombuffer(b"NT", np.uint8)
"""What the BLAS wants to know of an operand: taken as it is, or transposed."""

TRANSPOSED_STEPS = 24
TRANSPOSED_SLOTS = 6
"""Time steps, and rows in the first of them, from which weights are transposed once, so that products back in time read
them as they lie. For fewer rows, products with the transpose are as fast."""


def bind_forward(site: Site, loop: Loop) -> Call | None:
    """Return the call that computes a loop; None if it or its gradients cannot be compiled."""
    if not site.kernels.compiled:
        return None
    try:
        _forward(site, loop, few=False)
        for gradient in site.plan.gradients:
            if isinstance(gradient, LoopGradient) and gradient.loop is loop:
                _backward(site, gradient, transposed=False, few=False)
    except NotCompiled:
        return None
    site.interpreted.update(loop.delays)  # their sequences are looked at for each minibatch
    site.compiled_loops.add(loop)
    bound: dict[bool, Callable[[], None]] = {}

    def compute() -> None:
        few = layout_of(site, loop).slots < MANY_SLOTS
        if few not in bound:
            bound[few] = _bind(site, loop, _forward(site, loop, few=few).text, loop.direction)
        prepare_delays(site, loop)
        bound[few]()
        finish_delays(site, loop)

    return Call(compute)


def _forward(site: Site, loop: Loop, *, few: bool) -> ForwardWriter:
    writer = ForwardWriter(site, loop, few=few)
    for step in loop.steps:
        writer.add(step)
    return writer


def _backward(site: Site, step: LoopGradient, *, transposed: bool, few: bool) -> BackwardWriter:
    writer = BackwardWriter(site, step, transposed=transposed, few=few)
    for part in step.steps:
        writer.add(part)
    return writer


def bind_gradient(site: Site, step: LoopGradient) -> Call | None:
    """Return the call that computes the gradients of a loop; None if the loop was not compiled."""
    if step.loop not in site.compiled_loops:
        return None
    bound: dict[tuple[bool, bool], Callable[[], None]] = {}

    def compute() -> None:
        layout = layout_of(site, step.loop)
        few = layout.slots < MANY_SLOTS
        transposed = layout.steps >= TRANSPOSED_STEPS and layout.slots >= TRANSPOSED_SLOTS
        if (transposed, few) not in bound:
            bound[transposed, few] = _bind_backward(site, step, transposed=transposed, few=few)
        bound[transposed, few]()

    return Call(compute)


def _bind_backward(site: Site, step: LoopGradient, *, transposed: bool, few: bool) -> Callable[[], None]:
    writer = _backward(site, step, transposed=transposed, few=few)
    run = _bind(site, step.loop, writer.text, -step.loop.direction)
    clear = [site.gradients[node] for node in step.cleared if node not in writer.slices] + writer.clear
    transpose = transposing_kernel(site) if writer.transposed else None

    def compute() -> None:
        for array in clear:
            array.fill(0)
        if transpose is not None:
            for source, target in writer.transposed:
                transpose(source, target)
        run()

    return compute


def _bind(site: Site, loop: Loop, text: LoopText, direction: int) -> Callable[[], None]:
    """Return the compiled loop, bound to its arrays; it asks for the sequences of the minibatch when it runs."""
    kernel = compile_text(text.source(), "run", site.dtype.name, text.signature())
    nothing = np.empty(0, np.int64)
    before = [
        nothing,
        nothing,
        site.gemm.address(site.dtype),
        LETTERS,
        np.empty(4, np.int32),
        np.arange(2, dtype=site.dtype),
    ]
    before += [nothing] * len(text.shifts)
    bound = Bound(kernel, [*before, *text.arrays, *text.cell_arguments()])
    for place, array in enumerate(text.arrays, start=len(before)):
        site.ports.follow_view(array, functools.partial(bound.put, place))
    for cell in text.cells:
        for place, array in zip(cell.function.places[FIXED:], cell.arrays, strict=True):
            site.ports.follow(array, functools.partial(_move, cell.block, place))
    work = max((array.shape[1] for array in text.arrays if array.ndim == 2), default=1) ** 2

    def run() -> None:
        layout = layout_of(site, loop)
        sources = [delay_rows(layout, shift).source for shift in text.shifts]
        starts, counts = np.array(layout.start[::direction]), np.array(layout.alive[::direction])
        bound.put(0, starts)
        bound.put(1, counts)
        for place, source in enumerate(sources, start=len(ARGUMENTS)):
            bound.put(place, source)
        site.gemm.set_threads(work * layout.slots)
        bound()

    return run


def _move(block: Array, place: int, _array: Array, address: int, offset: int) -> None:
    block[place] = address + offset


def transposing_kernel(site: Site) -> Kernel:
    """Return the function that writes the transpose of a matrix into another."""
    matrix = f"{site.dtype.name}[:, ::1]"
    return compile_file(
        Path(__file__).with_name("loop_functions.py"), "transpose", site.dtype.name, f"void({matrix}, {matrix})"
    )
