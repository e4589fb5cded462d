"""Dimensions 0 of parameters, filled in from the other inputs; and shapes that are guessed inside loops."""

from __future__ import annotations

import pytest

from cntk_core.errors import ShapeError
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.filling import FillAttributes
from cntk_core.ops.families.normalization import BatchNormalizationAttributes
from cntk_core.ops.families.products import TimesAttributes
from cntk_core.ops.families.recurrent_stack import RNNStackAttributes
from cntk_core.ops.families.sampling import RandomDistributionAttributes
from cntk_core.ops.families.slicing import SliceAttributes
from cntk_core.ops.language.define import fill_from_others, guess_broadcast, guess_first
from cntk_core.ops.table import core_ops

TABLE = core_ops()

PADDED = (True, True, False)
TRANSPOSED = ConvolutionAttributes((3, 3, 5), 2, auto_padding=PADDED, transpose=True)
UNCOUNTED = ConvolutionAttributes((3, 3, 5), auto_padding=PADDED, transpose=True)
MANY_MAPS = ConvolutionAttributes((3, 3, 2), (2, 1, 5), auto_padding=PADDED)
OWN_WEIGHTS = ConvolutionAttributes((3, 3, 2), 5, auto_padding=PADDED, sharing=False)
GROUPS = ConvolutionAttributes((3, 3, 2), auto_padding=PADDED, groups=2)

