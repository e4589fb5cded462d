"""A convolution as cuDNN sees it: images of channels, kernels, maps; and the graph of one of its three products."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

if TYPE_CHECKING:
    from cntk_engine_cuda.windows import Windows

LEAST_AXES = 2
"""Axes that cuDNN wants beside samples and channels."""

MOST_AXES = 3
"""Axes that it knows."""


UNWANTED = (
    "NONDETERMINISTIC", "DOWN_CONVERT_INPUTS", "REDUCED_PRECISION_REDUCTION", "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13"
)  # fmt: skip
"""Notes of plans that are never taken: the same step shall give the same bits, and those of the precision."""


class Product(enum.Enum):
    """Which of the three products: its value is what stands in a message."""

    MAPS = "maps"
    IMAGE = "image"
    WEIGHTS = "weights"


class Operand(enum.IntEnum):
    """What takes part; the numbers are the identifiers of tensors in a graph."""

    IMAGE = 1
    WEIGHTS = 2
    MAPS = 3


RESULT = {Product.MAPS: Operand.MAPS, Product.IMAGE: Operand.IMAGE, Product.WEIGHTS: Operand.WEIGHTS}
"""What each product computes from the two others."""


@attrs.frozen
class Correlation:
    """A convolution without turned kernel, channels before the other axes, everything in one piece.

    Attributes:
        image: ``(frames, channels, *sizes)``.
        weights: ``(maps, channels, *kernel)``; with fewer channels than the image there are groups.
        maps: ``(frames, maps, *counts)``.
        strides: from window to window.
        lower, upper: padding before the first and after the last element.
        dtype: precision.
        dilation: distance between the places of a kernel.
    """

    image: tuple[int, ...]
    weights: tuple[int, ...]
    maps: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    dtype: np.dtype[Any]
    dilation: tuple[int, ...] = attrs.field(
        default=attrs.Factory(lambda self: (1,) * len(self.strides), takes_self=True)
    )

    def shape(self, operand: Operand) -> tuple[int, ...]:
        """Shape of what takes part."""
        return {Operand.IMAGE: self.image, Operand.WEIGHTS: self.weights, Operand.MAPS: self.maps}[operand]


@attrs.frozen
class _Axis:
    """One axis: elements, kernel, stride, padding, windows, distance of the kernel's places."""

    size: int
    kernel: int
    stride: int
    lower: int
    count: int
    dilation: int

    @property
    def upper(self) -> int:
        """Padding that the last window needs; below 0, the last elements are left out."""
        reach = (self.kernel - 1) * self.dilation + 1
        return (self.count - 1) * self.stride + reach - self.size - self.lower

    @property
    def whole(self) -> bool:
        """Whether one window covers all of it: then it is summed over, as channels are."""
        return self.kernel == self.size and self.count == 1 and self.lower == 0 == self.upper


_NOTHING = _Axis(1, 1, 1, 0, 1, 1)


def correlation_of(
    windows: Windows, maps: int, frames: int, dtype: np.dtype[Any], groups: int = 1
) -> Correlation | str:
    """The convolution of so many samples; or, if cuDNN has no such windows, why."""
    axes = [_Axis(*numbers) for numbers in zip(*attrs.astuple(windows, recurse=False), strict=True)]
    if any(axis.lower < 0 or axis.upper <= -axis.stride for axis in axes):
        return "its windows leave out elements at the edge"
    first = next((index for index, axis in enumerate(axes) if not axis.whole), len(axes))
    channels = math.prod(axis.size for axis in axes[:first])
    moving = [
        axis for axis in axes[first:] if axis != attrs.evolve(_NOTHING, stride=axis.stride, dilation=axis.dilation)
    ]
    if len(moving) > MOST_AXES:
        return f"its windows move along {len(moving)} axes"
    moving = [_NOTHING] * (LEAST_AXES - len(moving)) + moving
    return Correlation(
        image=(frames, channels, *(axis.size for axis in moving)),
        weights=(maps, channels // groups, *(axis.kernel for axis in moving)),
        maps=(frames, maps, *(axis.count for axis in moving)),
        strides=tuple(axis.stride for axis in moving),
        lower=tuple(axis.lower for axis in moving),
        upper=tuple(max(0, axis.upper) for axis in moving),
        dtype=dtype,
        dilation=tuple(axis.dilation for axis in moving),
    )


def packed(shape: Sequence[int]) -> list[int]:
    """Distances between elements along each axis of an array in one piece, in elements."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def make_graph(cudnn: Any, correlation: Correlation, product: Product, **settings: Any) -> Any:
    """Return the graph of a product, whose tensors have the numbers of :class:`Operand`; no plan is made yet.

    Args:
        cudnn: the module.
        correlation: of what.
        product: which one.
        settings: for the graph: ``handle``, or ``device_property`` where there is no device.
    """
    kind = cudnn.data_type.DOUBLE if correlation.dtype == np.float64 else cudnn.data_type.FLOAT
    graph = cudnn.pygraph(io_data_type=kind, intermediate_data_type=kind, compute_data_type=kind, **settings)

    def given(operand: Operand) -> Any:
        shape = list(correlation.shape(operand))
        return graph.tensor(
            dim=shape, stride=packed(shape), data_type=kind, name=operand.name.lower(), uid=int(operand)
        )

    window = {
        "pre_padding": list(correlation.lower),
        "post_padding": list(correlation.upper),
        "stride": list(correlation.strides),
        "dilation": list(correlation.dilation),
        "compute_data_type": kind,
    }
    if product is Product.MAPS:
        out = graph.conv_fprop(image=given(Operand.IMAGE), weight=given(Operand.WEIGHTS), name="maps", **window)
    elif product is Product.IMAGE:
        out = graph.conv_dgrad(loss=given(Operand.MAPS), filter=given(Operand.WEIGHTS), name="image", **window)
    else:
        out = graph.conv_wgrad(image=given(Operand.IMAGE), loss=given(Operand.MAPS), name="weights", **window)
    result = RESULT[product]
    shape = list(correlation.shape(result))
    # A gradient's dimensions do not follow from those of its operands, so that they are said in every case.
    out.set_output(True).set_uid(int(result)).set_data_type(kind).set_dim(shape).set_stride(packed(shape))
    return graph


def choose_plan(cudnn: Any, graph: Any, *, allow_tf32: bool, workspace: int) -> None:
    """Have a graph's plan chosen and built.

    Only plans that give the same bits every time are taken, and only those that compute in the graph's precision.

    Args:
        cudnn: the module.
        graph: of :func:`make_graph`.
        allow_tf32: whether factors may be rounded for tensor cores.
        workspace: bytes that the plan may use at most.

    Raises:
        Exception: cuDNN has no such plan; which one depends on the reason.
    """
    notes = cudnn.numerical_note
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    # The notes of plans are known when there are plans, not before.
    graph.deselect_numeric_notes([getattr(notes, name) for name in UNWANTED])
    if not allow_tf32:
        graph.deselect_numeric_notes([notes.TENSOR_CORE])
    graph.deselect_workspace_greater_than(workspace)
    graph.check_support()
    graph.build_plans(cudnn.build_plan_policy.HEURISTICS_CHOICE)
