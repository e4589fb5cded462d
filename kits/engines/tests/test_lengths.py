"""Dimensions that are as long as the longest sequence of a minibatch."""

from __future__ import annotations

import pytest

from cntk_core.errors import DataError, ShapeError
from cntk_core.network.node import Input, Node
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import Longest
from cntk_kit_engines.lengths import check_lengths


def infer(shapes, attributes):
    """Keep the first axis; it has to have at least two elements."""
    if shapes[0][0] < 2:
        raise ShapeError("there are too few", hint="Give more.")
    return (min(shapes[0][0], 5), 3)


def node_of(*axes: str, unpacks: bool = False) -> Node:
    inputs = [Input.make(f"x{number}", (7, 3)) for number in range(len(axes))]
    for child, axis in zip(inputs, axes, strict=True):
        child.shape = (Longest(axis), 3) if axis else (7, 3)
    op = Op("Cut", (1, None), infer, forward=lambda *given: None, unpacks=unpacks)
    node = Node("cut", op, inputs)
    node.shape = (Longest(axes[0]), 3) if axes[0] else (5, 3)
    if unpacks:
        node.shape = (9, *node.shape)
    return node


def test_what_fits_and_what_is_not_known_yet_is_fine() -> None:
    check_lengths([node_of("a"), node_of("a", unpacks=True), node_of("")], {"a": 4})
    check_lengths([node_of("a"), node_of("a", "b")], {"b": 1})  # the length of one axis is not known


def test_too_short() -> None:
    with pytest.raises(DataError) as caught:
        check_lengths([node_of("a"), node_of("b", "a")], {"b": 1, "a": 4})
    assert str(caught.value) == (
        "Cut 'cut', in a minibatch whose longest sequence has the length 4 and 1: there are too few\n    Give more."
    )


def test_another_shape_than_the_plan_has() -> None:
    with pytest.raises(DataError) as caught:
        check_lengths([node_of("a")], {"a": 6})
    assert str(caught.value) == (
        "Cut 'cut', in a minibatch whose longest sequence has the length 6: it becomes [3 x 5] instead of [3 x 6]"
    )