COMPLETED = [
    ("Plus", None, [(0,), (4,)], [(4,), (4,)]),
    ("Plus", None, [(3, 0), (3, 4)], [(3, 4), (3, 4)]),
    ("Plus", None, [(0, 4), (4,)], [(1, 4), (4,)]),
    ("Plus", None, [(0,), (3, 4)], [(4,), (3, 4)]),
    ("Plus", None, [(0,), (0,)], [(0,), (0,)]),
    ("Plus", None, [(0,), ()], [(1,), ()]),
    ("Clip", None, [(0,), (1,), (5,)], [(5,), (1,), (5,)]),
    ("Times", None, [(0, 5), (4,)], [(4, 5), (4,)]),
    ("Times", None, [(0, 5), (7, 4)], [(4, 5), (7, 4)]),
    ("Times", None, [(0, 0, 5), (3, 4)], [(3, 4, 5), (3, 4)]),
    ("Times", None, [(4, 5), (4,)], [(4, 5), (4,)]),
    ("Times", None, [(0, 0, 5), (4,)], [(0, 4, 5), (4,)]),
    ("Times", TimesAttributes(2), [(0, 6, 5), (4,)], [(4, 6, 5), (4,)]),
    ("Times", TimesAttributes(1, 0), [(0, 5), (3, 4)], [(3, 4, 5), (3, 4)]),
    ("Times", TimesAttributes(1, 1), [(0, 5), (2, 3, 4)], [(3, 4, 5), (2, 3, 4)]),
    ("Times", TimesAttributes(1, 1), [(0, 5), (3, 4)], [(4, 5), (3, 4)]),
    ("Times", TimesAttributes(1, 0), [(4, 5), (3, 4)], [(4, 5), (3, 4)]),
    ("QuantizedTimes", None, [(0, 5), (4,)], [(4, 5), (4,)]),
    ("TransposeTimes", None, [(5, 0), (4,)], [(5, 4), (4,)]),
    ("TransposeTimes", None, [(0,), (7, 4)], [(4,), (7, 4)]),
    ("DiagTimes", None, [(0,), (4,)], [(4,), (4,)]),
    ("DiagTimes", None, [(0, 0), (4,)], [(1, 4), (4,)]),
    ("DiagTimes", None, [(3, 2), (6,)], [(3, 2), (6,)]),
    ("CosDistance", None, [(0,), (4,)], [(4,), (4,)]),
    ("CosDistanceWithNegativeSamples", None, [(0,), (4,), (1,), (1,)], [(4,), (4,), (1,), (1,)]),
    ("CosDistanceWithNegativeSamples", None, [(4,), (0,)], [(4,), (4,)]),
    ("LookupTable", None, [(0, 3), (10,)], [(10, 3), (10,)]),
    ("LookupTable", None, [(7, 3), (14,)], [(7, 3), (14,)]),
    ("PastValue", None, [(3, 4), (0,)], [(3, 4), (4,)]),
    ("PastValue", None, [(3, 4), (0, 4)], [(3, 4), (3, 4)]),
    ("FutureValue", None, [(3, 4), (1,)], [(3, 4), (1,)]),
    ("PastValue", None, [(3, 4)], [(3, 4)]),
    ("OptimizedRNNStack", RNNStackAttributes(3), [(0, 0), (4,)], [(36, 3), (4,)]),
    ("OptimizedRNNStack", RNNStackAttributes(3), [(7, 0), (4,)], [(7, 3), (4,)]),
    ("OptimizedRNNStack", RNNStackAttributes(3, bidirectional=True), [(0, 9), (4,)], [(24, 9), (4,)]),
    ("OptimizedRNNStack", RNNStackAttributes(3, recurrent_op="gru"), [(0,), (4,)], [(81,), (4,)]),
    ("AdditiveAttentionWeights", None, [(5, 4), (4,), (0,)], [(5, 4), (4,), (4,)]),
    ("AdditiveAttentionWeights", None, [(5, 4), (4,), (0,), (5,)], [(5, 4), (4,), (4,), (5,)]),
    ("AdditiveAttentionWeights", None, [(5, 4), (2, 2), (4,)], [(5, 4), (2, 2), (4,)]),
    ("SequenceDecoder", None, [(4,), (4,), (0, 0)], [(4,), (4,), (4, 4)]),
    ("CRF", None, [(4,), (4,), (0, 4)], [(4,), (4,), (4, 4)]),
    ("Convolution", ConvolutionAttributes((3, 3, 2), 5), [(0, 0), (2, 6, 6)], [(18, 5), (2, 6, 6)]),
    ("Convolution", ConvolutionAttributes((3, 3, 2), 5), [(0, 0, 0, 0), (2, 6, 6)], [(5, 2, 3, 3), (2, 6, 6)]),
    ("Convolution", ConvolutionAttributes((3, 3, 2)), [(7, 0, 0, 0), (2, 6, 6)], [(7, 2, 3, 3), (2, 6, 6)]),
    ("Convolution", ConvolutionAttributes((3, 3, 2)), [(0, 7), (2, 6, 6)], [(18, 7), (2, 6, 6)]),
    ("Convolution", GROUPS, [(4, 0, 0, 0), (4, 6, 6)], [(4, 2, 3, 3), (4, 6, 6)]),
    ("Convolution", TRANSPOSED, [(2, 0, 0, 0), (2, 6, 6)], [(2, 5, 3, 3), (2, 6, 6)]),
    ("Convolution", UNCOUNTED, [(0, 0, 0, 0), (2, 6, 6)], [(2, 5, 3, 3), (2, 6, 6)]),
    ("Convolution", MANY_MAPS, [(0, 0, 0, 0, 0, 0), (2, 6, 6)], [(5, 1, 2, 2, 3, 3), (2, 6, 6)]),
    ("Convolution", OWN_WEIGHTS, [(0, 5), (2, 6, 6)], [(648, 5), (2, 6, 6)]),
    ("Convolution", OWN_WEIGHTS, [(0, 0), (2, 6, 6)], [(0, 0), (2, 6, 6)]),
    (
        "BatchNormalization",
        BatchNormalizationAttributes(),
        [(3, 4), (0,), (0, 1), (1, 0), (0, 0), (1,)],
        [(3, 4), (12,), (12, 1), (1, 12), (1, 12), (1,)],
    ),
    (
        "BatchNormalization",
        BatchNormalizationAttributes(spatial=True),
        [(3, 4, 5), (0,), (0, 2), (3, 1), ()],
        [(3, 4, 5), (3,), (0, 2), (3, 1), ()],
    ),
    ("LayerNormalization", None, [(3, 4), (0, 0), (0,)], [(3, 4), (3, 4), (4,)]),
    ("LayerNormalization", None, [(3, 4), (0, 0, 0), (5,)], [(3, 4), (1, 3, 4), (5,)]),
    ("Assign", None, [(0, 2), (3, 4)], [(3, 4), (3, 4)]),
    ("Assign", None, [(5, 2), (3, 4)], [(5, 2), (3, 4)]),
]


@pytest.mark.parametrize(("name", "attributes", "shapes", "expected"), COMPLETED)
def test_dimensions_that_are_filled_in(name, attributes, shapes, expected):
    op = TABLE.find("", name)
    settings = op.attributes() if attributes is None else attributes
    assert [tuple(shape) for shape in op.complete(shapes, settings)] == expected


