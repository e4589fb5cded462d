"""The functions for images: convolution, pooling, batch normalization, crops."""

from __future__ import annotations

from typing import Any

from cntk_builder_ndl.leaves import fixed, is_legacy
from cntk_builder_ndl.making import Made, make_operation
from cntk_builder_ndl.reading import Reader
from cntk_core.api import BuildError, Op

CONVOLUTION = (
    "Convolution(W, x, {kernel}, mapCount=, stride=1, sharing=true, autoPadding=true, lowerPad=0, upperPad=0, "
    "transpose=false, outputShape=, imageLayout=CHW, dilation=1, groups=1, sequential=false)\n"
    "Convolution(W, x, kernelWidth, kernelHeight, outputChannels, horizontalSubsample, verticalSubsample, "
    "zeroPadding=false, imageLayout=HWC)"
)
"""How ``Convolution`` is called."""

NORMALIZATION = (
    "BatchNormalization(x, scale, bias, mean, variance [, count], spatial=false, normalizationTimeConstant=0, "
    "blendTimeConstant=0, epsilon=0.00001, imageLayout=CHW)"
)
"""How ``BatchNormalization`` is called."""


def make_convolution(reader: Reader, op: Op) -> Made:
    """Make the node of ``Convolution``, in the form for any number of dimensions or in the older one for images."""
    if reader.count == 7:
        settings = _image_settings(reader)
    elif reader.count == 3:
        settings = {
            "kernel_shape": reader.array(2, "the kernel", least=1),
            **_window(reader),
            "map_count": reader.option_array("mapCount", (0,)),
            "sharing": reader.option_flags("sharing", (True,)),
            "transpose": reader.option_flag("transpose", False),
            "output_shape": reader.option_array("outputShape", (0,)),
            "dilation": reader.option_array("dilation", (1,)),
            "groups": reader.option_whole("groups", 1),
            "sequential": reader.option_flag("sequential", False),
        }
    else:
        raise BuildError(
            f"Convolution takes 3 or 7 arguments, not {reader.count}", where=reader.where, hint=CONVOLUTION
        )
    settings["max_temp_mem_size_in_samples"] = reader.option_whole("maxTempMemSizeInSamples", 0)
    return Made(make_operation(reader, op, **settings), reader.nodes(0, 2))


def _image_settings(reader: Reader) -> dict[str, Any]:
    width, height, channels, across, down = (
        reader.whole(index, what, least=1)
        for index, what in enumerate(
            ("the kernel width", "the kernel height", "the number of output channels", "the stride", "the stride"), 2
        )
    )
    return {
        "kernel_shape": (width, height),
        "map_count": (channels,),
        "stride": (across, down),
        "auto_padding": (reader.option_flag("zeroPadding", False),),
        "image_layout": _layout(reader, "HWC"),
        "convolution_2d": True,
    }


def _layout(reader: Reader, default: str) -> str:
    return "HWC" if is_legacy(reader, default) else "CHW"


def _window(reader: Reader) -> dict[str, Any]:
    """The options that convolution and pooling share."""
    return {
        "stride": reader.option_array("stride", (1,)),
        "auto_padding": reader.option_flags("autoPadding", (True,)),
        "lower_pad": reader.option_array("lowerPad", (0,)),
        "upper_pad": reader.option_array("upperPad", (0,)),
        "image_layout": _layout(reader, "CHW"),
    }


def make_pooling(reader: Reader, op: Op) -> Made:
    """Make the node of ``Pooling``."""
    reader.expect(3)
    settings = {
        "pool_kind": reader.choice(1, "the kind of pooling", ("max", "average")),
        "kernel_shape": reader.array(2, "the window", least=1),
        **_window(reader),
        "ceil_out_dim": reader.option_flag("ceilOutDim", False),
        "include_pad": reader.option_flag("includePad", False),
    }
    return Made(make_operation(reader, op, **settings), reader.nodes(0, 1))


def make_unpooling(reader: Reader, op: Op) -> Made:
    """Make the node of ``MaxUnpooling``."""
    reader.expect(3)
    settings = {"kernel_shape": reader.array(2, "the window", least=1), **_window(reader)}
    return Made(make_operation(reader, op, **settings), reader.nodes(0, 2))


def make_image_pooling(reader: Reader, op: Op) -> Made:
    """Make the node of ``MaxPooling`` or ``AveragePooling``, the older functions for images."""
    reader.expect(5)
    names = ("window_width", "window_height", "horizontal_subsample", "vertical_subsample")
    settings: dict[str, Any] = {
        name: reader.whole(index, f"the {name.replace('_', ' ')}", least=1) for index, name in enumerate(names, 1)
    }
    node = make_operation(reader, op, **settings, image_layout=_layout(reader, "HWC"))
    return Made(node, reader.nodes(0, 1))


def make_roi_pooling(reader: Reader, op: Op) -> Made:
    """Make the node of ``ROIPooling``; the size of its output is an argument or an option."""
    reader.expect(2, 3)
    size = reader.option_array("roiOutputShape", ())
    if reader.count == 3:
        size = reader.array(2, "the size of the output", least=1)
    if len(size) != 2:
        raise BuildError("ROIPooling needs width and height of its output", where=reader.where, hint=reader.usage)
    scale = reader.option_number("spatialScale", 0.0625)
    return Made(make_operation(reader, op, roi_output_shape=size, spatial_scale=scale), reader.nodes(0, 2))


def make_normalization(reader: Reader, op: Op) -> Made:
    """Make the node of ``BatchNormalization``, and its sample count if it is not given."""
    reader.expect(5, 6)
    engine = reader.option_choice("engine", "cntk", ("cntk", "cudnn"))
    settings = {
        "spatial": reader.option_flag("spatial", False),
        "normalization_time_constant": reader.option_number("normalizationTimeConstant", 0.0),
        "blend_time_constant": reader.option_number("blendTimeConstant", 0.0),
        "epsilon": reader.option_number("epsilon", 1e-5),
        "use_cntk_engine": reader.option_flag("useCntkEngine", engine == "cntk"),
        "image_layout": _layout(reader, "CHW"),
    }
    reader.no_longer("eval", "false")
    more = () if reader.count == 6 else (fixed(reader, f"{reader.node_name}.run_sample_count", (1,), 0.0),)
    return Made(make_operation(reader, op, **settings), reader.nodes(), more)


def make_crop(reader: Reader, op: Op) -> Made:
    """Make the node of ``Crop``: its place is worked out, given as numbers, or by two nodes that fit each other."""
    if reader.count not in (2, 4):
        raise BuildError(f"Crop takes 2 or 4 arguments, not {reader.count}", where=reader.where, hint=reader.usage)
    if reader.count == 4 and reader.is_number(2):
        offsets = {"x_offset": reader.whole(2, "the x offset"), "y_offset": reader.whole(3, "the y offset")}
        return Made(make_operation(reader, op, **offsets), reader.nodes(0, 2))
    return Made(make_operation(reader, op), reader.nodes())
