"""Where the frames of a minibatch stand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import StreamData


@pytest.mark.parametrize("frames", [0, 1, 4])
def test_independent_frames(frames):
    layout = SequenceLayout.of_frames(frames)
    assert (layout.frames, layout.slots, layout.steps) == (frames, frames, min(frames, 1))
    assert layout.is_frames
    assert layout.start.tolist() == [0][:frames]
    assert layout.alive.tolist() == [frames][:frames]
    assert layout.lengths.tolist() == [1] * frames
    assert layout.order.tolist() == list(range(frames))
    assert layout.begins.tolist() == [[slot, 0] for slot in range(frames)]
    assert layout.keys == layout.continues == ()


def test_sequences():
    layout = SequenceLayout(lengths=[2, 1], alive=[2, 1], start=[0, 2], order=[1, 0], begins=[[0, 0], [1, 0]])
    assert (layout.frames, layout.slots, layout.steps) == (3, 2, 2)
    assert not layout.is_frames


def test_nobody_can_change_a_layout():
    layout = SequenceLayout.of_frames(3)
    for name in ("lengths", "alive", "start", "order", "begins"):
        array = getattr(layout, name)
        assert array.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7


def test_sparse_streams():
    layout = SequenceLayout.of_frames(2)
    assert not StreamData(np.zeros((2, 3)), layout).sparse
    assert StreamData(csr_array((2, 3)), layout).sparse
