"""What convolutions, poolings and normalizations store, as each version of the format has it."""

from __future__ import annotations

import attrs

from cntk_core.api import UnsupportedError
from cntk_model_cntk1.bcn.attributes import Read, Source
from cntk_model_cntk1.bcn.reader import MOST
from cntk_model_cntk1.op_attributes import (
    BatchNormalizationAttributes,
    ConvolutionAttributes,
    LegacyPoolingAttributes,
    PoolingAttributes,
    ROIPoolingAttributes,
)

_LAYOUTS = ("HWC", "CHW")
_POOLINGS = {1: "max", 2: "average"}
_OLD_MINIBATCH = 16
"""Samples that a minibatch is taken to have had where a file counts minibatches."""


@attrs.frozen
class _Windows:
    """What convolutions and poolings have in common."""

    kernel: tuple[int, ...]
    maps: tuple[int, ...]
    stride: tuple[int, ...]
    sharing: tuple[bool, ...]
    auto: tuple[bool, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    pooling: int
    layout: str
    memory: int
    transpose: bool
    output: tuple[int, ...]
    ceil: bool
    include_pad: bool


def _layout(source: Source) -> str:
    number = source.reader.int32()
    if not 0 <= number < len(_LAYOUTS):
        source.reader.fail(f"there is no image layout {number}", source.reader.position - 4)
    return _LAYOUTS[number]


def _windows(source: Source) -> _Windows:
    reader, version = source.reader, source.version
    kernel, maps, stride = reader.dims(), reader.dims(), reader.dims()
    sharing, auto = reader.flags(), reader.flags()
    lower, upper = reader.dims(), reader.dims()
    pooling, layout, memory = reader.int32(), _layout(source), min(reader.size(), MOST)
    return _Windows(
        kernel,
        maps or (0,),
        stride,
        sharing,
        auto,
        lower,
        upper,
        pooling,
        layout,
        memory,
        transpose=reader.flag() if version >= 9 else False,
        output=(reader.dims() or (0,)) if version >= 20 else (0,),
        ceil=reader.flag() if version >= 21 else False,
        include_pad=reader.flag() if version >= 23 else False,
    )


def _convolution(source: Source) -> ConvolutionAttributes:
    if source.version < 5:
        return _old_convolution(source)
    windows, reader = _windows(source), source.reader
    image = reader.flag()
    dilation = reader.dims() if source.version >= 18 else (1,)
    return ConvolutionAttributes(
        kernel_shape=windows.kernel,
        map_count=windows.maps,
        stride=windows.stride,
        sharing=windows.sharing,
        auto_padding=windows.auto,
        lower_pad=windows.lower,
        upper_pad=windows.upper,
        transpose=windows.transpose,
        output_shape=windows.output,
        image_layout=windows.layout,
        max_temp_mem_size_in_samples=windows.memory,
        convolution_2d=image,
        dilation=dilation if set(dilation) - {1} else (1,),
    )


def _old_convolution(source: Source) -> ConvolutionAttributes:
    reader = source.reader
    kernel = (reader.amount("kernel width"), reader.amount("kernel height"))
    stride = (reader.amount("subsampling"), reader.amount("subsampling"))
    maps, layout, padding = reader.uint32(), _layout(source), reader.flag()
    return ConvolutionAttributes.image(
        *kernel,
        maps,
        *stride,
        zero_padding=padding,
        image_layout=layout,
        max_temp_mem_size_in_samples=min(reader.size(), MOST),
    )


def _pooling(source: Source) -> PoolingAttributes:
    begin = source.reader.position
    windows = _windows(source)
    return _pooling_attributes(windows, _pool_kind(source, windows.pooling, begin))


def _unpooling(source: Source) -> PoolingAttributes:
    return _pooling_attributes(_windows(source), "max")  # what it stores says that it pools nothing


def _pooling_attributes(windows: _Windows, kind: str) -> PoolingAttributes:
    return PoolingAttributes(
        kernel_shape=windows.kernel,
        pool_kind=kind,
        stride=windows.stride,
        auto_padding=windows.auto,
        lower_pad=windows.lower,
        upper_pad=windows.upper,
        ceil_out_dim=windows.ceil,
        include_pad=windows.include_pad,
        image_layout=windows.layout,
    )


def _pool_kind(source: Source, number: int, at: int) -> str:
    if number not in _POOLINGS:
        source.reader.fail(f"there is no kind of pooling {number}", at)
    return _POOLINGS[number]


def _legacy_pooling(source: Source) -> LegacyPoolingAttributes:
    reader = source.reader
    width, layout, height = reader.uint32(), _layout(source), reader.amount("height of a window")
    return LegacyPoolingAttributes(width, height, reader.amount("subsampling"), reader.amount("subsampling"), layout)


def _roi_pooling(source: Source) -> ROIPoolingAttributes:
    reader = source.reader
    output = reader.dims()
    if source.version < 26:
        return ROIPoolingAttributes(output)
    kind = _pool_kind(source, reader.int32(), reader.position - 4)
    if kind != "max":
        raise UnsupportedError(f"'{reader.path}' pools regions by their {kind}, which cannot be read")
    return ROIPoolingAttributes(output, reader.float64())


# -- normalization ----------------------------------------------------------------------------------------


def _normalization(source: Source) -> BatchNormalizationAttributes:
    if source.version < 6:
        return _old_normalization(source)
    reader, version = source.reader, source.version
    spatial, time, blend = reader.flag(), reader.float64(), reader.float64()
    layout = _layout(source)
    if version == 19:
        reader.flag()  # whether the count is 0; the count itself is an input
    else:
        source.samples = reader.size() * (1 if version >= 13 else _OLD_MINIBATCH)
    return BatchNormalizationAttributes(spatial, time, blend, reader.float64(), reader.flag(), layout)


def _old_normalization(source: Source) -> BatchNormalizationAttributes:
    """A node of the time when it had a version of its own, two bytes each for the major and the minor number."""
    reader = source.reader
    begin, written, readable = reader.position, reader.int32(), reader.int32()
    if not 0x00010001 <= readable <= written or readable > 0x00010004:
        reader.fail(f"there is no version {written:#x} of batch normalization", begin)
    reader.flag()  # whether it only evaluated
    spatial, time = reader.flag(), reader.float64()
    if written < 0x00010004:
        time = 0.0  # a factor for each minibatch stood there
    layout, epsilon, engine = "CHW", 0.0, True
    if written >= 0x00010002:
        layout = _layout(source)
        source.samples = reader.size() * _OLD_MINIBATCH
    if written >= 0x00010003:
        epsilon, engine = reader.float64(), reader.flag()
    return BatchNormalizationAttributes(spatial, time, 0.0, epsilon, engine, layout)


IMAGE_READERS: dict[str, Read] = {
    "Convolution": _convolution,
    "Pooling": _pooling,
    "MaxUnpooling": _unpooling,
    "MaxPooling": _legacy_pooling,
    "AveragePooling": _legacy_pooling,
    "ROIPooling": _roi_pooling,
    "BatchNormalization": _normalization,
}
"""Operation to what reads its attributes."""
