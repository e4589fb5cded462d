"""Convolutions and poolings."""

from __future__ import annotations

from typing import Any

from cntk.axis import Axis
from cntk.default_options import default_override_or
from cntk.initializer import glorot_uniform
from cntk.layers._options import as_tuple, first_values, optional, padded_to
from cntk.layers.blocks import identity
from cntk.ops import (
    AVG_POOLING,
    MAX_POOLING,
    convolution,
    convolution_transpose,
    expand_dims,
    pooling,
    reshape,
    sequence,
    splice,
    unpooling,
)
from cntk.ops.functions import BlockFunction, Function
from cntk.variables import INFERRED, UNKNOWN, Parameter

_NO = default_override_or(False)
_YES = default_override_or(True)
_ZERO = default_override_or(0)
_PLAIN = default_override_or(identity)
_GLOROT = default_override_or(glorot_uniform())


@optional
def Convolution(
    filter_shape: Any,
    num_filters: Any = None,
    sequential: bool = False,
    activation: Any = _PLAIN,
    init: Any = _GLOROT,
    pad: Any = _NO,
    strides: Any = 1,
    sharing: bool = True,
    bias: Any = _YES,
    init_bias: Any = _ZERO,
    reduction_rank: int = 1,
    transpose_weight: bool = False,
    dilation: Any = 1,
    groups: int = 1,
    max_temp_mem_size_in_samples: int = 0,
    op_name: str = "Convolution",
    name: str = "",
) -> Function:
    """A convolution with learned kernels.

    Args:
        filter_shape: of a kernel; with ``sequential`` its first axis is along sequences.
        num_filters: how many maps; None is one, without an axis for it.
        sequential: the first axis of the kernel is along sequences.
        activation: applied to the result.
        init: how kernels start.
        pad: zeros around, so that the size stays; for all axes, or one value for each.
        strides: steps of the kernel.
        sharing: has to be True: kernels are the same everywhere.
        bias: whether there is a number for each map.
        init_bias: how these start.
        reduction_rank: 0 has images without channels.
        transpose_weight: has to be False; :func:`ConvolutionTranspose` is there for it.
        dilation: distances between the elements of a kernel.
        groups: channels that are convolved on their own.
        max_temp_mem_size_in_samples: is taken for compatibility.
        op_name: what the block is called.
        name: of the user.

    Raises:
        NotImplementedError: something is not there.
    """
    if reduction_rank not in (0, 1):
        raise NotImplementedError("Convolution: reduction_rank must be 0 or 1")
    if transpose_weight or not sharing:
        raise NotImplementedError("Convolution: transpose_weight and kernels that are not shared are not there")
    kernel = as_tuple(filter_shape)
    steps, padded = padded_to(kernel, strides, "strides"), padded_to(kernel, pad, "pad")
    spread = padded_to(kernel, dilation, "dilation")
    if sequential and steps[0] != 1:
        raise NotImplementedError(
            "Convolution: along sequences it takes one step after the other: strides begin with 1"
        )
    maps = () if num_filters is None else as_tuple(num_filters)
    fake = not maps
    W = Parameter((*(maps or (1,)), INFERRED, *kernel), name="W",
                  init=first_values(init, filter_rank=len(kernel), output_rank=-1))  # fmt: skip
    b = Parameter((*(maps or (1,)), *(1,) * (len(kernel))), init=init_bias, name="b") if bias else None

    def convolve(x: Any) -> Any:
        value: Any = x
        if sequential:
            value = _window(value, kernel, padded[0], reduction_rank)
            if not padded[0] and kernel[0] > 1:
                value = sequence.slice(value, 0, 1 - kernel[0])  # steps behind which too few follow
        if reduction_rank == 0:
            value = expand_dims(value, Axis.new_leading_axis())
        inside = (False, *padded[1:]) if sequential else padded
        value = convolution(W, value, strides=(1, *steps) if groups == 1 else steps, auto_padding=[False, *inside],
                            dilation=spread, groups=groups,
                            max_temp_mem_size_in_samples=max_temp_mem_size_in_samples)  # fmt: skip
        if b is not None:
            value = value + b
        if sequential:
            value = reshape(value, (), begin_axis=1, end_axis=2)
        if fake:
            value = reshape(value, (), begin_axis=0, end_axis=1)
        return value if activation in (None, identity) else activation(value)

    return BlockFunction(op_name, name)(convolve)


