"""Which kernels compute a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cntk_core.api import Kernel, is_delay
from cntk_core.api.engines import (
    GradientStep,
    Loop,
    LoopGradient,
    Step,
    ask_kernels,
    ask_kernels_for_gradient,
    is_elementwise,
    kernels,
    makes_axis_by_values,
    reaches_open,
)
from cntk_engine_cuda import (
    convolution,
    delays,
    dropout,
    elementwise,
    fallback,
    loops,
    moves,
    normalization,
    pairs,
    products,
    reductions,
    rows,
    slices,
    sparse,
    windows,
)
from cntk_engine_cuda.gpu import Call
from cntk_engine_cuda.site import Site

KERNELS: tuple[Kernel, ...] = (
    *pairs.KERNELS,
    *products.KERNELS,
    *rows.KERNELS,
    *reductions.KERNELS,
    *windows.KERNELS,
    *kernels("cuda", ["BatchNormalization"], normalization.bind_forward, normalization.bind_gradient),
    *kernels("cuda", ["Convolution"], convolution.bind_convolution, convolution.bind_convolution_gradient),
    *kernels("cuda", ["Dropout"], dropout.bind_forward, dropout.bind_gradient),
    *kernels("cuda", ["FutureValue", "PastValue"], delays.bind_forward, delays.bind_gradient),
    *kernels("cuda", ["LookupTable"], sparse.bind_forward, sparse.bind_gradient),
    *kernels("cuda", ["RowRepeat"], moves.bind_repeat, moves.bind_repeat_gradient),
    *kernels("cuda", ["RowStack"], moves.bind_stack, moves.bind_stack_gradient),
    *kernels("cuda", ["Slice"], moves.bind_slice, moves.bind_slice_gradient),
    *kernels("cuda", ["TransposeDimensions"], moves.bind_transpose, moves.bind_transpose_gradient),
)
"""The engine's own kernels: ``(site, step) -> calls``, None if these inputs want something else."""


def _calls(found: Call | Callable[[], None] | Sequence[Call | Callable[[], None]]) -> list[Call]:
    """What a kernel gives, as calls. Of a plain function nothing is known, so that it is never part of a graph."""
    several = found if isinstance(found, Sequence) else (found,)
    return [each if isinstance(each, Call) else Call(each, captured=False) for each in several]


def forward_calls(site: Site, step: Step | Loop) -> list[Call]:
    """The calls that compute a step."""
    if isinstance(step, Loop):
        return loops.bind_forward(site, step, forward_group)
    if makes_axis_by_values(step.nodes[0]):
        return fallback.bind_new_axis(site, step)
    if not reaches_open(step):
        found = ask_kernels(step, site.kernels, site.chosen, lambda kernel: kernel.forward(site, step))
        if found is not None:
            return _calls(found)
        if is_elementwise(step):
            return elementwise.bind_forward(site, step)
    return fallback.bind_forward(site, step)


def gradient_calls(site: Site, step: GradientStep | LoopGradient) -> list[Call]:
    """The calls that compute the gradients of a step."""
    if isinstance(step, LoopGradient):
        return loops.bind_gradient(site, step, gradient_group)
    if not reaches_open(step.step):
        found = ask_kernels_for_gradient(
            step, site.kernels, site.chosen, lambda kernel: kernel.gradient and kernel.gradient(site, step)
        )
        if found is not None:
            return _calls(found)
        if is_elementwise(step.step):
            return elementwise.bind_gradient(site, step)
    return fallback.bind_gradient(site, step)


def forward_group(site: Site, group: slices.Group) -> list[Call]:
    """The calls that compute steps that are bound together."""
    found = slices.bind_forward(site, group) if len(group) > 1 else None
    return found if found is not None else [call for step in group for call in forward_calls(site, step)]


def gradient_group(site: Site, group: slices.Group) -> list[Call]:
    """The calls that compute the gradients of steps that are bound together."""
    return slices.bind_gradient(site, group) if len(group) > 1 else gradient_calls(site, group[0])


def has_delays(step: Step | Loop) -> bool:
    """Whether the code of a step depends on where its sequences stand."""
    return isinstance(step, Loop) or is_delay(step.nodes[0])
