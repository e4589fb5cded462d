"""From files to minibatches."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from cntk_reader_cntk_text import StreamOptions
from cntk_reader_cntk_text.source import TextSource
from text_reading import LINES, SEQUENCES, A, L, read

from cntk_core.api import EpochSpec


def test_frames_in_file_order(make) -> None:
    reader = make(LINES, (A, L))
    found = read(reader, minibatch_size=4)
    assert [len(mb["a"]) for mb in found] == [4, 4, 2]
    assert [row for mb in found for row in mb["a"]] == [[i, i + 0.5] for i in range(10)]
    assert found[0]["l"] == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    first = next(reader.minibatches(EpochSpec(minibatch_size=4)))
    assert first.streams["a"].layout.is_frames
    assert first.streams["a"].layout is first.streams["l"].layout
    assert first.samples == 4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precision_and_memory(make, dtype: str) -> None:
    reader = make(LINES, (A, L), dtype)
    (minibatch,) = reader.minibatches(EpochSpec())
    data = minibatch.streams["a"].data
    assert data.dtype == np.dtype(dtype)
    assert data.flags.c_contiguous
    assert minibatch.streams["l"].data.dtype == np.dtype(dtype)


def test_frames_in_file_order_are_not_copied(make) -> None:
    reader = make(LINES)
    first, second = [mb.streams["a"].data for mb in reader.minibatches(EpochSpec(minibatch_size=5))]
    assert first.base is not None
    assert np.shares_memory(first.base, second.base)


def test_sequences_are_packed(make) -> None:
    reader = make(SEQUENCES, (A, L))
    first, second = reader.minibatches(EpochSpec(minibatch_size=10))
    assert (first.samples, second.samples) == (10, 5)
    layout = first.streams["a"].layout
    assert layout.lengths.tolist() == [4, 3, 2, 1]
    assert layout.keys == (2, 0, 3, 1)
    assert layout.order.tolist() == [2, 0, 3, 1]
    expected = [[2, 0], [0, 0], [3, 0], [1, 0], [2, 1], [0, 1], [3, 1], [2, 2], [0, 2], [2, 3]]
    assert first.streams["a"].data.tolist() == expected
    assert first.streams["l"].data.toarray().argmax(axis=1).tolist() == [t % 3 for _, t in expected]
    assert reader.streams[0].sequence


@pytest.mark.parametrize("chunk", [1, 20, 100, 10**6])
def test_chunks_make_no_difference_in_file_order(make, chunk: int) -> None:
    for text in (LINES, SEQUENCES):
        expected = read(make(text, (A, L)), minibatch_size=4, epoch_size=7)
        assert read(make(text, (A, L), chunk_size_in_bytes=chunk), minibatch_size=4, epoch_size=7) == expected


@pytest.mark.parametrize("text", [LINES, SEQUENCES])
@pytest.mark.parametrize("size", [1, 40])
def test_the_first_minibatch_waits_for_a_small_chunk_only(make, monkeypatch, text: str, size: int) -> None:
    expected = read(make(text, (A, L)), minibatch_size=4, epoch_size=7)
    loaded: list[int] = []
    load = TextSource.load
    monkeypatch.setattr(TextSource, "load", lambda self, chunk: loaded.append(chunk) or load(self, chunk))
    monkeypatch.setattr("cntk_kit_readers.chunked.FIRST_BYTES", size)
    assert read(make(text, (A, L)), minibatch_size=4, epoch_size=7) == expected
    assert max(loaded) > 0, "all of the data are one chunk"
    del loaded[:]
    read(make(text, (A, L), randomize="auto"))
    assert max(loaded) == 0, "random order depends on chunks"


@pytest.mark.parametrize("text", [LINES, SEQUENCES])
@pytest.mark.parametrize("options", [{}, {"randomization_window": 2}, {"sample_based_randomization_window": True}])
def test_random_order(make, text: str, options: dict) -> None:
    def rows(seed: int, epoch: int) -> list[list[float]]:
        reader = make(text, (A, L), randomize="auto", randomization_seed=seed, chunk_size_in_bytes=60, **options)
        return [row for mb in read(reader, epoch=epoch, minibatch_size=3) for row in mb["a"]]

    everything = sorted(row for mb in read(make(text, (A, L))) for row in mb["a"])
    first = rows(0, 0)
    assert sorted(first) == everything
    assert rows(0, 0) == first
    assert rows(0, 1) != first
    assert rows(1, 0) != first


def test_same_minibatches_whatever_was_read_before(make) -> None:
    reader = make(SEQUENCES, (A, L), randomize="auto", chunk_size_in_bytes=50, randomization_window=2)
    expected = read(make(SEQUENCES, (A, L), randomize="auto", chunk_size_in_bytes=50, randomization_window=2), epoch=3)
    read(reader, epoch=7, epoch_size=4)
    next(reader.minibatches(EpochSpec(epoch=1)))
    assert read(reader, epoch=3) == expected


def test_prefetching_makes_no_difference(make) -> None:
    assert read(make(LINES, (A, L)), minibatch_size=3) == read(make(LINES, (A, L), prefetch=False), minibatch_size=3)


def test_close_ends_threads(make) -> None:
    reader = make(LINES * 2000, (A, L))
    next(reader.minibatches(EpochSpec(minibatch_size=1)))
    reader.close()
    reader.close()
    assert [t for t in threading.enumerate() if t.name == "cntk-prefetch"] == []


def test_streams_of_different_lengths(make) -> None:
    text = "1 |a 1 1 |l 0:1\n1 |a 2 2\n1 |a 3 3\n2 |a 4 4 |l 1:1\n2 |l 2:1\n"
    (minibatch,) = make(text, (A, L)).minibatches(EpochSpec())
    assert minibatch.samples == 5
    assert minibatch.streams["a"].layout.lengths.tolist() == [3, 1]
    assert minibatch.streams["l"].layout.lengths.tolist() == [2, 1]
    assert minibatch.streams["l"].layout.keys == (2, 1)


def test_the_stream_that_defines_the_size(make) -> None:
    main = StreamOptions(name="l", dim=3, format="sparse", defines_mb_size=True)
    text = "1 |a 1 1 |l 0:1\n1 |a 2 2\n1 |a 3 3\n2 |a 4 4 |l 1:1\n3 |a 4 4 |l 1:1\n"
    assert [mb.samples for mb in make(text, (A, main)).minibatches(EpochSpec(minibatch_size=2))] == [2, 1]


def test_ids_end_with_the_next_id_and_lines_without_one_go_on(make) -> None:
    text = "5 |a 1 1\n|a 2 2\n7 |a 3 3\n5 |a 4 4\n"
    (minibatch,) = make(text).minibatches(EpochSpec())
    assert minibatch.streams["a"].layout.keys == (5, 7, 5)
    assert minibatch.streams["a"].layout.lengths.tolist() == [2, 1, 1]


@pytest.mark.parametrize("options", [{"skip_sequence_ids": True}, {"frame_mode": True}])
def test_ids_are_ignored(make, options: dict) -> None:
    reader = make(SEQUENCES, (A, L), **options)
    (minibatch,) = reader.minibatches(EpochSpec())
    assert minibatch.streams["a"].layout.is_frames
    assert len(minibatch.streams["a"].data) == 15
    assert not reader.streams[0].sequence


def test_an_id_may_go_on_over_pieces(make, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(make(SEQUENCES, (A, L)), minibatch_size=6)
    monkeypatch.setattr("cntk_reader_cntk_text.source._INDEX_PIECE", 20)
    assert read(make(SEQUENCES, (A, L)), minibatch_size=6) == expected


def test_ranks_share_the_data(make) -> None:
    for randomize in ("none", "auto"):
        reader = make(SEQUENCES, (A, L), randomize=randomize)
        shares = [read(reader, minibatch_size=6, rank=r, ranks=3) for r in range(3)]
        rows = sorted(row for share in shares for mb in share for row in mb["a"])
        assert rows == sorted(row for mb in read(reader) for row in mb["a"])


def test_a_share_may_be_empty(make) -> None:
    reader = make("|a 1 2 |l 0:1\n", (A, L), randomize="auto")
    (minibatch,) = reader.minibatches(EpochSpec(rank=1, ranks=2))
    assert minibatch.samples == 0
    assert minibatch.streams["a"].data.shape == (0, 2)
    assert minibatch.streams["l"].data.shape == (0, 3)


def test_shape_of_the_network(make) -> None:
    image = StreamOptions(name="a", dim=6, format="dense")
    (minibatch,) = make("|a 1 2 3 4 5 6\n", (image,), inputs={"a": (2, 3)}).minibatches(EpochSpec())
    assert minibatch.streams["a"].data.tolist() == [[[1, 2, 3], [4, 5, 6]]]


def test_names_ignore_case(make) -> None:
    reader = make("|a 1 2\n", inputs={"A": (2,)})
    assert read(reader) == [{"A": [[1, 2]]}]


def test_alias(make) -> None:
    stream = StreamOptions(name="features", alias="a", dim=2, format="dense")
    assert read(make("|a 1 2 |features 3 4\n", (stream,))) == [{"features": [[1, 2]]}]


@pytest.mark.parametrize("text", ["\ufeff|a 1 2\n|a 3 4\n", "|a 1 2\r\n|a 3 4", "|a 1 2\n|a 3 4\n\n \n\r\n"])
def test_marks_line_ends_and_blank_ends(make, text: str) -> None:
    assert read(make(text)) == [{"a": [[1, 2], [3, 4]]}]


def test_file_much_larger_than_a_chunk(make) -> None:
    text = "".join(f"|a {i} 0\n" for i in range(20000))
    reader = make(text, chunk_size_in_bytes=10000, randomize="auto", randomization_window=2)
    rows = [row[0] for mb in read(reader, minibatch_size=500) for row in mb["a"]]
    assert sorted(rows) == list(range(20000))
