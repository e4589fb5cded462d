"""Shift: numbers, what is beyond the ends, random lengths, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.shifting import SHIFT, ShiftAttributes
from cntk_core.ops.language.framing import run_forward
from cntk_core.ops.language.layouts import sequence_layout, slot_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.rows import sequence_rows
from cntk_testing.gradients import check_op_gradients

LAYOUTS = [sequence_layout([4, 0, 1, 3]), slot_layout([[2, 3], [1, 0, 1]]), sequence_layout([0])]


def context_of(*layouts: Any, **fields: Any) -> OpContext:
    framed = tuple(layout is not None for layout in layouts)
    return OpContext(framed, layouts[0].frames, layout=layouts[0], layouts=layouts, **fields)


def by_sequence(layout: Any, values: Any) -> dict[int, Any]:
    rows = sequence_rows(layout)
    found = {}
    for number in np.unique(rows.number).tolist():
        own = np.flatnonzero(rows.number == number)
        found[number] = values[own[np.argsort(rows.step[own])]]
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", [-1, 0])
@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 3])
def test_over_time(layout, offset, mode):
    x = np.random.default_rng(0).normal(size=(layout.frames, 2))
    y = run_forward(SHIFT, np, [x, np.full(1, 9.0)], ShiftAttributes(offset, mode), context_of(layout, None))
    for number, given in by_sequence(layout, x).items():
        wanted = np.arange(len(given)) + offset
        expected = given[np.clip(wanted, 0, len(given) - 1)]
        if mode == -1:
            expected = np.where(((wanted >= 0) & (wanted < len(given)))[:, None], expected, 9.0)
        np.testing.assert_array_equal(by_sequence(layout, y)[number], expected)


@pytest.mark.parametrize(("offset", "taken"), [(-2, -1), (2, 0)])
def test_the_last_frame_of_another_axis_counts_before_the_begin_and_its_first_behind_the_end(offset, taken):
    layout, other = sequence_layout([3, 1]), sequence_layout([2, 4])
    x, boundary = np.zeros((4, 1)), np.arange(6.0).reshape(-1, 1)
    y = run_forward(SHIFT, np, [x, boundary], ShiftAttributes(offset), context_of(layout, other))
    for number, given in by_sequence(other, boundary).items():
        found = by_sequence(layout, y)[number]
        beyond = found[:2] if offset < 0 else found[-2:]
        np.testing.assert_array_equal(beyond, np.broadcast_to(given[taken], beyond.shape))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("attributes", [ShiftAttributes(-2), ShiftAttributes(1), ShiftAttributes(-1, 0)])
@pytest.mark.parametrize("framed", [True, False])
def test_differences(layout, attributes, framed):
    rng = np.random.default_rng(1)
    lengths = np.bincount(sequence_rows(layout).number) if layout.frames else np.zeros(0, int)
    other = sequence_layout(np.where(lengths, 2, 0)) if framed else None
    boundary = rng.normal(size=(other.frames, 1) if other is not None else 2)
    check_op_gradients(
        SHIFT,
        [rng.normal(size=(layout.frames, 2)), boundary],
        (True, framed),
        attributes,
        context=lambda: context_of(layout, other),
    )


@pytest.mark.parametrize(
    "attributes",
    [ShiftAttributes(-1, -1, 1), ShiftAttributes(2, 0, 1), ShiftAttributes(-2, 0, 2), ShiftAttributes(1, -1, 2)],
)
def test_differences_along_a_static_axis(attributes):
    """Where the last place is repeated, the boundary value has no gradient."""
    rng = np.random.default_rng(2)
    layout = sequence_layout([2])
    check_op_gradients(
        SHIFT,
        [rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 4))],
        (True, False),
        attributes,
        context=lambda: context_of(layout, None),
    )


def test_a_static_axis():
    x = np.arange(6.0).reshape(1, 2, 3)
    layout = sequence_layout([1])

    def shifted(offset: int, mode: int, dim: int, boundary: Any) -> Any:
        values = [x, np.asarray(boundary, np.float64)]
        return run_forward(SHIFT, np, values, ShiftAttributes(offset, mode, dim), context_of(layout, None))[0].tolist()

    assert shifted(-1, -1, 1, [7.0]) == [[7, 0, 1], [7, 3, 4]]
    assert shifted(2, 0, 1, [7.0]) == [[2, 2, 2], [5, 5, 5]]
    assert shifted(1, -1, 2, [7.0, 8.0, 9.0]) == [[3, 4, 5], [7, 8, 9]]
    assert shifted(-1, -1, 1, [[7.0, 8.0, 9.0], [1.0, 2.0, 3.0]]) == [[9, 0, 1], [3, 3, 4]]


def test_a_cut_sequence_goes_on_from_the_minibatch_before():
    carried: dict[str, Any] = {}
    first, second = slot_layout([[3]], continues=[True]), slot_layout([[2]], continued=[True])
    attributes = ShiftAttributes(-2)
    found = []
    for layout, values in ((first, [1.0, 2.0, 3.0]), (second, [4.0, 5.0])):
        inputs = [np.array(values)[:, None], np.zeros(1)]
        found += run_forward(SHIFT, np, inputs, attributes, context_of(layout, None, carried=carried))[:, 0].tolist()
    assert found == [0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        (((3,), (1,)), ShiftAttributes(1, 2), "there is no boundaryMode 2"),
        (((3,), (1,)), ShiftAttributes(1, -1, 2), "the input [3] has no axis 2"),
        (((3,), (2,)), ShiftAttributes(1), "the shapes [3] and [2] do not fit: axis 1 is 2 and 3"),
        (((3,), (2, 3)), ShiftAttributes(1), "the boundary value [3 x 2] does not fit the value [3]"),
    ],
)
def test_mistakes(shapes, attributes, message):
    with pytest.raises(ShapeError) as caught:
        SHIFT.infer(shapes, attributes)
    assert caught.value.message == message


def test_a_boundary_value_of_another_axis_along_a_static_axis():
    layout, other = sequence_layout([1]), sequence_layout([2])
    values = [np.zeros((1, 3)), np.zeros((2, 3))]
    with pytest.raises(DataError) as caught:
        run_forward(SHIFT, np, values, ShiftAttributes(1, dim=1), context_of(layout, other))
    assert caught.value.message == (
        "Shift along a static axis: the boundary value has another dynamic axis than the value"
    )
