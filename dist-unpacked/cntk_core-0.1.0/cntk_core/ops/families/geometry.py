"""Where a kernel stands on its input: sizes and padding of convolution and pooling, in CNTK's order of axes.

For one axis with ``d`` input elements, a kernel of ``k`` and a stride of ``s``, with automatic padding

    out = floor((d - 1) / s) + 1,    extra = d - ((out - 1) s + 1),    lower pad = (k - 1) // 2 - extra // 2

and with padding given as ``lower`` and ``upper`` (0 by default)

    out = floor((d + lower + upper - k) / s) + 1

rounded up instead of down if asked for. With a dilation of ``r``, ``k`` is the kernel's reach ``(k - 1) r + 1``. A
transposed convolution goes the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.language.shapes import elements, from_cntk, show

Dims = tuple[int, ...]
"""Dimensions in CNTK's order."""

_Item = TypeVar("_Item", int, bool)


class WindowAttributes(Protocol):
    """What convolution and pooling attributes have in common."""

    @property
    def kernel_shape(self) -> Dims:
        """The kernel or window."""
        ...

    @property
    def stride(self) -> Dims:
        """Distance between windows."""
        ...

    @property
    def auto_padding(self) -> tuple[bool, ...]:
        """Where padding is automatic."""
        ...

    @property
    def lower_pad(self) -> Dims:
        """Padding before the first element."""
        ...

    @property
    def upper_pad(self) -> Dims:
        """Padding after the last element."""
        ...


def reach_of(kernel: Sequence[int], dilation: Sequence[int]) -> Dims:
    """How many elements a kernel reaches over along each axis, those between its places included."""
    return tuple((width - 1) * apart + 1 for width, apart in zip(kernel, dilation, strict=True))


def _undilated(instance: Geometry | Window) -> Dims:
    return (1,) * len(instance.kernel)


@attrs.frozen
class Geometry:
    """Windows over an input, axis by axis in CNTK's order.

    Attributes:
        input: dimensions of the input.
        kernel: dimensions of the kernel.
        stride: distance between windows.
        lower: padding before the first element; negative where the first elements are left out.
        counts: windows along each axis.
        maps: output maps for each axis; the output has ``counts * maps`` elements.
        dilation: distance between the kernel's places in the input; 1 where they stand side by side.
    """

    input: Dims
    kernel: Dims
    stride: Dims
    lower: Dims
    counts: Dims
    maps: Dims
    dilation: Dims = attrs.field(default=attrs.Factory(_undilated, takes_self=True))

    @property
    def reach(self) -> Dims:
        """Elements that the kernel reaches over."""
        return reach_of(self.kernel, self.dilation)

    @property
    def output(self) -> Dims:
        """Dimensions of the output."""
        return tuple(count * maps for count, maps in zip(self.counts, self.maps, strict=True))

    @property
    def upper(self) -> Dims:
        """Padding that the last window needs after the last element; negative where elements are left out."""
        return tuple(
            (count - 1) * step + width - size - pad
            for count, step, width, size, pad in zip(
                self.counts, self.stride, self.reach, self.input, self.lower, strict=True
            )
        )


@attrs.frozen
class Window:
    """The settings of a convolution or pooling with one value for each axis of the input."""

    kernel: Dims
    stride: Dims
    auto: tuple[bool, ...]
    lower: Dims
    upper: Dims
    dilation: Dims = attrs.field(default=attrs.Factory(_undilated, takes_self=True))

    @property
    def reach(self) -> Dims:
        """Elements that the kernel reaches over."""
        return reach_of(self.kernel, self.dilation)


def extended(
    values: Sequence[_Item], filter_rank: int, rank: int, default: _Item, more: Sequence[_Item] = ()
) -> tuple[_Item, ...]:
    """Repeat the last value up to the rank of the kernel, then go on with ``more`` or the default up to ``rank``."""
    found = list(values) or [default]
    while len(found) < filter_rank:
        found.append(found[-1])
    while len(found) < rank:
        found.append(more[len(found)] if len(found) < len(more) else default)
    return tuple(found)


def window_of(dims: Dims, attributes: WindowAttributes, *, reduces: bool, dilation: Sequence[int] = (1,)) -> Window:
    """The settings for an input of ``dims``. Axes that the kernel lacks are summed over (convolution) or kept.

    A pooling whose kernel has no dimensions at all is global: it takes all axes but the last one. A kernel that takes
    the last axis (channels) whole is not dilated there.

    Raises:
        ShapeError: a setting has more values than the input has axes, or a stride or kernel is not positive.
    """
    kernel_shape = attributes.kernel_shape or (() if reduces else (*dims[:-1], 1)[: len(dims)])
    rank, kernel_rank = len(dims), len(kernel_shape)
    given = (attributes.stride, attributes.auto_padding, attributes.lower_pad, attributes.upper_pad, dilation)
    if not kernel_rank or max(kernel_rank, *(len(values) for values in given)) > rank:
        kernel = show(from_cntk(kernel_shape))
        raise ShapeError(f"the kernel {kernel} and its settings do not fit the {rank} axes of {show(from_cntk(dims))}")
    more = dims if reduces else ()
    window = Window(
        kernel=extended(kernel_shape, kernel_rank, rank, 1, more),
        stride=extended(attributes.stride, kernel_rank, rank, 1, more),
        auto=extended(attributes.auto_padding, kernel_rank, rank, False),
        lower=extended(attributes.lower_pad, kernel_rank, rank, 0),
        upper=extended(attributes.upper_pad, kernel_rank, rank, 0),
        dilation=extended(dilation, kernel_rank, rank, 1),
    )
    _check_window(window)
    if window.kernel[-1] == dims[-1]:
        window = attrs.evolve(window, dilation=(*window.dilation[:-1], 1))
    return window


