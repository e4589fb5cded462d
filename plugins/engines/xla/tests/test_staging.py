"""How minibatches get to XLA: into arrays that are used again, but never while somebody reads them."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_xla import XlaEngine
from cntk_engine_xla.inputs import Feed, entries, sparse_matrix
from cntk_engine_xla.staging import ALIGNMENT, MOST_ARRAYS, Staging
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from cntk_core.api import DataError, Input, StreamData
from cntk_core.ops.layouts import frame_layout
from cntk_core.testing.engine_contract import MOMENTUM, start
from cntk_core.testing.networks import Sketch, classifier
from cntk_core.testing.reference import ReferenceEngine

FLOAT = np.dtype(np.float32)


def _staging() -> Staging:
    return Staging((4, 3), FLOAT)


def _input(*shape: int) -> Input:
    node = Sketch("float32").input("x", *shape)
    assert isinstance(node, Input)
    return node


def _stream(data: object) -> StreamData:
    return StreamData(data, frame_layout(data.shape[0]))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_arrays_lie_where_xla_does_not_copy_them(shape):
    array = Staging(tuple(shape), np.dtype(np.float64)).array()
    assert array.shape == tuple(shape)
    assert array.dtype == np.float64
    assert array.ctypes.data % ALIGNMENT == 0
    assert array.flags.c_contiguous


def test_an_array_that_nobody_refers_to_is_given_out_again():
    staging = _staging()
    places = {staging.array().ctypes.data for _ in range(5)}
    assert len(places) == 1


@pytest.mark.parametrize("keep", [lambda array: array, lambda array: array[1:], lambda array: memoryview(array.T)])
def test_an_array_that_somebody_looks_at_is_not_given_out_again(keep):
    staging = _staging()
    kept = [keep(staging.array()) for _ in range(3)]
    places = {np.asarray(each).__array_interface__["data"][0] & -ALIGNMENT for each in kept}
    assert staging.array().ctypes.data not in places
    del kept
    assert staging.array().ctypes.data in places


def test_xla_reads_an_array_before_it_is_given_out_again():
    """JAX takes arrays over where they lie, and computes with them later."""
    import jax
    import jax.numpy as jnp

    staging, doubled = Staging((64, 64), FLOAT), jax.jit(lambda x: jnp.linalg.matrix_power(x, 5).sum())
    results = []
    for number in range(2 * MOST_ARRAYS):
        array = staging.array()
        array[...] = np.eye(64) * (number % 7)
        results.append(doubled(array))
        del array
    assert [float(each) for each in results] == [64.0 * (number % 7) ** 5 for number in range(2 * MOST_ARRAYS)]


def test_one_that_is_kept_for_ever_does_not_make_more_and_more():
    staging = _staging()
    kept = staging.array()
    places = {staging.array().ctypes.data for _ in range(3 * MOST_ARRAYS)}
    assert len(places) <= MOST_ARRAYS
    assert kept.ctypes.data not in places


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_frames_with_padding(dtype):
    data = np.arange(12).reshape(4, 3).astype(dtype)
    found = Feed(_input(3), FLOAT).take(_stream(data), 6)
    assert found.dtype == FLOAT
    np.testing.assert_array_equal(found, data[[0, 1, 2, 3, 0, 0]])


def test_sizes_in_turn_do_not_mix():
    feed = Feed(_input(2, 3), FLOAT)
    for count in [*range(1, 14), *range(1, 14)]:
        data = np.full((count, 6), count)
        found = feed.take(_stream(data), count + count % 3)
        assert found.shape == (count + count % 3, 2, 3)
        assert (found == count).all()


def test_a_sparse_stream_for_a_dense_input():
    matrix = csr_array(np.array([[0, 2.0, 0], [1, 0, 3]]))
    found = Feed(_input(3), FLOAT).take(_stream(matrix), 4)
    np.testing.assert_array_equal(found, matrix.toarray()[[0, 1, 0, 0]])


@pytest.mark.parametrize(
    "take",
    [lambda node, stream: Feed(node, FLOAT).take(stream, 4), lambda node, stream: sparse_matrix(node, stream, FLOAT)],
    ids=["dense", "sparse"],
)
def test_samples_of_another_size(take):
    with pytest.raises(DataError, match=r"the input 'x' is \[3\], but its stream gives samples of \[5\]"):
        take(_input(3), _stream(np.zeros((4, 5))))


@given(st.integers(1, 5), st.integers(0, 9), st.integers(0, 30))
def test_elements_of_a_sparse_matrix(frames, padding, seed):
    """Row by row; those of the padding are zeros in a row beyond all rows."""
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
