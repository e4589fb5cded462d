"""Layers whose filters or windows move over the axes of a grid, such as the pixels of an image.

Shapes are in NumPy's order without the frame axis: images are ``(channels, height, width)``, filters ``(height,
width)``. What is said of height and width holds for any number of axes, as in CNTK's library of layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from cntk_builder_python.blocks import layer
from cntk_builder_python.functions import Function
from cntk_builder_python.graph import Init, Term, caller
from cntk_builder_python.layers import Layer
from cntk_builder_python.sequence import delay, future_value, gather, past_value, zeros_like
from cntk_core.api import BuildError

Shape = tuple[int, ...]
_Item = TypeVar("_Item", int, bool)


def _shape(value: int | Sequence[int]) -> Shape:
    return (value,) if isinstance(value, int) else tuple(value)


def _of_rank(layer: str, value: int | Sequence[int], rank: int) -> Shape:
    """The shape of a filter with a given number of axes; one number is that of every axis."""
    shape = _shape(value)
    if len(shape) == 1:
        shape *= rank
    if len(shape) != rank:
        raise BuildError(
            f"{layer} takes a filter_shape of {rank} numbers or of one for all axes, not {shape}", where=caller()
        )
    return shape


def _for_axes(what: str, value: _Item | Sequence[_Item], filter_shape: Shape) -> tuple[_Item, ...]:
    """A setting with a value for each axis of the filter."""
    values = (value,) if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        values *= len(filter_shape)
    if len(values) != len(filter_shape):
        raise BuildError(
            f"{what} has {len(values)} values, but the filter {filter_shape} has {len(filter_shape)} axes",
            where=caller(),
        )
    return values


class Convolution(Layer):
    """Filters that move over a grid: ``activation(convolution(W, x) + b)``.

    ``W`` is ``(num_filters, input channels, *filter_shape)``, ``b`` is ``(num_filters, 1, ...)``.

    Args:
        filter_shape: the extent of a filter, without channels: ``(3, 3)``, or 3 for one axis.
        num_filters: channels of the result. None: one, and the result has no axis of channels.
        activation: function applied to the result, None for none.
        sequential: the first axis of the filter goes along the sequence, in whole steps; the others over the sample.
        pad: centre filters on every place of the input, with zeros around it; one value, or one for each axis. A
            sequence without padding gets shorter by the filter's first extent minus 1.
        strides: distance between filters; one value, or one for each axis. Along a sequence it is 1.
        reduction_rank: 0 if the input has no axis of channels.
        bias: whether to add a learned bias for each filter.
        init, scale, seed: how the weights start; see :meth:`Graph.parameter`. Arrays have the shape of ``W``, those
            with ``reduction_rank=0`` or without ``num_filters`` too.
        init_bias: how the bias starts.
        name: stem of the parameter names ``name.W`` and ``name.b``.

    Raises:
        BuildError: settings do not fit the filter.
    """

    stem = "convolution"

    def __init__(
        self,
        filter_shape: int | Sequence[int],
        num_filters: int | None = None,
        activation: Function | None = None,
        *,
        sequential: bool = False,
        pad: bool | Sequence[bool] = False,
        strides: int | Sequence[int] = 1,
        reduction_rank: int = 1,
        bias: bool = True,
        init: Init = "glorotUniform",
        scale: float = 1.0,
        seed: int | None = None,
        init_bias: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if reduction_rank not in (0, 1):
            raise BuildError(
                f"reduction_rank is 0 (no axis of channels) or 1, not {reduction_rank}",
                where=caller(),
            )
        self.filter_shape = _shape(filter_shape)
        self.num_filters = num_filters
        self.activation = activation
        self.sequential = sequential
        self.pad = _for_axes("pad", pad, self.filter_shape)
        self.strides = _for_axes("strides", strides, self.filter_shape)
        if sequential and self.strides[0] != 1:
            raise BuildError("a convolution along sequences has a stride of 1 there", where=caller())
        self.reduction_rank = reduction_rank
        self.bias = bias
        self.how: dict[str, Any] = {"init": init, "scale": scale, "seed": seed}
        self.init_bias = init_bias

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        rank, maps = len(self.filter_shape), self.num_filters or 1
        grid = rank - self.sequential
        if not self.reduction_rank:
            x = _inserted(x, grid)
        steps = self.filter_shape[0] if self.sequential else 1
        before = (steps - 1) // 2
        if self.sequential:
            x = _window(_inserted(x, grid), grid, before, steps)
        weights = self._own(x, "W", (maps, 0, *self.filter_shape), **self.how, filter_rank=rank, output_rank=-1)
        pad = (False, *self.pad[1:]) if self.sequential else self.pad
        y = x.graph.apply(
            "Convolution",
            weights,
            x,
            kernel_shape=self.filter_shape[::-1],
            map_count=maps,
            stride=self.strides[::-1],
            auto_padding=pad[::-1],
        )
        if self.sequential and not self.pad[0]:
            y = _inner(y, before, steps - 1 - before)
        if self.bias:
            y = y + self._own(x, "b", (maps, *(1,) * rank), init=self.init_bias)
        if self.sequential:
            y = _removed(y, grid)
        if self.num_filters is None:
            y = _removed(y, grid)
        return self.activation(y) if self.activation is not None else y


def _inserted(x: Term, grid: int) -> Term:
    """Put an axis of length 1 before the last ``grid`` axes."""
    return x.graph.apply("Reshape", x, dims=1, begin_axis=grid + 1, end_axis=grid + 1)


def _removed(x: Term, grid: int) -> Term:
    """Take out the axis of length 1 that stands before the last ``grid`` axes."""
    return x.graph.apply("Reshape", x, dims=(), begin_axis=grid + 1, end_axis=grid + 2)


def _window(x: Term, grid: int, before: int, steps: int) -> Term:
    """Put neighbours in the sequence side by side on the axis before the last ``grid`` ones."""
    shifted = [delay(x, 0.0, before - step) for step in range(steps)]
    return x.graph.apply("RowStack", *shifted, axis=grid + 1)


def _inner(x: Term, before: int, after: int) -> Term:
    """Leave out the first and the last steps of sequences."""
    ones = zeros_like(x) + 1.0
    kept = ones
    if before:
        kept = kept * past_value(ones, 0.0, before)
    if after:
        kept = kept * future_value(ones, 0.0, after)
    return gather(x, kept) if before or after else x


def Convolution1D(
    filter_shape: int | Sequence[int], num_filters: int | None = None, activation: Function | None = None, **how: Any
) -> Convolution:
    """Return a :class:`Convolution` over one axis."""
    return Convolution(_of_rank("Convolution1D", filter_shape, 1), num_filters, activation, **how)


def Convolution2D(
    filter_shape: int | Sequence[int], num_filters: int | None = None, activation: Function | None = None, **how: Any
) -> Convolution:
    """Return a :class:`Convolution` over two axes; a filter of one number is square."""
    return Convolution(_of_rank("Convolution2D", filter_shape, 2), num_filters, activation, **how)


def Convolution3D(
    filter_shape: int | Sequence[int], num_filters: int | None = None, activation: Function | None = None, **how: Any
) -> Convolution:
    """Return a :class:`Convolution` over three axes; a filter of one number is a cube."""
    return Convolution(_of_rank("Convolution3D", filter_shape, 3), num_filters, activation, **how)


class ConvolutionTranspose(Layer):
    """The transposed convolution (deconvolution): every element of the input puts a filter into a larger result.

    ``W`` is ``(input channels, num_filters, *filter_shape)``, ``b`` is ``(num_filters, 1, ...)``.

    Args:
        filter_shape: the extent of a filter, without channels.
        num_filters: channels of the result.
        activation: function applied to the result, None for none.
        pad: the result is what a convolution with automatic padding takes; one value, or one for each axis.
        strides: distance between filters in the result; one value, or one for each axis.
        output_shape: height and width of the result, where several would do because of strides.
        bias: whether to add a learned bias for each channel of the result.
        init, scale, seed: how the weights start; see :meth:`Graph.parameter`. ``bilinear`` interpolates.
        init_bias: how the bias starts.
        name: stem of the parameter names ``name.W`` and ``name.b``.

    Raises:
        BuildError: settings do not fit the filter.
    """

    stem = "convolution_transpose"

    def __init__(
        self,
        filter_shape: int | Sequence[int],
        num_filters: int,
        activation: Function | None = None,
        *,
        pad: bool | Sequence[bool] = False,
        strides: int | Sequence[int] = 1,
        output_shape: int | Sequence[int] | None = None,
        bias: bool = True,
        init: Init = "glorotUniform",
        scale: float = 1.0,
        seed: int | None = None,
        init_bias: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.filter_shape = _shape(filter_shape)
        self.num_filters = num_filters
        self.activation = activation
        self.pad = _for_axes("pad", pad, self.filter_shape)
        self.strides = _for_axes("strides", strides, self.filter_shape)
        wanted = None if output_shape is None else _for_axes("output_shape", output_shape, self.filter_shape)
        self.output_shape = (0,) if wanted is None else (*wanted[::-1], num_filters)
        self.bias = bias
        self.how: dict[str, Any] = {"init": init, "scale": scale, "seed": seed}
        self.init_bias = init_bias

    @layer
    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        rank = len(self.filter_shape)
        weights = self._own(
            x, "W", (0, self.num_filters, *self.filter_shape), **self.how, filter_rank=rank, output_rank=-1
        )
        y = x.graph.apply(
            "Convolution",
            weights,
            x,
            kernel_shape=(*self.filter_shape[::-1], self.num_filters),
            stride=self.strides[::-1],
            auto_padding=(*self.pad[::-1], False),
            transpose=True,
            output_shape=self.output_shape,
        )
        if self.bias:
            y = y + self._own(x, "b", (self.num_filters, *(1,) * rank), init=self.init_bias)
        return self.activation(y) if self.activation is not None else y


def ConvolutionTranspose1D(
    filter_shape: int | Sequence[int], num_filters: int, activation: Function | None = None, **how: Any
) -> ConvolutionTranspose:
    """Return a :class:`ConvolutionTranspose` over one axis."""
    return ConvolutionTranspose(_of_rank("ConvolutionTranspose1D", filter_shape, 1), num_filters, activation, **how)


def ConvolutionTranspose2D(
    filter_shape: int | Sequence[int], num_filters: int, activation: Function | None = None, **how: Any
) -> ConvolutionTranspose:
    """Return a :class:`ConvolutionTranspose` over two axes; a filter of one number is square."""
    return ConvolutionTranspose(_of_rank("ConvolutionTranspose2D", filter_shape, 2), num_filters, activation, **how)


def ConvolutionTranspose3D(
    filter_shape: int | Sequence[int], num_filters: int, activation: Function | None = None, **how: Any
) -> ConvolutionTranspose:
    """Return a :class:`ConvolutionTranspose` over three axes; a filter of one number is a cube."""
    return ConvolutionTranspose(_of_rank("ConvolutionTranspose3D", filter_shape, 3), num_filters, activation, **how)


class _Pooling:
    """What poolings have in common: a window, and the settings that place it."""

    kind = ""

    def __init__(
        self, filter_shape: int | Sequence[int], strides: int | Sequence[int], pad: bool | Sequence[bool], **more: Any
    ) -> None:
        shape = _shape(filter_shape)
        self.settings: dict[str, Any] = {
            "kernel_shape": shape[::-1],
            "stride": _for_axes("strides", strides, shape)[::-1],
            "auto_padding": _for_axes("pad", pad, shape)[::-1],
            **more,
        }

    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        return x.graph.apply("Pooling", x, pool_kind=self.kind, **self.settings)


class MaxPooling(_Pooling):
    """The largest element of each window.

    Args:
        filter_shape: height and width of a window.
        strides: distance between windows; one value, or one for each axis.
        pad: centre windows on every place of the input; one value, or one for each axis.
        ceil_out_dim: an incomplete window at the end counts too.
    """

    kind = "max"

    def __init__(
        self,
        filter_shape: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        pad: bool | Sequence[bool] = False,
        *,
        ceil_out_dim: bool = False,
    ) -> None:
        super().__init__(filter_shape, strides, pad, ceil_out_dim=ceil_out_dim)


class AveragePooling(_Pooling):
    """The mean of each window, over the elements inside the input.

    Args:
        filter_shape, strides, pad, ceil_out_dim: as of :class:`MaxPooling`.
        include_pad: padded elements count, as 0.
    """

    kind = "average"

    def __init__(
        self,
        filter_shape: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        pad: bool | Sequence[bool] = False,
        *,
        ceil_out_dim: bool = False,
        include_pad: bool = False,
    ) -> None:
        super().__init__(filter_shape, strides, pad, ceil_out_dim=ceil_out_dim, include_pad=include_pad)


class GlobalMaxPooling:
    """The largest element of each channel, as ``(channels, 1, 1)``."""

    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        return x.graph.apply("Pooling", x, pool_kind="max", kernel_shape=(), auto_padding=False)


class GlobalAveragePooling:
    """The mean of each channel, as ``(channels, 1, 1)``."""

    def __call__(self, x: Term) -> Term:
        """Apply the layer."""
        return x.graph.apply("Pooling", x, pool_kind="average", kernel_shape=(), auto_padding=False)


class MaxUnpooling(_Pooling):
    """Puts values back where a max pooling took its maxima, zeros elsewhere: ``unpool(values, what_was_pooled)``.

    Args:
        filter_shape, strides, pad: those of the pooling.
    """

    def __init__(
        self,
        filter_shape: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        pad: bool | Sequence[bool] = False,
    ) -> None:
        super().__init__(filter_shape, strides, pad)

    def __call__(self, x: Term, pooled: Term | None = None) -> Term:
        """Apply the layer.

        Raises:
            BuildError: what was pooled is not given.
        """
        if pooled is None:
            raise BuildError("MaxUnpooling takes two terms: what is put back, and what was pooled", where=caller())
        return x.graph.apply("MaxUnpooling", x, pooled, **self.settings)