def _check_window(window: Window) -> None:
    settings = (
        ("kernel", window.kernel, 1),
        ("stride", window.stride, 1),
        ("lowerPad", window.lower, 0),
        ("upperPad", window.upper, 0),
        ("dilation", window.dilation, 1),
    )
    problems = [
        f"{name} is {value} along axis {axis + 1}, less than {least}"
        for name, values, least in settings
        for axis, value in enumerate(values)
        if value < least
    ]
    if problems:
        raise ShapeError("; ".join(problems))


def make_geometry(dims: Dims, window: Window, maps: Sequence[int] = (1,), *, ceil: bool = False) -> Geometry:
    """Place a window on an input of ``dims``.

    Raises:
        ShapeError: the kernel is larger than the input, or explicit padding leaves a rest that no window covers; for
            all axes.
    """
    rank = len(dims)
    counts, lowers = [], []
    problems: list[str] = []
    remedies: list[str] = []
    for axis in range(rank):
        size, width, step = dims[axis], window.kernel[axis], window.stride[axis]
        lower, upper, reach = window.lower[axis], window.upper[axis], window.reach[axis]
        whole = size - 1 if window.auto[axis] else size + lower + upper - reach
        if width > size or whole < 0:
            reaches = "has" if reach == width else "reaches over"
            problems.append(f"the kernel {reaches} {reach} elements along axis {axis + 1}, but the input only {size}")
            continue
        count = -(-whole // step) + 1 if ceil else whole // step + 1
        if window.auto[axis]:
            # The halves of a negative number are rounded towards 0.
            extra = size - ((count - 1) * step + 1)
            lower = (reach - 1) // 2 - int(extra / 2)
        elif (lower or upper) and (count - 1) * step != whole:
            padded = size + lower + upper
            problems.append(
                f"windows of {reach} every {step} do not fill the {padded} padded elements of axis {axis + 1}"
            )
            remedies.append(f"{lower + upper + step - whole % step} along axis {axis + 1}")
        counts.append(count)
        lowers.append(lower)
    if problems:
        hint = f"lowerPad + upperPad would have to be {', '.join(remedies)}." if remedies else None
        raise ShapeError("; ".join(problems), hint=hint)
    placed = maps_of(maps, rank)
    return Geometry(dims, window.kernel, window.stride, tuple(lowers), tuple(counts), placed, window.dilation)


def maps_of(maps: Sequence[int], rank: int) -> Dims:
    """Output maps for each axis; a single number stands for the last axis.

    Raises:
        ShapeError: there are neither one nor ``rank`` numbers.
    """
    if len(maps) == 1:
        return (1,) * (rank - 1) + (maps[0],)
    if len(maps) != rank:
        raise ShapeError(f"mapCount has {len(maps)} numbers, but the input {rank} axes")
    return tuple(maps)


def transposed_dims(dims: Dims, window: Window, maps: Sequence[int]) -> Dims:
    """Dimensions of the output of a transposed convolution, whose input has ``dims``.

    Raises:
        ShapeError: the input is not divided by the maps.
    """
    result = []
    for axis, count in enumerate(maps_of(maps, len(dims))):
        if count < 1 or dims[axis] % count:
            raise ShapeError(f"axis {axis + 1} of {show(from_cntk(dims))} cannot hold {count} maps")
        steps = (dims[axis] // count - 1) * window.stride[axis]
        if window.auto[axis]:
            result.append(steps + 1)
        else:
            size = steps + window.reach[axis] - window.lower[axis] - window.upper[axis]
            if size < 1:
                raise ShapeError(f"nothing is left of axis {axis + 1} when its padding is taken off")
            result.append(size)
    return tuple(result)


def kernel_elements(window: Window) -> int:
    """Weights of one kernel."""
    return elements(window.kernel)


@attrs.frozen
class ImageDims:
    """Width, height and channels of an image sample.

    In CNTK's order the legacy layout ``HWC`` is channels x width x height, and ``CHW`` width x height x channels.
    """

    width: int
    height: int
    channels: int

    @classmethod
    def of(cls, dims: Dims, layout: str) -> ImageDims:
        """Read the dimensions of a sample of a layout.

        Raises:
            ShapeError: it has no three axes, or there is no such layout.
        """
        if len(dims) != 3:
            raise ShapeError(f"an image has width, height and channels; {show(from_cntk(dims))} has {len(dims)} axes")
        if is_legacy(layout):
            return cls(dims[1], dims[2], dims[0])
        return cls(dims[0], dims[1], dims[2])

    def dims(self, layout: str) -> Dims:
        """The dimensions of a sample in a layout."""
        if is_legacy(layout):
            return (self.channels, self.width, self.height)
        return (self.width, self.height, self.channels)


def is_legacy(layout: str) -> bool:
    """Whether an image layout is the legacy one (``HWC`` or ``legacy``) rather than ``CHW`` (``cudnn``).

    Raises:
        ShapeError: there is no such layout.
    """
    name = layout.lower()
    if name in ("hwc", "legacy"):
        return True
    if name in ("chw", "cudnn"):
        return False
    raise ShapeError(f"there is no image layout '{layout}'", hint="Layouts: CHW (cudnn), HWC (legacy)")
