"""Batch normalization and local response normalization."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.define import declare_op, first_shape, guess_first
from cntk_core.ops.geometry import is_legacy
from cntk_core.ops.shapes import Shape, elements, show


@attrs.frozen
class BatchNormalizationAttributes:
    """Attributes of BatchNormalization.

    Attributes:
        spatial: one mean and variance for each channel instead of each element.
        normalization_time_constant: samples after which running statistics forget; 0 keeps only the last minibatch,
            infinity freezes them.
        blend_time_constant: weight of the running statistics, in samples, against those of the minibatch.
        epsilon: added to the variance.
        use_cntk_engine: which engine the original used; no effect here.
        image_layout: ``CHW`` or ``HWC``; spatial normalization needs ``CHW``.
        disable_regularization: weight decay leaves scale and bias alone.
    """

    spatial: bool = False
    normalization_time_constant: float = 0.0
    blend_time_constant: float = 0.0
    epsilon: float = 1e-5
    use_cntk_engine: bool = True
    image_layout: str = "CHW"
    disable_regularization: bool = False


def statistics_size(data: Shape, attributes: BatchNormalizationAttributes) -> int:
    """How many means there are: one for each channel (CNTK's last axis) if spatial, else for each element."""
    return data[0] if attributes.spatial and data else elements(data)


def _infer_normalization(shapes: Sequence[Shape], attributes: BatchNormalizationAttributes) -> Shape:
    data = shapes[0]
    if attributes.spatial and is_legacy(attributes.image_layout):
        raise ShapeError("spatial batch normalization takes images in the layout CHW only")
    size = statistics_size(data, attributes)
    for name, shape in zip(("scale", "bias", "mean", "variance"), shapes[1:5], strict=False):
        if elements(shape) != size:
            raise ShapeError(f"the {name} {show(shape)} has {elements(shape)} elements, not {size}")
    if len(shapes) > 5 and elements(shapes[5]) != 1:
        raise ShapeError(f"the sample count must be a single number, not {show(shapes[5])}")
    return data


def _complete_normalization(shapes: Sequence[Shape], attributes: BatchNormalizationAttributes) -> Sequence[Shape]:
    """Fill in the one dimension 0 of scale, bias and statistics: CNTK's [0 x 1] or [0]."""
    size = statistics_size(shapes[0], attributes)

    def filled(shape: Shape) -> Shape:
        if shape.count(0) == 1 and elements([dim or 1 for dim in shape]) == 1:
            return tuple(dim or size for dim in shape)
        if shape and all(dim == 0 for dim in shape):
            return shapes[0]
        return shape

    return [shapes[0], *(filled(shape) for shape in shapes[1:5]), *shapes[5:]]


BATCH_NORMALIZATION = declare_op(
    "BatchNormalization",
    "(x - mean) / sqrt(variance + epsilon) * scale + bias; inputs: x, scale, bias, running mean, running variance "
    "[, running count].",
    inputs=(5, 6),
    infer=_infer_normalization,
    complete=_complete_normalization,
    guess=guess_first,
    attributes=BatchNormalizationAttributes,
    differentiable=(True, True, True, False),
)


@attrs.frozen
class LocalResponseNormalizationAttributes:
    """Attributes of LocalResponseNormalization: x / (bias + alpha * sum of squares of neighbours) ^ beta.

    The neighbours are the channels at a distance of at most ``depth_radius``.
    """

    depth_radius: int
    bias: float = 1.0
    alpha: float = 1.0
    beta: float = 0.5


LOCAL_RESPONSE_NORMALIZATION = declare_op(
    "LocalResponseNormalization",
    "Each element divided by a power of the sum of squares over neighbouring channels (CNTK's last axis).",
    infer=first_shape,
    guess=guess_first,
    attributes=LocalResponseNormalizationAttributes,
)

OPS = (BATCH_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION)
