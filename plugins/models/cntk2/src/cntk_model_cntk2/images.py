"""From convolution and pooling to what a file of CNTK 2 says of them."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import attrs

from cntk_core.api import Node, Parameter, UnsupportedError
from cntk_model_cntk2.values import SizeT
from cntk_model_cntk2.written import Exporter, Written, shape_of

_POOLINGS = {"max": 0, "average": 1}


def _refuse_channels_first(node: Node) -> None:
    if node.attributes.image_layout != "CHW":
        raise UnsupportedError(
            f"{node.op.name} '{node.name}' has images with channels first in CNTK's order (HWC), which CNTK 2 has not",
            where=node.where,
        )


def _windows(node: Node, given: Any) -> dict[str, Any]:
    _refuse_channels_first(node)
    return {
        "strides": shape_of(given.stride),
        "autoPadding": [bool(flag) for flag in given.auto_padding],
        "lowerPad": shape_of(given.lower_pad),
        "upperPad": shape_of(given.upper_pad),
    }


def pooling(exporter: Exporter, node: Node) -> Written:
    """Return what is said of Pooling."""
    given = node.attributes
    window = given.kernel_shape or node.inputs[0].known_shape[:0:-1]
    keys: dict[str, Any] = {"poolingType": SizeT(_POOLINGS[given.pool_kind]), **_windows(node, given)}
    keys |= {"poolingWindowShape": shape_of(window), "ceilOutDim": given.ceil_out_dim, "includePad": given.include_pad}
    return Written(keys)


def image_pooling(exporter: Exporter, node: Node) -> Written:
    """Return what is said of the old form without padding, by that of today."""
    given = node.attributes
    _refuse_channels_first(node)
    keys = {
        "poolingType": SizeT(_POOLINGS["max" if node.op.name == "MaxPooling" else "average"]),
        "poolingWindowShape": shape_of((given.window_width, given.window_height, 1)),
        "strides": shape_of((given.horizontal_subsample, given.vertical_subsample, 1)),
        "autoPadding": [False],
        "lowerPad": shape_of((0,)),
        "upperPad": shape_of((0,)),
        "ceilOutDim": False,
        "includePad": False,
    }
    return Written(keys)


def unpooling(exporter: Exporter, node: Node) -> Written:
    """Return what is said of MaxUnpooling."""
    given = node.attributes
    keys = {"poolingType": SizeT(0), "unpoolingWindowShape": shape_of(given.kernel_shape)}
    return Written({**keys, **_windows(node, given)})


def roi_pooling(exporter: Exporter, node: Node) -> Written:
    """Return what is said of ROIPooling."""
    given = node.attributes
    keys = {"poolingType": SizeT(0), "roiOutputShape": shape_of(given.roi_output_shape)}
    return Written({**keys, "spatialScale": float(given.spatial_scale)})


def _with_all_axes(node: Node) -> Any:
    """Attributes of a convolution whose kernel has all axes: those that it lacks it takes whole, in one step."""
    given, count = node.attributes, len(node.attributes.kernel_shape)
    covered = node if given.transpose else node.inputs[1]
    whole = covered.known_shape[::-1][count:]
    if not whole:
        return given

    def along(values: tuple[Any, ...], rest: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*values[:count], *(values[-1] for _ in range(count - len(values))), *rest)

    none = (0,) * len(whole)
    return attrs.evolve(
        given,
        kernel_shape=(*given.kernel_shape, *whole),
        stride=along(given.stride, whole),
        sharing=along(given.sharing, (True,) * len(whole)),
        auto_padding=along(given.auto_padding, (False,) * len(whole)),
        lower_pad=along(given.lower_pad, none),
        upper_pad=along(given.upper_pad, none),
        dilation=along(given.dilation, (1,) * len(whole)),
    )


def convolution(exporter: Exporter, node: Node) -> Written:
    """Return what is said of Convolution.

    Raises:
        UnsupportedError: it runs along sequences, has maps along several axes, weights that are computed as a matrix,
            or images with channels first.
    """
    given, weights = _with_all_axes(node), node.inputs[0]
    rank = len(node.inputs[1].known_shape)
    if given.sequential:
        _refuse(node, "runs along sequences")
    if math.prod(given.map_count[:-1]) > 1:
        _refuse(node, "has maps along several axes")
    inputs = [exporter.uids[child] for child in node.inputs]
    kernel = weights.known_shape[: -rank - 1 : -1]
    if given.convolution_2d or (len(weights.known_shape) == 2 and rank > 1):
        tensor = _tensor(node, given)
        kernel = tensor.shape[:0:-1]
        inputs[0] = exporter.constant(tensor, weights.name, learned=isinstance(weights, Parameter) and weights.learned)
    keys: dict[str, Any] = {
        **_windows(node, given),
        "sharing": [bool(flag) for flag in given.sharing],
        "transpose": given.transpose,
        "outputShape": shape_of(given.output_shape),
        "maxTempMemSizeInSamples": SizeT(given.max_temp_mem_size_in_samples),
        "kernelShape": shape_of(kernel),
        "dilation": shape_of(given.dilation),
        "groups": SizeT(given.groups),
    }
    return Written(keys, inputs)


def _tensor(node: Node, given: Any) -> Any:
    """Weights that are a matrix as [kernel x maps]; the memory is the same."""
    weights = node.inputs[0]
    if not isinstance(weights, Parameter) or weights.value is None or given.transpose:
        _refuse(node, "takes its weights as a matrix")
    *window, channels = given.kernel_shape
    shape = (node.known_shape[0], channels, *reversed(window))
    if weights.value.size != math.prod(shape):
        _refuse(node, "has other weights for each window")
    return weights.value.reshape(shape)


def _refuse(node: Node, what: str) -> NoReturn:
    raise UnsupportedError(f"Convolution '{node.name}' {what}, which is not written", where=node.where)
