"""Exact texts of mistakes in shapes and attributes."""

from __future__ import annotations

import pytest

from cntk_core.errors import CntkError, ShapeError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.attention import WeightsAttributes
from cntk_core.ops.families.cropping import CropAttributes
from cntk_core.ops.families.distances import NegativeSamplesAttributes
from cntk_core.ops.families.leaves import EnvironmentInputAttributes
from cntk_core.ops.families.pooling import ROIPoolingAttributes
from cntk_core.ops.families.products import TimesAttributes
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.reshaping import LegacyReshapeAttributes, ReshapeAttributes, TransposeAttributes
from cntk_core.ops.families.sampling import RandomDistributionAttributes, RandomSampleAttributes
from cntk_core.ops.families.slicing import OneHotAttributes, RepeatAttributes, SliceAttributes, StackAttributes
from cntk_core.ops.families.vocabulary import NoiseContrastiveAttributes
from cntk_core.ops.table import core_ops

TABLE = core_ops()

CASES = [
    (
        "EnvironmentInput",
        [],
        EnvironmentInputAttributes("epoch"),
        "there is no environment property 'epoch'",
    ),
    ("Times", [(4, 5), (3,)], None, "[5 x 4] * [3]: the inner dimensions differ, 4 on the left and 3 on the right"),
    (
        "Times",
        [(3, 2, 5), (2,)],
        None,
        "[5 x 2 x 3] * [2]: the product sums over 2 axes, but the right operand has 1",
    ),
    ("Times", [(4, 5), (4,)], TimesAttributes(3), "outputRank 3 does not fit the left operand [5 x 4]"),
    ("TransposeTimes", [(2, 3, 4), (3,)], None, "only a matrix or a vector can be transposed, not [4 x 3 x 2]"),
    (
        "TransposeTimes",
        [(5, 4), (4,)],
        TimesAttributes(2),
        "outputRank must be 1 when the left operand is transposed, not 2",
    ),
    ("DiagTimes", [(3,), (4,)], None, "the diagonal [3] does not fit [4], which has 4 rows"),
    ("Plus", [(4,), (3,)], None, "the shapes [4] and [3] do not fit: axis 1 is 3 and 4"),
    ("ElementTimes", [(2, 4), (3, 4)], None, "the shapes [4 x 2] and [4 x 3] do not fit: axis 2 is 2 and 3"),
    ("CrossEntropyWithSoftmax", [(10,), (1,)], None, "the inputs [10] and [1] must have the same shape"),
    ("SquareError", [(3,), (2,)], None, "the shapes [3] and [2] do not fit: axis 1 is 2 and 3"),
    ("ClassificationError", [(3,), (3,), (2,)], None, "topN must be a single number, not [2]"),
    ("DummyCriterion", [(2,), (4,), (4,)], None, "the objective must be a single number, not [2]"),
    ("CosDistance", [(3,), (4,)], None, "the inputs [3] and [4] must have the same number of elements"),
    (
        "CosDistanceWithNegativeSamples",
        [(3,), (3,)],
        NegativeSamplesAttributes(1, -1),
        "the number of negative samples must not be negative, but is -1",
    ),
    ("ReduceElements", [(3, 4)], ReduceAttributes("Sum", 3), "the input [4 x 3] has no axis 3"),
    ("ReduceElements", [(3,)], ReduceAttributes("Summ"), "there is no reduction 'Summ'; did you mean 'Sum'?"),
    ("Reshape", [(2, 3)], ReshapeAttributes((4,)), "[3 x 2] with 6 elements cannot become [4]"),
    ("Reshape", [(2, 3)], ReshapeAttributes((4, 0)), "[3 x 2] with 6 elements cannot become [4 x 0]"),
    ("Reshape", [(2, 3)], ReshapeAttributes((0, 0)), "more than one of the new dimensions [0 x 0] is 0"),
    ("Reshape", [(2, 3)], ReshapeAttributes((2,), 4, 5), "the input [3 x 2] has no axes 4 to 4"),
    ("LegacyReshape", [(6,)], LegacyReshapeAttributes(6, (2, 2)), "the image [2 x 2] has 4 elements, not 6"),
    ("TransposeDimensions", [(4,)], TransposeAttributes(2, 3), "the axes 2 and 3 of [4] cannot be swapped"),
    (
        "TransposeDimensions",
        [(2, 3)],
        TransposeAttributes(permutation=(1, 1)),
        "1:1 is not a permutation of the 2 axes of [3 x 2]",
    ),
    ("Slice", [(5,)], SliceAttributes(2, 7), "the range 2 to 7 of axis 1 is not inside [5]"),
    ("Slice", [(5,)], SliceAttributes(0, 1, 2), "the input [5] has no axis 2"),
    ("RowStack", [(2, 4), (3, 4)], None, "[4 x 2] and [4 x 3] cannot be stacked along axis 1: axis 2 differs"),
    ("RowStack", [(4,), (4,)], StackAttributes(0), "inputs cannot be stacked along axis 0"),
    ("RowRepeat", [(4,)], RepeatAttributes(0), "RowRepeat needs at least 1 repetition, not 0"),
    ("Diagonal", [(2, 3)], None, "only a square matrix has a diagonal, not [3 x 2]"),
    ("OneHot", [(1,)], OneHotAttributes(0), "OneHot needs at least 1 class, not 0"),
    ("ReduceElements", [(4,)], ReduceAttributes("Sum", -4), "there is no axis -4"),
    (
        "ReduceElements",
        [(4,)],
        ReduceAttributes("Argmin", -1),
        "Argmin over all axes has no place to tell; it goes along one axis or over a sample",
    ),
    ("AttentionWeights", [(), (1,)], None, "the memory [1] has no axis for its steps"),
    ("AttentionWeights", [(5, 4), (3,)], None, "a step of the memory [4 x 5] has 4 elements, a frame 3"),
    ("AttentionWeights", [(5, 4), (4,)], WeightsAttributes(3), "4 elements cannot be parted among 3 heads"),
    (
        "AttentionWeights",
        [(5, 4), (4,), (4,)],
        None,
        "[4] does not say of each of the 5 steps whether it is there",
    ),
    (
        "AdditiveAttentionWeights",
        [(5, 4), (4,), (3,)],
        None,
        "a step of the memory [4 x 5] has 4 elements, unlike [4] and [3]",
    ),
    ("SumOfOuterProducts", [(), (3,)], None, "the vectors of [1] and [3] do not make pairs"),
    ("SumOfOuterProducts", [(2, 3), (4, 3)], None, "the vectors of [3 x 2] and [3 x 4] do not make pairs"),
    ("Crop", [(3,), (2, 2)], None, "only values with width and height can be cropped, not [3] to [2 x 2]"),
    ("Crop", [(3, 3), (2,)], None, "only values with width and height can be cropped, not [3 x 3] to [2]"),
    ("Crop", [(3, 3), (2, 2)], CropAttributes(2, 0), "[3 x 3] is too small for a part of 2 x 2 at 2, 0"),
    ("Crop", [(3, 3), (2, 2)], CropAttributes(0, 2), "[3 x 3] is too small for a part of 2 x 2 at 0, 2"),
    (
        "GMMLogLikelihood",
        [(2,), (2, 3), (3,), (3,)],
        None,
        "the log deviations [3] must have a number for each of the 2 components",
    ),
    (
        "GMMLogLikelihood",
        [(2,), (2, 2), (2,), (3,)],
        None,
        "the means [2 x 2] must have 3 numbers for each of the 2 components",
    ),
    (
        "ROIPooling",
        [(4, 4), (2, 4)],
        ROIPoolingAttributes((2, 2)),
        "the input must be an image [W x H x C], not [4 x 4]",
    ),
    ("ROIPooling", [(1, 4, 4), (2, 4)], ROIPoolingAttributes((2,)), "the output of a region has width and height"),
    (
        "ROIPooling",
        [(1, 4, 3), (2, 4)],
        ROIPoolingAttributes((4, 4)),
        "the input [3 x 4 x 1] is smaller than the output of a region, 4 x 4",
    ),
    (
        "ROIPooling",
        [(1, 3, 4), (2, 4)],
        ROIPoolingAttributes((4, 4)),
        "the input [4 x 3 x 1] is smaller than the output of a region, 4 x 4",
    ),
    ("LambdaRank", [(1,), (2,), (1,)], None, "the score must be a single number for each frame, not [2]"),
    ("NDCG1Eval", [(1,), (1,), (3,)], None, "the query must be a single number for each frame, not [3]"),
    ("RandomDistribution", [], RandomDistributionAttributes("poisson"), "there is no distribution 'poisson'"),
    ("RandomSample", [(4,)], RandomSampleAttributes(0), "at least 1 sample must be drawn, not 0"),
    (
        "RandomSampleInclusionFrequency",
        [(4,)],
        RandomSampleAttributes(5),
        "5 different classes cannot be drawn from the 4 of [4]",
    ),
    ("Where", [(2,)], None, "the condition must be a single number for each frame, not [2]"),
    ("PackedIndex", [(1,), (2,)], None, "the index must be a single number for each frame, not [2]"),
    ("GatherPacked", [(2,), (3,)], None, "the index must be a single number for each frame, not [2]"),
    ("ToSequence", [(3,)], None, "the input [3] has no axis that could become a sequence; it needs two"),
    ("Gather", [(2,), ()], None, "a single number has no rows to gather"),
    (
        "LookupTable",
        [(4, 3), (5,)],
        None,
        "the rows of [5] must be a multiple of the columns of the table [3 x 4]",
    ),
    (
        "ClassBasedCrossEntropyWithSoftmax",
        [(3,), (5,), (9, 5), (2,)],
        None,
        "the labels must have 4 rows (word, class, first and past-the-end word), not [3]",
    ),
    (
        "ClassBasedCrossEntropyWithSoftmax",
        [(4,), (5,), (9, 4), (2,)],
        None,
        "the weights [4 x 9] must have a row for each element of [5]",
    ),
    (
        "NoiseContrastiveEstimation",
        [(3,), (5,), (9, 5), (9,)],
        None,
        "the labels [3] must be pairs of a word and its log probability",
    ),
    (
        "NoiseContrastiveEstimation",
        [(4,), (5,), (9, 4), (9,)],
        None,
        "the weights [4 x 9] must have a row for each element of [5]",
    ),
    (
        "NoiseContrastiveEstimation",
        [(4,), (5,), (9, 5), (8,)],
        None,
        "the biases [8] must have a number for each of the 9 words",
    ),
    (
        "NoiseContrastiveEstimation",
        [(4,), (5,), (9, 5), (9,)],
        NoiseContrastiveAttributes(3),
        "there is no evaluation mode 3",
    ),
    (
        "CosDistanceWithNegativeSamples",
        [(3,), (3,), (1,)],
        NegativeSamplesAttributes(1, 1),
        "takes 2 inputs, or 4 with the constants of its settings, not 3",
    ),
    ("AttentionSum", [(5, 4), (4,)], None, "[4] does not give each of the 5 steps of the memory a weight"),
    ("AttentionSum", [(5, 4), (3, 5)], None, "4 elements cannot be parted among 3 heads"),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "text"), CASES)
