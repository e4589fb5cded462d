"""What each operation stores in models of the original, version by version."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from bcn_writer import dims, flag, flags, float32, float64, int32, int64, size, wide
from cntk_model_cntk1.bcn.attributes import READERS, Source
from cntk_model_cntk1.bcn.images import IMAGE_READERS
from cntk_model_cntk1.bcn.reader import BinaryReader
from cntk_model_cntk1.op_attributes import ELUAttributes, NoAttributes

from cntk_core.api import ModelFormatError, UnsupportedError
from cntk_testing.inside import (
    BatchNormalizationAttributes,
    ConvolutionAttributes,
    CropAttributes,
    DelayAttributes,
    DropoutAttributes,
    EditDistanceAttributes,
    EnvironmentInputAttributes,
    ForwardBackwardAttributes,
    LegacyPoolingAttributes,
    LegacyReshapeAttributes,
    NoiseContrastiveAttributes,
    PoolingAttributes,
    QuantizedTimesAttributes,
    RandomSampleAttributes,
    ReduceAttributes,
    RepeatAttributes,
    ReshapeAttributes,
    RNNStackAttributes,
    ROIPoolingAttributes,
    ShiftAttributes,
    SliceAttributes,
    StackAttributes,
    TimesAttributes,
    ToSequenceAttributes,
    TraceAttributes,
    TransposeAttributes,
    UnpackAttributes,
    WhereAttributes,
)

UNSET = float(np.finfo(np.float64).max)


def uint32(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def source(data, version=26, dtype=np.float32):
    return Source(BinaryReader(data, Path("old.dnn")), version, np.dtype(dtype))


def read(operation, data, version=26, dtype=np.float32):
    """Read attributes and check that nothing is left."""
    begun = source(data, version, dtype)
    found = (READERS | IMAGE_READERS)[operation](begun)
    assert begun.reader.left == 0
    return found


def window(kind=0, layout=1, more=b""):
    """What convolutions and poolings begin with: kernel 3 x 2, 5 maps, stride 2."""
    lists = dims(3, 2) + dims(5) + dims(2) + flags(True) + flags(True, False) + dims(0) + dims(1)
    return lists + int32(kind, layout) + size(9) + more


CONVOLUTION = ConvolutionAttributes(
    (3, 2), (5,), (2,), (True,), (True, False), (0,), (1,), max_temp_mem_size_in_samples=9
)
POOLING = PoolingAttributes((3, 2), "average", (2,), (True, False), (0,), (1,))
TRACE_FORMAT = b"<\0>\0\0\0\n\0 \0;\0.3\0"
TRACE = b"hello\0" + size(10, 100) + flag(True, True) + wide("map.txt") + flag(False, False) + TRACE_FORMAT
TWO_RANGES = int64(1, 2) + int32(1) + int64(-3, 3) + int32(2)

CASES = [
    ("PastValue", 26, int32(2) + dims(3, 4) + float32(0.5), DelayAttributes((3, 4), 2, 0.5)),
    ("FutureValue", 3, int32(1) + size(3, 1) + float32(0.5), DelayAttributes((3,), 1, 0.5)),
    ("PastValue", 1, int32(1) + size(3, 1), DelayAttributes((3,), 1)),
    ("Shift", 26, int32(-2, 1, -1), ShiftAttributes(-2, 1, -1)),
    ("OptimizedRNNStack", 26, size(1, 2, 8) + wide("gru") + int32(2), RNNStackAttributes(8, 2, True, "gru", 2)),
    ("OptimizedRNNStack", 13, size(0, 1, 8) + wide("RNN_TANH"), RNNStackAttributes(8, 1, False, "rnnTanh", -1)),
    ("Times", 26, size(2) + int32(1), TimesAttributes(2, 1)),
    ("TransposeTimes", 11, size(2), TimesAttributes(2, -1)),
    ("Times", 2, b"", TimesAttributes()),
    ("QuantizedTimes", 26, size(1) + int32(-1) + size(2, 3), QuantizedTimesAttributes(1, -1, 2, 3)),
    ("ReduceElements", 26, int32(2) + wide("Max") + flag(False), ReduceAttributes("Max", 2, False)),
    ("ReduceElements", 23, int32(0) + wide("Sum"), ReduceAttributes("Sum", 0, None)),
    ("TransposeDimensions", 26, int32(1, 3), TransposeAttributes(1, 3)),
    ("TransposeDimensions", 25, int32(0, 0) + size(3, 2, 0, 1), TransposeAttributes(0, 0, (3, 1, 2))),
    ("TransposeDimensions", 2, b"", TransposeAttributes(1, 2)),
    ("Reshape", 26, int32(1, 3) + dims(6, 0), ReshapeAttributes((6, 0), 1, 3)),
    ("LegacyReshape", 26, size(60) + dims(3, 4, 5), LegacyReshapeAttributes(60, (3, 4, 5))),
    ("LegacyReshape", 26, size(60) + dims(0, 0, 0), LegacyReshapeAttributes(60)),
    ("LegacyReshape", 2, size(60) + size(4, 5, 3), LegacyReshapeAttributes(60, (3, 4, 5))),
    (
        "Slice",
        26,
        int32(2) + int64(1, 2) + int32(1) + int64(-3, 3) + int32(2),
        SliceAttributes((1, -3), (3, 0), (1, 2)),
    ),
    ("Slice", 21, int64(1, 2) + int32(3), SliceAttributes(1, 3, 3)),
    ("Slice", 2, int64(1, 2), SliceAttributes(1, 3, 1)),
    ("RowStack", 26, int32(2), StackAttributes(2)),
    ("RowStack", 2, b"", StackAttributes(1)),
    ("RowRepeat", 26, size(3), RepeatAttributes(3)),
    ("Crop", 26, float64(2.0, 3.0), CropAttributes(2, 3)),
    ("Crop", 26, float64(UNSET, UNSET), CropAttributes(None, None)),
    ("Where", 26, wide("steps"), WhereAttributes("steps")),
    ("Where", 26, wide("WhereNodeAxis"), WhereAttributes("")),
    ("Where", 10, b"", WhereAttributes("")),
    ("ToSequence", 26, wide("steps"), ToSequenceAttributes("steps")),
    ("UnpackSequence", 26, float32(-1.0) + flag(True), UnpackAttributes(-1.0, True)),
    ("Dropout", 26, size(1, 2), DropoutAttributes()),
    ("Dropout", 15, b"", DropoutAttributes()),
    ("RandomSample", 26, flag(True) + size(7) + size(1, 2), RandomSampleAttributes(7, True)),
    ("RandomSampleInclusionFrequency", 15, flag(False) + size(7), RandomSampleAttributes(7, False)),
    (
        "EditDistanceError",
        26,
        float32(1.0, 2.0, 3.0) + flag(True) + size(2, 4, 5),
        EditDistanceAttributes(1.0, 2.0, 3.0, True, (4, 5)),
    ),
    ("ForwardBackward", 26, int32(3) + size(6), ForwardBackwardAttributes(6, 3)),
    ("ForwardBackward", 26, int32(-1) + size(2**64 - 1), ForwardBackwardAttributes(-1, -1)),
    ("NoiseContrastiveEstimation", 26, int32(1), NoiseContrastiveAttributes(1)),
    ("EnvironmentInput", 26, wide("isTraining"), EnvironmentInputAttributes("isTraining")),
    (
        "Trace",
        26,
        TRACE + size(5, 6),
        TraceAttributes(
            "hello",
            100,
            10,
            True,
            5,
            6,
            (
                "type=category",
                "transpose=False",
                "labelMappingFile=map.txt",
                "prologue=<",
                "epilogue=>",
                "sequenceSeparator=",
                "sequencePrologue=",
                "sequenceEpilogue=\n",
                "elementSeparator= ",
                "sampleSeparator=;",
                "precisionFormat=.3",
            ),
        ),
    ),
    ("Convolution", 8, window(more=flag(False)), CONVOLUTION),
    ("Convolution", 17, window(more=flag(False, False)), CONVOLUTION),
    ("Convolution", 18, window(more=flag(False, False) + dims(1)), CONVOLUTION),
    (
        "Convolution",
        26,
        window(layout=0, more=flag(True) + dims(7, 7, 5) + flag(False, False, True) + dims(1)),
        ConvolutionAttributes(
            (3, 2), (5,), (2,), (True,), (True, False), (0,), (1,), True, (7, 7, 5), "HWC", 9, convolution_2d=True
        ),
    ),
    (
        "Convolution",
        4,
        size(5, 4, 2, 1) + uint32(8, 0) + flag(True) + size(0),
        ConvolutionAttributes.image(5, 4, 8, 2, 1, zero_padding=True, image_layout="HWC"),
    ),
    ("Pooling", 8, window(2), POOLING),
    (
        "Pooling",
        26,
        window(1, more=flag(False) + dims(0) + flag(True, True)),
        PoolingAttributes((3, 2), "max", (2,), (True, False), (0,), (1,), True, True),
    ),
    ("MaxUnpooling", 8, window(0), PoolingAttributes((3, 2), "max", (2,), (True, False), (0,), (1,))),
    ("MaxPooling", 26, uint32(3, 1) + size(2, 5, 4), LegacyPoolingAttributes(3, 2, 5, 4, "CHW")),
    ("AveragePooling", 1, uint32(3, 0) + size(2, 5, 4), LegacyPoolingAttributes(3, 2, 5, 4, "HWC")),
    ("ROIPooling", 25, dims(6, 6), ROIPoolingAttributes((6, 6))),
    ("ROIPooling", 26, dims(6, 6) + int32(1) + float64(0.5), ROIPoolingAttributes((6, 6), 0.5)),
    (
        "BatchNormalization",
        26,
        flag(True) + float64(100.0, 5.0) + int32(1) + size(0) + float64(0.25) + flag(False),
        BatchNormalizationAttributes(True, 100.0, 5.0, 0.25, False, "CHW"),
    ),
    (
        "BatchNormalization",
        19,
        flag(True) + float64(100.0, 5.0) + int32(1) + flag(False) + float64(0.25) + flag(True),
        BatchNormalizationAttributes(True, 100.0, 5.0, 0.25, True, "CHW"),
    ),
    (
        "BatchNormalization",
        5,
        int32(0x00010004, 0x00010004)
        + flag(False, True)
        + float64(7.0)
        + int32(1)
        + size(2)
        + float64(0.25)
        + flag(True),
        BatchNormalizationAttributes(True, 7.0, 0.0, 0.25, True, "CHW"),
    ),
    (
        "BatchNormalization",
        5,
        int32(0x00010001, 0x00010001) + flag(False, True) + float64(0.1),
        BatchNormalizationAttributes(True, 0.0, 0.0, 0.0, True, "CHW"),
    ),
    ("ReduceElements", 27, int32(1, 2) + wide("Max") + flag(False), ReduceAttributes("Max", 2, False)),
    (
        "Slice",
        31,
        int32(2) + int64(1, 2) + int32(1, 1) + int64(0, 3) + int32(2, -1),
        SliceAttributes((1, 0), (3, 3), (1, 2), (1, -1)),
    ),
    ("ExponentialLinearUnit", 31, b"", ELUAttributes()),
    ("EyeLikeOp", 31, flag(False), NoAttributes()),
]

FIRST = [
    # the first version in which something is stored, or the last one in which it is not
    ("PastValue", 4, int32(2) + dims(3, 4) + float32(0.5), DelayAttributes((3, 4), 2, 0.5)),
    ("PastValue", 2, int32(1) + size(3, 1) + float32(0.5), DelayAttributes((3,), 1, 0.5)),
    (
        "OptimizedRNNStack",
        14,
        size(0, 1, 8) + wide("rnnTanh") + int32(1),
        RNNStackAttributes(8, 1, False, "rnnTanh", 1),
    ),
    ("Times", 3, size(2), TimesAttributes(2, -1)),
    ("Times", 12, size(2) + int32(0), TimesAttributes(2, 0)),
    ("ReduceElements", 24, int32(2) + wide("Max") + flag(True), ReduceAttributes("Max", 2, True)),
    ("TransposeDimensions", 3, int32(2, 3), TransposeAttributes(2, 3)),
    ("TransposeDimensions", 24, int32(0, 0), TransposeAttributes(0, 0)),
    ("TransposeDimensions", 26, int32(0, 2), TransposeAttributes(0, 2)),
    ("LegacyReshape", 4, size(60) + dims(3, 4, 5), LegacyReshapeAttributes(60, (3, 4, 5))),
    ("LegacyReshape", 3, size(60) + size(4, 5, 3), LegacyReshapeAttributes(60, (3, 4, 5))),
    ("Slice", 3, int64(1, 2) + int32(3), SliceAttributes(1, 3, 3)),
    ("Slice", 22, int32(1) + int64(1, 2) + int32(3), SliceAttributes(1, 3, 3)),
    ("Slice", 27, int32(1) + int64(1, 2) + int32(3, 2), SliceAttributes((1,), (3,), (3,), (2,))),
    ("RowStack", 3, int32(2), StackAttributes(2)),
    ("Where", 11, wide("steps"), WhereAttributes("steps")),
    ("Dropout", 17, size(1, 2), DropoutAttributes()),
    ("RandomSample", 17, flag(True) + size(7) + size(1, 2), RandomSampleAttributes(7, True)),
    ("Convolution", 5, window(more=flag(False)), CONVOLUTION),
    ("Convolution", 9, window(more=flag(False, False)), CONVOLUTION),
    ("Convolution", 19, window(more=flag(False, False) + dims(1)), CONVOLUTION),
    ("Convolution", 20, window(more=flag(False) + dims(0) + flag(False) + dims(1)), CONVOLUTION),
    ("Convolution", 21, window(more=flag(False) + dims(0) + flag(False, False) + dims(1)), CONVOLUTION),
    ("Convolution", 22, window(more=flag(False) + dims(0) + flag(False, False) + dims(1)), CONVOLUTION),
    ("Convolution", 23, window(more=flag(False) + dims(0) + flag(False, False, False) + dims(1)), CONVOLUTION),
    ("Pooling", 9, window(2, more=flag(False)), POOLING),
    ("Pooling", 20, window(2, more=flag(False) + dims(0)), POOLING),
    ("Pooling", 21, window(2, more=flag(False) + dims(0) + flag(False)), POOLING),
    ("Pooling", 23, window(2, more=flag(False) + dims(0) + flag(False, False)), POOLING),
    (
        "BatchNormalization",
        6,
        flag(True) + float64(100.0, 5.0) + int32(1) + size(0) + float64(0.25) + flag(False),
        BatchNormalizationAttributes(True, 100.0, 5.0, 0.25, False, "CHW"),
    ),
    (
        "BatchNormalization",
        5,
        int32(0x00010002, 0x00010001) + flag(False, True) + float64(7.0) + int32(0) + size(2),
        BatchNormalizationAttributes(True, 0.0, 0.0, 0.0, True, "HWC"),
    ),
    (
        "BatchNormalization",
        5,
        int32(0x00010003, 0x00010002)
        + flag(False, True)
        + float64(7.0)
        + int32(1)
        + size(2)
        + float64(0.5)
        + flag(False),
        BatchNormalizationAttributes(True, 0.0, 0.0, 0.5, False, "CHW"),
    ),
]
CASES += FIRST


@pytest.mark.parametrize(("operation", "version", "data", "expected"), CASES)
def test_attributes(operation, version, data, expected):
    assert read(operation, data, version) == expected


def test_every_operation_that_stores_something_is_tried():
    assert {case[0] for case in CASES} == {*READERS, *IMAGE_READERS}


@pytest.mark.parametrize(
    ("version", "data", "samples"),
    [
        (5, int32(0x00010002, 0x00010001) + flag(False, True) + float64(7.0) + int32(0) + size(2), 32),
        (6, flag(True) + float64(100.0, 5.0) + int32(1) + size(2) + float64(0.25) + flag(False), 32),
        (12, flag(True) + float64(100.0, 5.0) + int32(1) + size(2) + float64(0.25) + flag(False), 32),
        (13, flag(True) + float64(100.0, 5.0) + int32(1) + size(2) + float64(0.25) + flag(False), 2),
        (19, flag(True) + float64(100.0, 5.0) + int32(1) + flag(True) + float64(0.25) + flag(False), None),
        (20, flag(True) + float64(100.0, 5.0) + int32(1) + size(2) + float64(0.25) + flag(False), 2),
    ],
)
def test_of_how_many_samples_statistics_are_made(version, data, samples):
    """Before version 13 minibatches were counted, and nobody knows their sizes."""
    begun = source(data, version)
    IMAGE_READERS["BatchNormalization"](begun)
    assert begun.reader.left == 0
    assert begun.samples == samples


def test_numbers_of_a_double_network_are_double():
    assert read("PastValue", int32(1) + dims(3) + float64(0.1), dtype=np.float64) == DelayAttributes((3,), 1, 0.1)


@pytest.mark.parametrize("seed", [size(1), uint32(1)])
@pytest.mark.parametrize("behind", ["float", "double", "ENodeList"])
def test_random_states_of_version_16_have_two_sizes(seed, behind):
    begun = source(seed + size(3) + wide(behind), 16)
    READERS["Dropout"](begun)
    assert begun.reader.sees(behind)


def test_an_estimation_of_the_time_without_modes():
    begun = source(wide("float"))
    assert READERS["NoiseContrastiveEstimation"](begun) == NoiseContrastiveAttributes(2)
    assert begun.reader.position == 0


REFUSED = [
    ("Slice", int32(0), "byte 0: a slice of 0 axes"),
    ("RowStack", int32(99), "byte 0: rows joined along axis 99"),
    ("Crop", float64(-1.0, 0.0), "byte 0: -1.0 is no sensible offset"),
    ("RowRepeat", size(2**40), "byte 0: 1099511627776 is no sensible number of repetitions"),
    ("MaxPooling", uint32(3, 7) + size(1, 1, 1), "byte 4: there is no image layout 7"),
    ("Pooling", window(5, more=flag(False) + dims(0) + flag(True, True)), "byte 0: there is no kind of pooling 5"),
    ("Times", size(33), "byte 0: 33 is no sensible outputRank"),
    ("Where", b"x", "byte 0: the name of an axis does not end"),
    ("EditDistanceError", float32(1, 1, 1) + flag(True) + size(9), "byte 13: 9 numbers cannot follow in 0 bytes"),
    ("Trace", b"hello", "byte 0: a text does not end"),
    ("RowRepeat", b"1234", "byte 0: a number needs 8 bytes, but the file ends after 4"),
]


@pytest.mark.parametrize(("operation", "data", "message"), REFUSED)
def test_what_makes_no_sense_is_refused(operation, data, message):
    with pytest.raises(ModelFormatError) as caught:
        read(operation, data)
    assert str(caught.value) == f"'old.dnn' is damaged at {message}"


def test_a_version_of_batch_normalization_that_there_is_not():
    with pytest.raises(ModelFormatError) as caught:
        read("BatchNormalization", int32(0x00020000, 0x00020000), 5)
    assert str(caught.value) == "'old.dnn' is damaged at byte 0: there is no version 0x20000 of batch normalization"


def test_a_reduction_of_several_axes():
    """The one along the highest axis comes first, so that none is moved by one that is dropped."""
    begun = source(int32(3, 1, 3, 2) + wide("Sum") + flag(False), 27)
    assert READERS["ReduceElements"](begun) == ReduceAttributes("Sum", 1, False)
    assert begun.before == [ReduceAttributes("Sum", 3, False), ReduceAttributes("Sum", 2, False)]
    with pytest.raises(ModelFormatError) as caught:
        read("ReduceElements", int32(40), 27)
    assert str(caught.value) == "'old.dnn' is damaged at byte 0: a reduction of 40 axes"


def test_a_dilated_convolution():
    attributes = read("Convolution", window(more=flag(False, False) + dims(2, 2)), 18)
    assert attributes.dilation == (2, 2)


def test_regions_pooled_by_their_mean():
    with pytest.raises(UnsupportedError) as caught:
        read("ROIPooling", dims(6, 6) + int32(2) + float64(0.5))
    assert str(caught.value) == "'old.dnn' pools regions by their average, which cannot be read"
