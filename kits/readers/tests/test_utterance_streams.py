"""Which streams of utterances are read, in which order, and how columns say where their sequences are."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cntk_core.errors import ConfigError
from cntk_kit_readers.source import Column
from cntk_kit_readers.utterance_reader import _in_order


class Features(SimpleNamespace):
    """A stream of features."""


FRAMES = Features(name="features", expand=False, where=None)
VECTORS = Features(name="ivectors", expand=True, where=None)
LABELS = SimpleNamespace(name="labels", where=None)


def names(streams: list[SimpleNamespace], *, writing: bool = False, inputs: tuple[str, ...] = ()) -> list[str]:
    context = SimpleNamespace(for_writing=writing, inputs=dict.fromkeys(inputs, (1,)))
    return [each.name for each in _in_order(streams, context, Features)]


def test_features_that_give_the_lengths_come_first_and_labels_last() -> None:
    assert names([LABELS, VECTORS, FRAMES]) == ["features", "ivectors", "labels"]
    assert names([LABELS]) == ["labels"]
    with pytest.raises(ConfigError, match=r"stream 'ivectors' cannot be expanded: no other stream of features gives "):
        names([VECTORS, LABELS])


def test_the_write_action_reads_what_the_network_needs() -> None:
    streams = [FRAMES, LABELS]
    assert names(streams, writing=True, inputs=("Features",)) == ["features"]
    assert names(streams, writing=True, inputs=("others",)) == ["features", "labels"]
    assert names(streams, writing=True) == ["features", "labels"]
    assert names(streams, inputs=("Features",)) == ["features", "labels"]


def test_a_column_says_where_its_sequences_are() -> None:
    data, some = np.arange(6.0)[:, None], np.array([2, 0])
    plain = Column(data)
    ends = Column(data, np.array([0, 3, 4, 6]))
    apart = Column(data, np.array([0, 3, 4, 6]), np.array([0, 2, 4]))
    assert [each.is_plain for each in (plain, ends, apart)] == [True, False, False]
    assert [each.first_rows(some).tolist() for each in (plain, ends, apart)] == [[2, 0], [4, 0], [4, 0]]
    assert [each.lengths(some).tolist() for each in (plain, ends, apart)] == [[1, 1], [2, 3], [2, 3]]
    assert apart.first_rows(np.array([1])).tolist() == [2]
    assert not Column(data, None, np.array([0, 2])).is_plain