def test_shape_mistake(name, shapes, attributes, text):
    op = TABLE.find("", name)
    assert op is not None
    with pytest.raises(ShapeError) as error:
        op.infer(shapes, op.attributes() if attributes is None else attributes)
    assert error.value.message == text


FITTING = [
    ("LookupTable", [(10, 3), (10,)], None, (3,)),
    ("LookupTable", [(10, 3), (20,)], None, (6,)),
    ("DiagTimes", [(1,), ()], None, ()),
    ("DiagTimes", [(6,), (3, 2)], None, (3, 2)),
    ("DiagTimes", [(2,), (3, 2)], None, (3, 2)),
    ("Crop", [(3, 3), (2, 2)], CropAttributes(1, 1), (2, 2)),
    ("GMMLogLikelihood", [(2,), (2, 3), (2,), (3,)], None, (1,)),
    ("ROIPooling", [(1, 2, 3), (5, 4)], ROIPoolingAttributes((3, 2)), (5, 1, 2, 3)),
    ("RandomSample", [(4,)], RandomSampleAttributes(4), (4, 4)),
    ("RandomSample", [(4,)], RandomSampleAttributes(5, allow_duplicates=True), (5, 4)),
    ("RandomSampleInclusionFrequency", [(4,)], RandomSampleAttributes(1), (1, 4)),
    ("ToSequence", [(3, 2)], None, (2,)),
    ("Gather", [(2,), (7, 3)], None, (2, 3)),
    ("LookupTable", [(4, 3), (8,)], None, (6,)),
    ("NoiseContrastiveEstimation", [(1,), (5,), (9, 5), (9,)], None, (1,)),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "found"), FITTING)
