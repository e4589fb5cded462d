"""Values and shapes at the ends of what ops take: uneven windows, parts at an edge, one repetition, no data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from cntk_core.errors import NetworkError, ShapeError
from cntk_core.ops.families.cropping import CropAttributes
from cntk_core.ops.families.pooling import LegacyPoolingAttributes, image_pooling_geometry
from cntk_core.ops.families.precompute import InvStdDevAccumulator, MeanAccumulator
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.families.reshaping import TransposeAttributes
from cntk_core.ops.families.slicing import RepeatAttributes
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.sparse_rows import best_columns
from cntk_core.ops.table import core_ops


def op(name: str) -> Any:
    found = core_ops().find("", name)
    assert found is not None
    return found


@pytest.mark.parametrize(("layout", "shape"), [("HWC", (4, 7, 2)), ("CHW", (2, 4, 7))])
def test_windows_that_step_unevenly(layout: str, shape: tuple[int, ...]) -> None:
    geometry = image_pooling_geometry(shape, LegacyPoolingAttributes(3, 2, 2, 1, layout))
    channels, width, height = (0, 1, 2) if layout == "HWC" else (2, 0, 1)  # dimensions in CNTK's order
    assert (geometry.input[width], geometry.input[height], geometry.input[channels]) == (7, 4, 2)
    assert (geometry.counts[width], geometry.counts[height], geometry.counts[channels]) == (3, 3, 2)
    assert (geometry.stride[width], geometry.stride[height]) == (2, 1)


@pytest.mark.parametrize(("x", "y"), [(0, 0), (3, 0), (0, 1), (3, 3), (1, 2)])
def test_parts_of_images(x: int, y: int) -> None:
    image, like = np.arange(60.0).reshape(1, 2, 5, 6), np.zeros((1, 1, 2, 3))
    context = OpContext((True, True), 1)
    attributes = CropAttributes(x, y)
    found = run_forward(op("Crop"), np, [image, like], attributes, context)
    np.testing.assert_array_equal(found, image[..., y : y + 2, x : x + 3])
    back, nothing = run_gradient(
        op("Crop"), np, np.ones_like(found), found, [image, like], attributes, context, [True, False]
    )
    expected = np.zeros_like(image)
    expected[..., y : y + 2, x : x + 3] = 1
    np.testing.assert_array_equal(back, expected)
    assert nothing is None


def test_a_part_that_reaches_over_the_edge() -> None:
    assert op("Crop").infer([(2, 5, 6), (1, 2, 3)], CropAttributes(3, 3)) == (2, 2, 3)
    for x, y in ((4, 3), (3, 4)):
        with pytest.raises(ShapeError, match="is too small for a part of 3 x 2 at"):
            op("Crop").infer([(2, 5, 6), (1, 2, 3)], CropAttributes(x, y))


@pytest.mark.parametrize(
    ("first", "second", "shape"), [(1, 2, (3, 2)), (2, 1, (3, 2)), (1, 1, (2, 3)), (2, 3, (2, 1, 3)), (3, 1, (3, 2, 1))]
)
def test_axes_that_are_swapped(first: int, second: int, shape: tuple[int, ...]) -> None:
    assert op("TransposeDimensions").infer([(2, 3)], TransposeAttributes(first, second)) == shape


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0), (3, 3), (3, 4)])
def test_axes_that_cannot_be_swapped(first: int, second: int) -> None:
    with pytest.raises(ShapeError, match=f"the axes {first} and {second} of .* cannot be swapped"):
        op("TransposeDimensions").infer([(2, 3)], TransposeAttributes(first, second))


def test_one_repetition() -> None:
    assert op("RowRepeat").infer([(2, 3)], RepeatAttributes(1)) == (2, 3)
    assert op("RowRepeat").infer([(2, 3)], RepeatAttributes(3)) == (6, 3)
    with pytest.raises(ShapeError, match="needs at least 1 repetition, not 0"):
        op("RowRepeat").infer([(2, 3)], RepeatAttributes(0))


@pytest.mark.parametrize(
    ("state", "completed"), [((0, 3), (2, 3)), ((0,), (3,)), ((7, 0), (7, 3)), ((2, 3), (2, 3)), ((0, 0), (2, 3))]
)
def test_what_is_missing_of_an_initial_state(state: tuple[int, ...], completed: tuple[int, ...]) -> None:
    found = op("PastValue").complete([(2, 3), state], DelayAttributes((2, 3)))
    assert tuple(found[1]) == completed


@pytest.mark.parametrize("rows", [[[0, 2, 2], [-1, 0, -3]], [[0, 0, 0], [5, 5, 1]], [[-1, -2, -3], [0, 0, 4]]])
def test_the_largest_of_sparse_rows_is_that_of_dense_ones(rows: list[list[float]]) -> None:
    values = np.array(rows)
    there = values != 0
    there[0, 0] = True  # a zero that is written out counts as any other
    kept = scipy.sparse.csr_array((values[there], np.nonzero(there)), shape=values.shape)
    assert best_columns(kept).tolist() == values.argmax(axis=1).tolist() == best_columns(values).tolist()


@pytest.mark.parametrize("kind", [MeanAccumulator, InvStdDevAccumulator])
def test_statistics_of_no_data(kind: Any) -> None:
    with pytest.raises(NetworkError, match="a value is to be computed over the data, but there is no data"):
        kind((2,)).result()
