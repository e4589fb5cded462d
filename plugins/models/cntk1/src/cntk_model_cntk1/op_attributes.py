"""The classes of attributes of the operations that model files hold, as the operations themselves name them."""

from __future__ import annotations

from typing import Any

from cntk_core.api import core_ops

_OPS = core_ops()


def _of(name: str) -> Any:
    op = _OPS.find("", name)
    assert op is not None
    return op.attributes


BatchNormalizationAttributes = _of("BatchNormalization")
ConvolutionAttributes = _of("Convolution")
CropAttributes = _of("Crop")
DropoutAttributes = _of("Dropout")
DelayAttributes = _of("PastValue")
EditDistanceAttributes = _of("EditDistanceError")
ELUAttributes = _of("ExponentialLinearUnit")
EnvironmentInputAttributes = _of("EnvironmentInput")
ForwardBackwardAttributes = _of("ForwardBackward")
LegacyPoolingAttributes = _of("MaxPooling")
LegacyReshapeAttributes = _of("LegacyReshape")
NegativeSamplesAttributes = _of("CosDistanceWithNegativeSamples")
NoAttributes = _of("EyeLikeOp")
NoiseContrastiveAttributes = _of("NoiseContrastiveEstimation")
PoolingAttributes = _of("Pooling")
QuantizedTimesAttributes = _of("QuantizedTimes")
RNNStackAttributes = _of("OptimizedRNNStack")
ROIPoolingAttributes = _of("ROIPooling")
RandomSampleAttributes = _of("RandomSample")
ReduceAttributes = _of("ReduceElements")
RepeatAttributes = _of("RowRepeat")
ReshapeAttributes = _of("Reshape")
ShiftAttributes = _of("Shift")
SliceAttributes = _of("Slice")
StackAttributes = _of("RowStack")
TimesAttributes = _of("Times")
ToSequenceAttributes = _of("ToSequence")
TraceAttributes = _of("Trace")
TransposeAttributes = _of("TransposeDimensions")
UnpackAttributes = _of("UnpackSequence")
WhereAttributes = _of("Where")