def test_the_last_shapes_that_fit(name, shapes, attributes, found):
    op = TABLE.find("", name)
    assert op is not None
    assert op.infer(shapes, op.attributes() if attributes is None else attributes) == found


LIMITS = [
    (
        "TransposeTimes",
        [(4, 5), (5,)],
        TimesAttributes(1, -2),
        "TransposeTimes over the sequence axis (inferInputRankToMap=-2) is not there yet",
    ),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "text"), LIMITS)
def test_what_is_not_there_yet_is_named(name, shapes, attributes, text):
    op = TABLE.find("", name)
    assert op is not None
    assert op.infer(shapes, attributes)
    assert op.missing(attributes) == text


def test_a_reshape_to_rows_that_do_not_divide_is_refused():
    op = TABLE.find("", "LegacyReshape")
    assert op is not None
    with pytest.raises(ShapeError) as error:
        op.infer([(4,)], LegacyReshapeAttributes(3))
    assert str(error.value) == "3 rows are neither a multiple nor a part of the 4 rows of [4]"


INCOMPLETE = [
    (
        "Times",
        [(0, 0), (4,)],
        TimesAttributes(),
        "the output dimensions of the left operand [0 x 0] cannot be inferred",
    ),
    (
        "Times",
        [(0, 5), (4,)],
        TimesAttributes(1, 1),
        "inferInputRankToMap 1 leaves no axis of the right operand [4] to sum over",
    ),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "text"), INCOMPLETE)
