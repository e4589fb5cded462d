"""Rows of lattices: what stands in each column."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.ops.families.lattices import HIDDEN_INPUT, LATTICE_COLUMNS, LOG_ZERO
from cntk_kit_readers.lattice_rows import (
    HiddenMarkovModel,
    LatticeRows,
    Segment,
    lattice_input,
    lattice_segments,
    run_of,
)

LOGS = np.log(
    np.array([[0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4], [0.15, 0.25, 0.35, 0.25], [0.6, 0.1, 0.2, 0.1]])
)
THREE = HiddenMarkovModel((7, 8, 9), LOGS)
TWO = HiddenMarkovModel((4, 5), LOGS[:3, :3], silence=True)


def test_a_model_fills_columns_7_to_25() -> None:
    whole = THREE.row()
    assert whole.shape == (LATTICE_COLUMNS - 7,)
    assert whole[:3].tolist() == [7, 8, 9]
    np.testing.assert_array_equal(whole[3:6], LOGS[0, :3])
    np.testing.assert_array_equal(whole[6:15].reshape(3, 3), LOGS[1:, :3])
    np.testing.assert_array_equal(whole[15:18], LOGS[1:, 3])
    assert whole[18] == LOGS[0, 3]
    part = TWO.row()
    assert part[:3].tolist() == [4, 5, -1]
    np.testing.assert_array_equal(part[3:6], [*LOGS[0, :2], LOG_ZERO])
    inner = part[6:15].reshape(3, 3)
    np.testing.assert_array_equal(inner[:2, :2], LOGS[1:3, :2])
    assert (inner[2] == LOG_ZERO).all()
    assert (inner[:, 2] == LOG_ZERO).all()
    np.testing.assert_array_equal(part[15:18], [*LOGS[1:3, 2], LOG_ZERO])
    assert part[18] == LOGS[0, 2]
    run = run_of(6).row()
    assert run[[0, 1, 2, 3, 6, 15, 18]].tolist() == [6, -1, -1, 0, 0, 0, 0]


def test_arcs_have_a_row_for_each_segment() -> None:
    rows = LatticeRows()
    assert rows.array().shape == (0, LATTICE_COLUMNS)
    rows.add_arc(0, 1, 10, [Segment(THREE, 4), Segment(TWO, 3)], score=-1.5)
    rows.add_arc(0, 2, 20, [])
    rows.add_arc(1, 2, 17, [Segment(TWO, 5)], score=2.5)
    found = rows.array()
    assert found[:, :7].tolist() == [
        [0, 1, 10, 4, -1.5, 1, 0],
        [0, 1, 14, 3, -1.5, 0, 0],
        [0, 2, 20, 0, 0, 1, 0],
        [1, 2, 17, 5, 2.5, 1, 1],  # silence alone
    ]
    np.testing.assert_array_equal(found[0, 7:], THREE.row())
    np.testing.assert_array_equal(found[1, 7:], TWO.row())
    np.testing.assert_array_equal(found[3, 7:], TWO.row())
    assert found[2, 7:10].tolist() == [-1, -1, -1]
    assert (found[2, 10:-1] == LOG_ZERO).all()
    assert found[2, -1] == 0


def test_all_arcs_at_once_are_as_one_after_the_other() -> None:
    models = [THREE, TWO, run_of(3)]
    rows = LatticeRows()
    rows.add_arc(-1, 0, 0, [Segment(models[0], 2), Segment(models[2], 1)])
    rows.add_arc(0, 1, 3, [Segment(models[1], 6), Segment(models[1], 1)], score=0.5)
    rows.add_arc(1, 2, 9, [])
    together = lattice_segments(
        np.array([-1, 0, 1]), np.array([0, 1, 2]), np.array([0, 3, 9]), np.array([0, 0.5, 0]), np.array([2, 2, 0]),
        models, np.array([0, 2, 1, 1]), np.array([2, 1, 6, 1]),
    )  # fmt: skip
    np.testing.assert_array_equal(together, rows.array())
    assert together[:, 6].tolist() == [0, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        (["features", "LAT"], "LAT"),
        ([HIDDEN_INPUT.upper(), "lat"], "lat"),
        ([HIDDEN_INPUT.upper(), "labels"], HIDDEN_INPUT.upper()),
        (["features"], None),
        ([], None),
    ],
)
def test_lattices_feed_the_input_of_their_name_or_the_hidden_one(inputs: list[str], found: str | None) -> None:
    assert lattice_input(dict.fromkeys(inputs, (LATTICE_COLUMNS,)), "Lat") == found
