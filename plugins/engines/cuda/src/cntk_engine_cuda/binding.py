"""Which kernels compute a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cntk_core.api import Kernel, is_delay
from cntk_core.api.engines import GradientStep, Loop, LoopGradient, Step, kernels, makes_axis_by_values
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
from cntk_engine_cuda.open_arrays import reaches_open
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


def _by_kernel(site: Site, step: Step) -> list[Call] | None:
    """The calls of the first kernel of the step's op that can compute it."""
    (node, *others) = step.nodes
    for kernel in () if others else site.kernels.get(node.op, ()):
        found = kernel.forward(site, step)
        if found is not None:
            site.chosen[node] = kernel
            return _calls(found)
    return None


def _gradient_by_kernel(site: Site, step: GradientStep) -> list[Call] | None:
    """The calls of the kernel that has computed the value; of any if the op's own functions have."""
    (node, *others) = step.step.nodes
    if others:
        return None
    chosen = site.chosen.get(node)
    for kernel in site.kernels.get(node.op, ()) if chosen is None else (chosen,):
        found = kernel.gradient(site, step) if kernel.gradient is not None else None
        if found is not None:
            return _calls(found)
    return None


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
        found = _by_kernel(site, step)
        if found is not None:
            return found
        if elementwise.is_elementwise(step):
            return elementwise.bind_forward(site, step)
    return fallback.bind_forward(site, step)


def gradient_calls(site: Site, step: GradientStep | LoopGradient) -> list[Call]:
    """The calls that compute the gradients of a step."""
    if isinstance(step, LoopGradient):
        return loops.bind_gradient(site, step, gradient_group)
    if not reaches_open(step.step):
        found = _gradient_by_kernel(site, step)
        if found is not None:
            return found
        if elementwise.is_elementwise(step.step):
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