def test_every_op_that_fills_in_has_a_case():
    tried = {name for name, *_ in COMPLETED}
    assert {op.name for op in TABLE if op.complete not in (None, fill_from_others)} <= tried


def test_shapes_that_do_not_tell_a_parameters_dimensions():
    op = TABLE.find("", "Times")
    with pytest.raises(ShapeError, match=r"^the output dimensions of the left operand \[0 x 4\] cannot be inferred$"):
        op.complete([(4, 0), (4,)], TimesAttributes())
    with pytest.raises(ShapeError) as error:
        op.complete([(0, 5), (3, 4)], TimesAttributes(1, 2))
    assert error.value.message == "inferInputRankToMap 2 leaves no axis of the right operand [4 x 3] to sum over"


GUESSED = [
    ("Plus", None, [(3,), None], (3,)),
    ("Plus", None, [(3,), (2, 3)], (2, 3)),
    ("Plus", None, [(3, 0), (4,)], (4,)),
    ("Plus", None, [None, None], None),
    ("Times", None, [(4, 5), None], (5,)),
    ("Times", None, [(4, 0), None], None),
    ("Times", None, [(0, 5), None], (5,)),
    ("Times", None, [None, (4,)], None),
    ("Times", None, [(5,), None], (5,)),
    ("Times", TimesAttributes(2), [(4, 6, 5), None], (6, 5)),
    ("Times", TimesAttributes(2), [(6, 5), None], (6, 5)),
    ("Times", TimesAttributes(2), [(5,), None], None),
    ("QuantizedTimes", None, [(4, 5), None], (5,)),
    ("TransposeTimes", None, [(5, 4), None], (5,)),
    ("TransposeTimes", None, [None, (4,)], None),
    ("DiagTimes", None, [(4,), None], (4,)),
    ("DiagTimes", None, [(4,), (3, 4)], (3, 4)),
    ("Slice", SliceAttributes(0, 2), [(5,)], (2,)),
    ("Slice", SliceAttributes(1, 2), [(0,)], (1,)),
    ("Slice", SliceAttributes(2, 2), [(5,)], None),
    ("Slice", SliceAttributes(-2, 2), [(5,)], None),
    ("Slice", SliceAttributes(1, 0), [(5,)], None),
    ("Slice", SliceAttributes(0, 2, 2), [(5,)], (2, 5)),
    ("Slice", SliceAttributes(0, 2, 2), [(7, 5)], (2, 5)),
    ("Slice", SliceAttributes(0, 5, 1, 2), [(7, 9)], (7, 3)),
    ("Slice", SliceAttributes(0, 6, 1, -2), [(9,)], (3,)),
    ("Slice", SliceAttributes((0, 0), (2, 3), (1, 2), (1, 1)), [(7, 9)], (3, 2)),
    ("Slice", SliceAttributes(0, 2), [None], None),
    ("RandomDistribution", RandomDistributionAttributes(dims=(2, 3)), [], (3, 2)),
    ("RandomDistribution", None, [(4,)], (4,)),
    ("RandomDistribution", None, [None], None),
    ("OptimizedRNNStack", RNNStackAttributes(3), [(9, 3), (4,)], (3,)),
    ("OptimizedRNNStack", RNNStackAttributes(3, bidirectional=True), [(0,), (7, 4)], (7, 6)),
    ("OptimizedRNNStack", RNNStackAttributes(3), [(9, 3), None], None),
    ("GatherPacked", None, [(1,), (4,)], (4,)),
    ("ScatterPacked", None, [(1,), (2,), (4,)], (4,)),
    ("Dropout", None, [(2, 4)], (2, 4)),
    ("PastValue", None, [(2, 4), (1,)], (2, 4)),
    ("Softmax", None, [None], None),
    ("ConstantOp", FillAttributes(1.0), [(3,)], (3,)),
]


@pytest.mark.parametrize(("name", "attributes", "shapes", "expected"), GUESSED)
def test_shapes_that_are_guessed(name, attributes, shapes, expected):
    op = TABLE.find("", name)
    assert op.guess(shapes, op.attributes() if attributes is None else attributes) == expected


def test_every_op_that_guesses_by_a_rule_of_its_own_has_a_case():
    tried = {name for name, *_ in GUESSED}
    assert {op.name for op in TABLE if op.guess not in (None, guess_broadcast, guess_first)} <= tried
