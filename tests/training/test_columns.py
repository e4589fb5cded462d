"""Sizes of minibatches as CNTK counts them."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.network.network import Network
from cntk_core.network.node import Input
from cntk_core.ops.language.layouts import frame_layout, sequence_layout, slot_layout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_core.training.loop.minibatch_sizes import UNCOUNTED, MinibatchSizes, columns

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([5], 5),
        ([5, 5], 10),
        ([5, 2, 3], 10),  # 2 and 3 share a row
        ([2, 3, 5], 10),
        ([5, 3, 3, 2], 15),  # 3, then 3 in a row of its own, 2 behind the first 3
        ([4, 1, 1, 1, 1], 8),
        ([3, 3, 2, 1], 9),  # 2 and 1 share the third row
        ([6, 4, 3, 2, 2, 1], 18),  # 4+2, 3+2+1
        ([2, 4, 3, 2, 2, 6, 1], 24),  # 2+4, 3+2+1, 2, 6: not the best packing, but CNTK's
        ([1, 1, 1], 3),
        ([4, 0, 2], 8),
        ([0, 0], 0),
    ],
)
def test_first_fit(lengths, expected):
    assert columns(sequence_layout(lengths)) == expected


@given(LENGTHS)
def test_columns_are_a_matrix_that_holds_all_frames(lengths):
    layout = sequence_layout(lengths)
    found = columns(layout)
    assert found >= sum(lengths)
    assert found % max(1, max(lengths)) == 0
    assert found <= max(lengths) * np.count_nonzero(lengths)
    # First fit leaves at most one row half empty.
    assert found <= max(2 * sum(lengths), max(lengths))


def test_frames_have_no_gaps():
    assert columns(frame_layout(7)) == 7


def test_truncated_slots_are_rows_as_they_are():
    first = slot_layout([[4], [1, 2], [2]], continues=[True, False, False])
    assert columns(first) == 3 * 4
    assert columns(slot_layout([[4], [2], [1, 1]])) == 3 * 4


def network(*inputs: tuple[str, str, str]) -> Network:
    """Inputs by name, role and axis."""
    made = Network(np.float64)
    for name, role, axis in inputs:
        made.mark(made.add(Input.make(name, (1,), axis=axis)), role)
    return made


def minibatch(**lengths: list[int]) -> Minibatch:
    streams = {}
    for name, each in lengths.items():
        layout = sequence_layout(each)
        streams[name] = StreamData(np.zeros((layout.frames, 1)), layout)
    return Minibatch(streams, 99)


def test_a_reader_that_pads_otherwise_says_so():
    given = attrs.evolve(minibatch(x=[2, 2]), columns=9)
    assert MinibatchSizes(network(("x", "feature", ""))).columns(given) == 9


def test_columns_go_by_the_widest_feature():
    sizes = MinibatchSizes(network(("x", "feature", ""), ("y", "feature", "b"), ("l", "label", "c")))
    assert sizes.columns(minibatch(x=[2, 2], y=[5, 3], l=[9, 9])) == 10
    assert sizes.columns(minibatch(X=[6, 1], y=[1, 1], l=[9, 9])) == 12


def test_samples_are_the_frames_of_the_default_axis():
    sizes = MinibatchSizes(network(("x", "feature", "b"), ("l", "label", "")))
    assert sizes.samples(minibatch(x=[7, 7], l=[2, 3])) == 5


def test_without_a_default_axis_nothing_counts_and_a_line_says_so():
    said: list[str] = []
    sizes = MinibatchSizes(network(("x", "feature", "a"), ("l", "label", "b")), said.append)
    assert sizes.samples(minibatch(x=[7, 7], l=[2, 3])) == 0
    assert said == [UNCOUNTED]


def test_without_a_default_axis_inputs_without_sequences_count():
    said: list[str] = []
    sizes = MinibatchSizes(network(("x", "feature", "a"), ("l", "label", "#")), said.append)
    assert sizes.samples(minibatch(x=[7, 7], l=[1, 1])) == 2
    assert said == []


def test_nothing_is_said_with_a_default_axis():
    said: list[str] = []
    MinibatchSizes(network(("x", "feature", "a"), ("l", "label", "")), said.append)
    assert said == []


def test_without_any_known_stream_the_reader_counts():
    sizes = MinibatchSizes(network(("x", "feature", "")))
    assert sizes.samples(minibatch(other=[2])) == sizes.columns(minibatch(other=[2])) == 99