def _window(x: Any, kernel: tuple[int, ...], centred: bool, reduction_rank: int) -> Any:
    """Steps beside each other along a new axis behind the channels: so many as the kernel is long."""
    first = -((kernel[0] - 1) // 2) if centred else 0
    place, behind = (0, Axis.new_leading_axis()) if reduction_rank == 0 else (1, Axis(0))
    steps = [expand_dims(sequence.delay(x, time_step=-(first + index)), behind) for index in range(kernel[0])]
    return splice(*steps, axis=place) if len(steps) > 1 else steps[0]


def _of_rank(kind: str, rank: int, filter_shape: Any) -> tuple[Any, ...]:
    """A shape of a rank, of one with fewer axes: the first is repeated.

    Raises:
        ValueError: it has more.
    """
    if len(as_tuple(filter_shape)) > rank:
        raise ValueError(f"{kind}: filter_shape must be a scalar or a {rank}D tuple")
    return padded_to((0,) * rank, filter_shape, "filter_shape")


@optional
def SequentialConvolution(
    filter_shape: Any,
    num_filters: Any = None,
    activation: Any = _PLAIN,
    init: Any = _GLOROT,
    pad: Any = _NO,
    strides: Any = 1,
    sharing: bool = True,
    bias: Any = _YES,
    init_bias: Any = _ZERO,
    reduction_rank: int = 1,
    transpose_weight: bool = False,
    dilation: Any = 1,
    groups: int = 1,
    max_temp_mem_size_in_samples: int = 0,
    op_name: str = "Convolution",
    name: str = "",
) -> Function:
    """A convolution whose first axis is along sequences; arguments as of :func:`Convolution`."""
    return Convolution(filter_shape, num_filters, True, activation, init, pad, strides, sharing, bias, init_bias,
                       reduction_rank, transpose_weight, dilation, groups, max_temp_mem_size_in_samples, op_name,
                       name)  # fmt: skip


@optional
def Convolution1D(
    filter_shape: Any,
    num_filters: Any = None,
    activation: Any = _PLAIN,
    init: Any = _GLOROT,
    pad: Any = _NO,
    strides: Any = 1,
    bias: Any = _YES,
    init_bias: Any = _ZERO,
    reduction_rank: int = 1,
    dilation: Any = 1,
    name: str = "",
) -> Function:
    """A convolution along one axis; arguments as of :func:`Convolution`."""
    shape = _of_rank("Convolution1D", 1, filter_shape)
    return Convolution(shape, num_filters, False, activation, init, pad, strides, True, bias, init_bias,
                       reduction_rank, dilation=dilation, name=name)  # fmt: skip


@optional
def Convolution2D(
    filter_shape: Any,
    num_filters: Any = None,
    activation: Any = _PLAIN,
    init: Any = _GLOROT,
    pad: Any = _NO,
    strides: Any = 1,
    bias: Any = _YES,
    init_bias: Any = _ZERO,
    reduction_rank: int = 1,
    dilation: Any = 1,
    groups: int = 1,
    name: str = "",
) -> Function:
    """A convolution of images; arguments as of :func:`Convolution`."""
    shape = _of_rank("Convolution2D", 2, filter_shape)
    return Convolution(shape, num_filters, False, activation, init, pad, strides, True, bias, init_bias,
                       reduction_rank, dilation=dilation, groups=groups,
                       name=name)  # fmt: skip


@optional
def Convolution3D(
    filter_shape: Any,
    num_filters: Any = None,
    activation: Any = _PLAIN,
    init: Any = _GLOROT,
    pad: Any = _NO,
    strides: Any = 1,
    bias: Any = _YES,
    init_bias: Any = _ZERO,
    reduction_rank: int = 1,
    dilation: Any = 1,
    groups: int = 1,
    name: str = "",
) -> Function:
    """A convolution along three axes; arguments as of :func:`Convolution`."""
    shape = _of_rank("Convolution3D", 3, filter_shape)
    return Convolution(shape, num_filters, False, activation, init, pad, strides, True, bias, init_bias,
                       reduction_rank, dilation=dilation, groups=groups,
                       name=name)  # fmt: skip


@optional
def ConvolutionTranspose(
    filter_shape: Any,
    num_filters: Any,
    activation: Any = _PLAIN,
    init: Any = _GLOROT,
    pad: Any = _NO,
    strides: Any = 1,
    sharing: bool = True,
    bias: Any = _YES,
    init_bias: Any = _ZERO,
    output_shape: Any = None,
    reduction_rank: int = 1,
    dilation: Any = 1,
    max_temp_mem_size_in_samples: int = 0,
    name: str = "",
) -> Function:
    """A transposed convolution, which enlarges images; arguments as of :func:`Convolution`.

    ``output_shape`` says the size of the result where several are possible.

    Raises:
        NotImplementedError: something is not there.
    """
    if reduction_rank != 1 or not sharing:
        raise NotImplementedError("ConvolutionTranspose: reduction_rank must be 1, and kernels shared")
    kernel, maps = as_tuple(filter_shape), as_tuple(num_filters)
    steps, padded = padded_to(kernel, strides, "strides"), padded_to(kernel, pad, "pad")
    spread = padded_to(kernel, dilation, "dilation")
    W = Parameter((INFERRED, *maps, *kernel), name="W",
                  init=first_values(init, filter_rank=len(kernel), output_rank=-1))  # fmt: skip
    b = Parameter((*maps, *(1,) * len(kernel)), init=init_bias, name="b") if bias else None
    size = None if output_shape is None else (*maps, *as_tuple(output_shape))[-len(kernel) - 1 :]

    def convolve(x: Any) -> Any:
        value = convolution_transpose(W, x, strides=(1, *steps), auto_padding=[False, *padded], output_shape=size,
                                      dilation=spread,
                                      max_temp_mem_size_in_samples=max_temp_mem_size_in_samples)  # fmt: skip
        if b is not None:
            value = value + b
        return value if activation in (None, identity) else activation(value)

    return BlockFunction("ConvolutionTranspose", name)(convolve)


def _transposed(rank: int) -> Any:
    kind = f"ConvolutionTranspose{rank}D"

    def layer(
        filter_shape: Any,
        num_filters: Any,
        activation: Any = _PLAIN,
        init: Any = _GLOROT,
        pad: Any = _NO,
        strides: Any = 1,
        bias: Any = _YES,
        init_bias: Any = _ZERO,
        output_shape: Any = None,
        reduction_rank: int = 1,
        dilation: Any = 1,
        name: str = "",
    ) -> Function:
        shape = _of_rank(kind, rank, filter_shape)
        return ConvolutionTranspose(shape, num_filters, activation, init, pad, strides, True, bias, init_bias,
                                    output_shape, reduction_rank, dilation, name=name)  # fmt: skip

    layer.__name__ = layer.__qualname__ = kind
    layer.__doc__ = f"A transposed convolution along {rank} axes; arguments as of ``ConvolutionTranspose``."
    return optional(layer)


ConvolutionTranspose1D = _transposed(1)
ConvolutionTranspose2D = _transposed(2)
ConvolutionTranspose3D = _transposed(3)


def _pooling(kind: int, filter_shape: Any, strides: Any, pad: Any, op_name: str, name: str) -> Function:
    shape = as_tuple(filter_shape)
    steps, padded = padded_to(shape, strides, "strides"), padded_to(shape, pad, "pad")
    return BlockFunction(op_name, name)(lambda x: pooling(x, kind, shape, strides=steps, auto_padding=list(padded)))


@optional
def MaxPooling(filter_shape: Any, strides: Any = 1, pad: Any = _NO, name: str = "") -> Function:
    """The largest element of each window of an image."""
    return _pooling(MAX_POOLING, filter_shape, strides, pad, "MaxPooling", name)


@optional
def AveragePooling(filter_shape: Any, strides: Any = 1, pad: Any = _NO, name: str = "") -> Function:
    """The mean of each window of an image."""
    return _pooling(AVG_POOLING, filter_shape, strides, pad, "AveragePooling", name)


def GlobalMaxPooling(name: str = "") -> Function:
    """The largest element of each channel."""
    return _pooling(MAX_POOLING, UNKNOWN, 1, False, "GlobalMaxPooling", name)


def GlobalAveragePooling(name: str = "") -> Function:
    """The mean of each channel."""
    return _pooling(AVG_POOLING, UNKNOWN, 1, False, "GlobalAveragePooling", name)


def MaxUnpooling(filter_shape: Any, strides: Any = 1, pad: Any = False, name: str = "") -> Function:
    """Put what was pooled back to where the largest elements were: a function of both."""
    shape = as_tuple(filter_shape)
    steps, padded = padded_to(shape, strides, "strides"), padded_to(shape, pad, "pad")

    def unpool(x: Any, y: Any) -> Function:
        return unpooling(x, y, MAX_POOLING, shape, strides=steps, auto_padding=list(padded))

    return BlockFunction("MaxUnpooling", name)(unpool)
