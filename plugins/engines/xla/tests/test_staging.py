"""How minibatches get to XLA: into arrays that are used again, but never while somebody reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from cntk_engine_xla import XlaEngine
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from cntk_core.api import DataError, Input, StreamData
from cntk_core.api.engines import frame_layout, sparse_matrix
from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.networks import Sketch, classifier
from cntk_testing.reference import ReferenceEngine

if TYPE_CHECKING:
    from cntk_engine_xla.inputs import Feed

FLOAT = np.dtype(np.float32)


def _input(*shape: int) -> Input:
    node = Sketch("float32").input("x", *shape)
    assert isinstance(node, Input)
    return node


def _stream(data: object) -> StreamData:
    return StreamData(data, frame_layout(data.shape[0]))


def _feed(*shape: int) -> Feed:
    from cntk_engine_xla.inputs import Feed
    from cntk_engine_xla.staging import Staging

    staging = Staging()
    staging.begin()
    return Feed(_input(*shape), FLOAT, staging)


@given(st.integers(1, 9), st.lists(st.integers(1, 9), min_size=1, max_size=2))
def test_arrays_lie_where_xla_does_not_copy_them(rows, shape):
    from cntk_engine_xla.staging import ALIGNMENT, Stage, Staging

    array = Stage(Staging(), tuple(shape), np.dtype(np.float64)).array(rows)
    assert array.shape == (rows, *shape)
    assert array.dtype == np.float64
    assert array.ctypes.data % ALIGNMENT == 0
    assert array.flags.c_contiguous


def test_xla_has_read_a_place_before_it_is_written_again():
    """JAX takes arrays over where they lie, and computes with them later."""
    import jax
    import jax.numpy as jnp
    from cntk_engine_xla.staging import MOST, Stage, Staging

    staging, summed = Staging(), jax.jit(lambda x: jnp.linalg.matrix_power(x, 5).sum())
    stage, results, places = Stage(staging, (64,), FLOAT), [], set()
    for number in range(3 * MOST):
        staging.begin()
        array = stage.array(64)
        array[...] = np.eye(64) * (number % 7)
        places.add(array.ctypes.data)
        results.append(summed(array))
        staging.marks.append(results[-1])
    assert [float(each) for each in results] == [64.0 * (number % 7) ** 5 for number in range(3 * MOST)]
    assert len(places) == MOST


class _Mark:
    """A result: whether somebody has waited for it, and whether a later call has written over it."""

    def __init__(self, *, deleted: bool = False) -> None:
        self.deleted = deleted
        self.waited = False

    def is_deleted(self) -> bool:
        return self.deleted

    def block_until_ready(self) -> None:
        assert not self.deleted
        self.waited = True


@pytest.mark.parametrize("rows", [1, 1_000_000])
def test_the_places_are_free_again_when_all_that_was_begun_is_done(rows):
    """Large minibatches have the fewest places; nobody waits before all are taken."""
    from cntk_engine_xla.staging import FEWEST, MOST, Stage, Staging

    staging = Staging()
    stage = Stage(staging, (1,), FLOAT)
    most = MOST if rows == 1 else FEWEST
    marks = [_Mark(deleted=place % 2 == 0) for place in range(most)]
    for place, mark in enumerate(marks):
        staging.begin()
        assert staging.place == place
        stage.array(rows)
        assert not any(each.waited for each in marks)
        staging.marks.append(mark)
    staging.begin()
    assert staging.place == 0
    assert [mark.waited for mark in marks] == [not mark.deleted for mark in marks]
    assert not staging.marks


def test_a_minibatch_that_could_not_be_taken_leaves_no_gap():
    """The second input of a minibatch is refused; the places of the minibatches after it are as they should be."""
    from cntk_engine_xla.inputs import Feed
    from cntk_engine_xla.staging import Staging

    staging = Staging()
    first, second = Feed(_input(3), FLOAT, staging), Feed(_input(2), FLOAT, staging)
    for number in range(3):
        staging.begin()
        np.testing.assert_array_equal(first.take(_stream(np.full((2, 3), number)), 2), np.full((2, 3), number))
        if number == 1:
            with pytest.raises(DataError):
                second.take(_stream(np.zeros((2, 5))), 2)
        else:
            np.testing.assert_array_equal(second.take(_stream(np.full((2, 2), -number)), 2), np.full((2, 2), -number))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_frames_with_padding(dtype):
    data = np.arange(12).reshape(4, 3).astype(dtype)
    found = _feed(3).take(_stream(data), 6)
    assert found.dtype == FLOAT
    np.testing.assert_array_equal(found, data[[0, 1, 2, 3, 0, 0]])


def test_sizes_in_turn_do_not_mix():
    feed = _feed(2, 3)
    for count in [*range(1, 14), *range(1, 14)]:
        data = np.full((count, 6), count)
        found = feed.take(_stream(data), count + count % 3)
        assert found.shape == (count + count % 3, 2, 3)
        assert (found == count).all()


def test_a_sparse_stream_for_a_dense_input():
    matrix = csr_array(np.array([[0, 2.0, 0], [1, 0, 3]]))
    found = _feed(3).take(_stream(matrix), 4)
    np.testing.assert_array_equal(found, matrix.toarray()[[0, 1, 0, 0]])


def _take_dense(node, stream):
    from cntk_engine_xla.inputs import Feed
    from cntk_engine_xla.staging import Staging

    return Feed(node, FLOAT, Staging()).take(stream, 4)


def _take_sparse(node, stream):
    return sparse_matrix(node, stream, FLOAT)


@pytest.mark.parametrize("take", [_take_dense, _take_sparse])
def test_samples_of_another_size(take):
    with pytest.raises(DataError, match=r"the input 'x' is \[3\], but its stream gives samples of \[5\]"):
        take(_input(3), _stream(np.zeros((4, 5))))


@given(st.integers(1, 5), st.integers(0, 9), st.integers(0, 30))
def test_elements_of_a_sparse_matrix(frames, padding, seed):
    """Row by row; those of the padding are zeros in a row beyond all rows."""
    from cntk_engine_xla.inputs import entries

    dense = np.random.default_rng(seed).integers(0, 3, (frames, 4)).astype(float)
    rows = frames + padding
    row, column, data = entries(csr_array(dense), rows)
    assert len(row) >= rows
    found = np.zeros((rows + 1, 4))
    np.add.at(found, (row, column), data)
    np.testing.assert_array_equal(found, np.concatenate([dense, np.zeros((padding + 1, 4))]))
    assert (row[np.count_nonzero(dense) :] == rows).all()


def test_a_reader_may_write_over_its_arrays():
    """Once a step has been called, its minibatch may hold something else, although XLA may not have begun with it."""
    runs = [start(engine, classifier("float64"), rule=MOMENTUM) for engine in (XlaEngine(), ReferenceEngine())]
    for run in runs:
        for step, frames in enumerate((10, 10, 9, 10, 10)):
            data = run.sample.minibatch(frames, step)
            run.program.train_step(data, run.scalars(MOMENTUM, step))
            for stream in data.streams.values():
                stream.data[...] = np.nan
    for ours, reference in zip(*(run.values() for run in runs), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-11, atol=1e-12)
