"""Which products are products of two matrices, and what these are."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.api.engines import product_matrices
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.products import TimesAttributes
from cntk_core.ops.table import core_op


def product(op: str, left: tuple[int, ...], right: tuple[int, ...], outer: int = 1) -> Node:
    weights = Parameter.make("W", left, value=np.zeros(left))
    return Node("z", core_op(op), [weights, Input.make("x", right)], TimesAttributes(outer))


@pytest.mark.parametrize(
    ("op", "left", "right", "outer", "stored", "rows"),
    [
        ("Times", (4, 3), (4,), 1, (4, 3), (5, 4)),
        ("Times", (4, 3, 2), (4,), 2, (4, 6), (5, 4)),
        ("Times", (2, 2, 3), (2, 2), 1, (4, 3), (5, 4)),
        ("Times", (4, 3), (2, 4), 1, (4, 3), (10, 4)),
        ("TransposeTimes", (3, 4), (4,), 1, (3, 4), (5, 4)),
        ("TransposeTimes", (4,), (4,), 1, (1, 4), (5, 4)),
    ],
)
def test_matrices_of_a_product(op, left, right, outer, stored, rows):
    given = np.arange(float(np.prod(left))).reshape(left)
    x = np.arange(5.0 * np.prod(right)).reshape(5, *right)
    found = product_matrices(product(op, left, right, outer), given, x)
    assert found is not None
    np.testing.assert_array_equal(found[0], given.reshape(stored))
    np.testing.assert_array_equal(found[1], x.reshape(rows))


@pytest.mark.parametrize(
    ("op", "left", "right", "outer"),
    [
        ("TransposeTimes", (3, 4), (4,), 2),
        ("TransposeTimes", (2, 3, 4), (4,), 1),
        ("Times", (4, 3), (3,), 1),
        ("Times", (0, 3), (4,), 1),
    ],
)
def test_what_is_no_product_of_two_matrices(op, left, right, outer):
    node = product(op, left, right, outer)
    assert product_matrices(node, np.zeros(left), np.zeros((5, *right))) is None