def test_dimensions_that_cannot_be_inferred(name, shapes, attributes, text):
    op = TABLE.find("", name)
    assert op is not None
    assert op.complete is not None
    with pytest.raises(ShapeError) as error:
        op.complete(shapes, attributes)
    assert error.value.message == text


def test_slice_with_unequal_lists():
    with pytest.raises(ShapeError) as error:
        SliceAttributes((0, 1), 2, 1)
    assert str(error.value) == "Slice needs as many begins as ends and axes, not 2 begins, 1 ends, 1 axes"


def test_a_network_names_the_node_and_its_operands():
    network = Network()
    x = network.add(Input.make("x", (3,)))
    weight = network.add(Parameter.make("W", (4, 5)))
    times = TABLE.find("ndl", "Times")
    assert times is not None
    network.add(Node("y", times, [weight, x], TimesAttributes()))
    with pytest.raises(CntkError) as error:
        network.infer()
    assert str(error.value) == (
        "Times 'y': [5 x 4] * [3]: the inner dimensions differ, 4 on the left and 3 on the right\n"
        "    Inputs: W [5 x 4], x [3]"
    )


@pytest.mark.parametrize(
    ("left", "right", "attributes", "completed"),
    [
        ((0, 5), (4,), TimesAttributes(), (4, 5)),
        ((0, 5), (2, 3, 4), TimesAttributes(), (4, 5)),
        ((0, 5), (2, 3, 4), TimesAttributes(1, 0), (2, 3, 4, 5)),
        ((0, 5), (6, 2, 3, 4), TimesAttributes(1, 1), (2, 3, 4, 5)),
        ((0, 0, 5), (2, 3, 4), TimesAttributes(), (3, 4, 5)),
        ((0, 6, 5), (4,), TimesAttributes(2), (4, 6, 5)),
    ],
)
def test_times_completes_its_left_operand(left, right, attributes, completed):
    times = TABLE.find("", "Times")
    assert times is not None
    assert times.complete is not None
    assert list(times.complete([left, right], attributes)) == [completed, right]


@pytest.mark.parametrize(
    ("shapes", "completed"),
    [
        ([(0,), (4,)], [(4,), (4,)]),
        ([(1, 0), (4,)], [(1, 4), (4,)]),
        ([(0, 0), (4,)], [(1, 4), (4,)]),
        ([(4,), (0, 0)], [(4,), (1, 4)]),
        ([(0,), (0,)], [(0,), (0,)]),
    ],
)
def test_element_wise_ops_complete_from_each_other(shapes, completed):
    plus = TABLE.find("", "Plus")
    assert plus is not None
    assert plus.complete is not None
    assert plus.complete(shapes, plus.attributes()) == completed
