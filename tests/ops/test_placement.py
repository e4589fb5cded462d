"""Which place of an input a place of an image lies on, by hand."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.cropping import CropAttributes
from cntk_core.ops.families.pooling import PoolingAttributes
from cntk_core.ops.language.placement import Along, Placement
from cntk_core.ops.table import core_ops

TABLE = core_ops()
NO_PADDING = {"auto_padding": (False,)}
HALVES = PoolingAttributes((3, 2), stride=(2, 4), **NO_PADDING)
FILTER = ConvolutionAttributes((5, 3, 1), (1,), (2, 3, 1), **NO_PADDING)

# The centre of window n lies at (kernel - 1) // 2 + stride * n.
PLACES = [
    ("Pooling", [(1, 10, 9)], HALVES, 0, Placement(Along(F(1, 2), F(-1, 2)), Along(F(1, 4), F(0)))),
    ("MaxUnpooling", [(1, 3, 4), (1, 10, 9)], HALVES, 0, Placement(Along(F(2), F(1)), Along(F(4), F(0)))),
    ("MaxUnpooling", [(1, 3, 4), (1, 10, 9)], HALVES, 1, None),
    ("Pooling", [(9,)], PoolingAttributes((3,), stride=(2,), **NO_PADDING), 0, None),
    (
        "Pooling",
        [(1, 9, 9)],
        PoolingAttributes((3, 5), stride=(1, 1)),
        0,
        Placement(Along(F(1), F(0)), Along(F(1), F(0))),
    ),
    (
        "Convolution",
        [(1, 1, 3, 5), (1, 9, 9)],
        FILTER,
        1,
        Placement(Along(F(1, 2), F(-1)), Along(F(1, 3), F(-1, 3))),
    ),
    ("Convolution", [(1, 1, 3, 5), (1, 9, 9)], FILTER, 0, None),
    ("Crop", [(1, 9, 9), (1, 4, 4)], CropAttributes(2, 3), 0, Placement(Along(F(1), F(-2)), Along(F(1), F(-3)))),
    ("Crop", [(1, 9, 9), (1, 4, 4)], CropAttributes(), 0, Placement()),
    ("Crop", [(1, 9, 9), (1, 4, 4)], CropAttributes(2, 3), 1, None),
    ("Dropout", [(1, 9, 9)], None, 0, Placement()),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "index", "expected"), PLACES)
def test_placements(name, shapes, attributes, index, expected):
    op = TABLE.find("", name)
    assert op is not None
    assert op.placement is not None
    assert op.placement(shapes, attributes, index) == expected


def test_one_after_the_other_and_back():
    first, second = Along(F(2), F(3)), Along(F(1, 4), F(-5))
    assert second.after(first) == Along(F(1, 2), F(-17, 4))
    assert second.after(first).inverse() == Along(F(2), F(17, 2))
    both = Placement(first, second)
    assert both.after(both.inverse()) == Placement()
    assert both.after(Placement(second, first)) == Placement(first.after(second), second.after(first))
