"""A small convolutional network."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk_testing.inside import BatchNormalizationAttributes, ConvolutionAttributes, PoolingAttributes, TimesAttributes
from cntk_testing.networks import Sample, Sketch


def images(dtype: Any) -> Sample:
    """Convolution, batch normalization, rectified units, pooling, product and cross entropy."""
    made = Sketch(dtype)
    x, labels = made.input("x", 2, 9, 8), made.input("labels", 3)
    convolution = ConvolutionAttributes((3, 3, 2), map_count=4, stride=(1, 1, 2), auto_padding=(True, True, False))
    h = made.op("Convolution", made.parameter("w", 4, 18), x, attributes=convolution)
    numbers = [
        made.parameter("scale", 4),
        made.parameter("bias", 4),
        made.given("mean", np.full(4, 0.1), multiplier=0.0),
        made.given("variance", np.full(4, 1.5), multiplier=0.0),
    ]
    normalization = BatchNormalizationAttributes(spatial=True, normalization_time_constant=100.0)
    h = made.op("BatchNormalization", h, *numbers, attributes=normalization)
    pooling = PoolingAttributes((3, 3, 1), stride=(2, 2, 1), auto_padding=(True, True, False))
    h = made.op("Pooling", made.op("RectifiedLinear", h), attributes=pooling)
    made.network.infer()
    z = made.op("Times", made.parameter("v", *h.known_shape, 3), h, attributes=TimesAttributes(1, 3))
    return made.finish(made.op("CrossEntropyWithSoftmax", labels, z, name="ce"), z, one_hot={"labels"})
