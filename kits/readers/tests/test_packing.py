"""Frames of several chunks in one minibatch."""

from __future__ import annotations

import tracemalloc

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from cntk_core.api import StreamInfo
from cntk_core.api.readers import Chunk, Column
from cntk_kit_readers.packing import make_minibatch
from cntk_kit_readers.timeline import Picks


def test_frames_that_overlap_are_not_copied_for_each_minibatch() -> None:
    """Windows around each frame are views of the frames: a few of them must not cost the memory of all."""
    frames = [np.random.default_rng(number).standard_normal((20_000, 8)).astype(np.float32) for number in range(2)]
    windows = [sliding_window_view(each, 11, axis=0).transpose(0, 2, 1) for each in frames]
    chunks = [Chunk({"x": Column(each)}) for each in windows]
    picks = Picks(np.array([0, 1, 1, 0]), np.array([3, 19_000, 0, 10_000]), 4)
    tracemalloc.start()
    found = make_minibatch(picks, chunks.__getitem__, [StreamInfo("x", (11, 8))], np.dtype(np.float32))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected = np.stack([windows[0][3], windows[1][19_000], windows[1][0], windows[0][10_000]])
    np.testing.assert_array_equal(found.streams["x"].data, expected)
    assert peak < frames[0].nbytes / 4
