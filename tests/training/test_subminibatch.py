"""Parts of minibatches."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from small import minibatch

from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_core.training.loop.subminibatch import split
from cntk_kit_recipes.recipe.sequences_begun import unpack_sequences


def test_frames_are_shared_out_in_order():
    whole = minibatch({"x": np.arange(8.0).reshape(8, 1), "y": np.arange(8.0, 16.0).reshape(8, 1)})
    parts = list(split(whole, 3))
    assert [part.samples for part in parts] == [3, 3, 2]
    assert np.concatenate([part.streams["x"].data for part in parts]).ravel().tolist() == list(range(8))
    assert parts[1].streams["y"].data.ravel().tolist() == [11, 12, 13]
    assert all(part.streams["x"].layout.is_frames for part in parts)


def test_there_are_no_more_parts_than_slots():
    assert [part.samples for part in split(minibatch({"x": np.zeros((2, 1))}), 5)] == [1, 1]
    whole = minibatch({"x": np.zeros((4, 1))})
    assert list(split(whole, 1)) == [whole]


def test_sparse_streams_are_cut_too():
    layout = sequence_layout([1] * 4)
    data = scipy.sparse.csr_array(np.eye(4))
    parts = list(split(Minibatch({"x": StreamData(data, layout)}, 4), 2))
    np.testing.assert_array_equal(parts[1].streams["x"].data.toarray(), np.eye(4)[2:])


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(1, 9))
def test_whole_sequences_stay_whole(lengths, parts):
    layout = sequence_layout(lengths)
    frames = sum(lengths)
    data = np.arange(frames, dtype=float).reshape(frames, 1)
    whole = Minibatch({"x": StreamData(data, layout)}, frames)
    wanted = [sequence.ravel().tolist() for sequence in unpack_sequences(data, layout)]
    cut = list(split(whole, parts))
    got = [
        sequence.ravel().tolist()
        for part in cut
        for sequence in unpack_sequences(part.streams["x"].data, part.streams["x"].layout)
    ]
    assert sorted(got) == sorted(wanted)
    assert sum(part.samples for part in cut) == frames
    assert len(cut) == min(parts, len(lengths))


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_keys_follow_their_sequences(parts):
    layout = sequence_layout([2, 3, 1], keys=("a", "b", "c"))
    whole = Minibatch({"x": StreamData(np.zeros((6, 1)), layout)}, 6)
    keys = [key for part in split(whole, parts) for key in part.streams["x"].layout.keys]
    assert sorted(keys) == ["a", "b", "c"]
