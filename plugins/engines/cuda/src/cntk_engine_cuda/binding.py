"""Which kernels compute a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cntk_core.api import is_delay
from cntk_core.api.engines import GradientStep, Loop, LoopGradient, Step, makes_axis_by_values
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

FORWARD: Mapping[str, Callable[[Site, Step], list[Call] | None]] = {
    **dict.fromkeys(pairs.PAIRS, pairs.bind_forward),
    **dict.fromkeys(products.NAMES, products.bind_forward),
    **dict.fromkeys(rows.KERNELS, rows.bind_softmax),
    **dict.fromkeys(reductions.ALL, reductions.bind_total),
    **dict.fromkeys(windows.POOLING, windows.bind_pooling),
    "BatchNormalization": normalization.bind_forward,
    "ClassificationError": rows.bind_classification_error,
    "Convolution": convolution.bind_convolution,
    "CrossEntropyWithSoftmax": rows.bind_cross_entropy,
    "DiagTimes": products.bind_diagonal,
    "Dropout": dropout.bind_forward,
    "FutureValue": delays.bind_forward,
    "LegacyReshape": reductions.bind_reshape,
    "LookupTable": sparse.bind_forward,
    "PastValue": delays.bind_forward,
    "ReduceElements": reductions.bind_reduction,
    "Reshape": reductions.bind_reshape,
    "RowRepeat": moves.bind_repeat,
    "RowStack": moves.bind_stack,
    "Slice": moves.bind_slice,
    "SumColumnElements": reductions.bind_reduction,
    "TransposeDimensions": moves.bind_transpose,
}
"""What computes ops that have kernels; None means that these inputs want something else."""

BACKWARD: Mapping[str, Callable[[Site, GradientStep], list[Call] | None]] = {
    **dict.fromkeys(pairs.PAIRS, pairs.bind_gradient),
    **dict.fromkeys(products.NAMES, products.bind_gradient),
    **dict.fromkeys(reductions.ALL, reductions.bind_total_gradient),
    **dict.fromkeys(windows.POOLING, windows.bind_pooling_gradient),
    "BatchNormalization": normalization.bind_gradient,
    "Convolution": convolution.bind_convolution_gradient,
    "CrossEntropyWithSoftmax": rows.bind_cross_entropy_gradient,
    "DiagTimes": products.bind_diagonal_gradient,
    "Dropout": dropout.bind_gradient,
    "FutureValue": delays.bind_gradient,
    "LegacyReshape": reductions.bind_reshape_gradient,
    "LogSoftmax": rows.bind_softmax_gradient,
    "LookupTable": sparse.bind_gradient,
    "PastValue": delays.bind_gradient,
    "ReduceElements": reductions.bind_reduction_gradient,
    "Reshape": reductions.bind_reshape_gradient,
    "RowRepeat": moves.bind_repeat_gradient,
    "RowStack": moves.bind_stack_gradient,
    "Slice": moves.bind_slice_gradient,
    "Softmax": rows.bind_softmax_gradient,
    "SumColumnElements": reductions.bind_reduction_gradient,
    "TransposeDimensions": moves.bind_transpose_gradient,
}


def forward_calls(site: Site, step: Step | Loop) -> list[Call]:
    """The calls that compute a step."""
    if isinstance(step, Loop):
        return loops.bind_forward(site, step, forward_group)
    first = step.nodes[0]
    if makes_axis_by_values(first):
        return fallback.bind_new_axis(site, step)
    if not reaches_open(step):
        if elementwise.is_elementwise(step):
            return elementwise.bind_forward(site, step)
        bind = FORWARD.get(first.op.name)
        found = bind(site, step) if bind is not None else None
        if found is not None:
            return found
    return fallback.bind_forward(site, step)


def gradient_calls(site: Site, step: GradientStep | LoopGradient) -> list[Call]:
    """The calls that compute the gradients of a step."""
    if isinstance(step, LoopGradient):
        return loops.bind_gradient(site, step, gradient_group)
    if not reaches_open(step.step):
        if elementwise.is_elementwise(step.step):
            return elementwise.bind_gradient(site, step)
        bind = BACKWARD.get(step.step.nodes[0].op.name)
        found = bind(site, step) if bind is not None else None
        if found is not None:
            return found
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
