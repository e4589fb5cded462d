from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from cntk_core.errors import DataError
from cntk_kit_readers.composite import CompositeSource, FrameSource, Part
from cntk_kit_readers.numbered import NumberedSource
from cntk_kit_readers.source import Chunk, ChunkInfo, ChunkSource, Column


class ListSource(ChunkSource):
    """Sequences of one stream, in chunks of two; ``frames`` are by key."""

    def __init__(self, stream: str, frames: list[tuple[int | str, np.ndarray]], *, sparse: bool = False) -> None:
        self.stream, self.frames, self.sparse, self.loaded = stream, frames, sparse, []

    def __str__(self) -> str:
        return f"{self.stream}.txt"

    def _chunk(self, number: int) -> list[tuple[int | str, np.ndarray]]:
        return self.frames[2 * number : 2 * number + 2]

    def index(self) -> list[ChunkInfo]:
        numbers = range((len(self.frames) + 1) // 2)
        lengths = [np.array([len(values) for _, values in self._chunk(n)], dtype=np.int64) for n in numbers]
        return [ChunkInfo(len(own), int(own.sum()), own) for own in lengths]

    def keys(self, chunk: int) -> list[int | str]:
        return [key for key, _ in self._chunk(chunk)]

    def load(self, chunk: int) -> Chunk:
        self.loaded.append(chunk)
        parts = [values for _, values in self._chunk(chunk)]
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        data = np.concatenate(parts)
        return Chunk({self.stream: Column(csr_array(data) if self.sparse else data, offsets)}, self.keys(chunk))

    def close(self) -> None:
        self.frames = []


def values_of(key: int, length: int, factor: int = 1) -> np.ndarray:
    return np.array([[factor * (100 * key + t)] for t in range(length)], dtype=float).reshape(length, 1)


def part(stream: str, lengths: dict[int, int], factor: int = 1, **options: bool) -> Part:
    sparse, expand = options.get("sparse", False), options.get("expand", False)
    frames = [(key, values_of(key, length, factor)) for key, length in lengths.items()]
    return Part(ListSource(stream, frames, sparse=sparse), (stream,), expand)


def sequences(source: ChunkSource, stream: str) -> dict[int | str, list[float]]:
    found = {}
    for number, info in enumerate(source.index()):
        chunk = source.load(number)
        column = chunk.columns[stream]
        every = np.arange(info.sequences)
        for key, first, length in zip(chunk.keys, column.first_rows(every), column.lengths(every), strict=True):
            rows = column.data[first : first + length]
            found[key] = (rows if isinstance(rows, np.ndarray) else rows.toarray())[:, 0].tolist()
    return found


@given(
    st.permutations(range(7)),
    st.sets(st.integers(0, 6)),
    st.lists(st.integers(1, 4), min_size=7, max_size=7),
    st.booleans(),
)
def test_sequences_meet_by_key(order: list[int], missing: set[int], lengths: list[int], sparse: bool) -> None:
    first = part("a", dict(enumerate(lengths)))
    second = part("b", {key: lengths[key] for key in order if key not in missing}, -1, sparse=sparse)
    told: list[str] = []
    joined = CompositeSource([first, second], numeric_keys=True, equal_lengths=True, warn=told.append)
    kept = [key for key in range(7) if key not in missing]
    if not kept:
        with pytest.raises(DataError, match="no sequence is in all streams"):
            joined.index()
        return
    assert sum(info.samples for info in joined.index()) == sum(lengths[key] for key in kept)
    assert sequences(joined, "a") == {key: values_of(key, lengths[key])[:, 0].tolist() for key in kept}
    assert sequences(joined, "b") == {key: values_of(key, lengths[key], -1)[:, 0].tolist() for key in kept}
    assert len(told) == min(len(missing), 5) + (len(missing) > 5)
    frames = FrameSource(joined)
    rows: list[float] = []
    for number, info in enumerate(frames.index()):
        column = frames.load(number).columns["a"]
        rows += column.data[column.first_rows(np.arange(info.sequences))][:, 0].tolist()
    assert rows == [value for key in kept for value in values_of(key, lengths[key])[:, 0].tolist()]


def test_the_longest_stream_counts() -> None:
    joined = CompositeSource([part("a", {0: 2, 1: 5}), part("b", {0: 3, 1: 1})])
    assert [info.samples for info in joined.index()] == [8]
    assert joined.index()[0].lengths.tolist() == [3, 5]


def test_expanded() -> None:
    joined = CompositeSource([part("a", {0: 2, 1: 3}), part("v", {1: 1, 0: 1}, 7, expand=True)], equal_lengths=True)
    assert sequences(joined, "v") == {"0": [0, 0], "1": [700, 700, 700]}


def test_a_chunk_is_loaded_once() -> None:
    second = part("b", dict.fromkeys(range(8), 1))
    joined = CompositeSource([part("a", dict.fromkeys(reversed(range(8)), 1)), second])
    sequences(joined, "b")
    assert sorted(second.source.loaded) == [0, 1, 2, 3]


@pytest.mark.parametrize("key", ["1" * 1001, "1" * 5000, "-1", "\u0661", "1.0", ""])
def test_keys_that_are_no_numbers(key: str) -> None:
    second = Part(ListSource("b", [(key, np.ones((2, 1)))]), ("b",))
    with pytest.raises(DataError) as caught:
        CompositeSource([part("a", {0: 2}), second], numeric_keys=True).index()
    assert caught.value.message == f"stream 'b': the key '{key[:1000]}' in b.txt is no number"


def test_keys_are_numbers_of_any_size() -> None:
    second = Part(ListSource("b", [(f"{2**64 - 1:030}", np.ones((2, 1)))]), ("b",))
    joined = CompositeSource([part("a", {2**64 - 1: 2}), second], numeric_keys=True)
    assert joined.keys(0) == [2**64 - 1]


@pytest.mark.parametrize(
    ("parts", "options", "message"),
    [
        (
            [part("a", {0: 2}), part("b", {0: 3})],
            {"equal_lengths": True, "drop": False},
            "sequence '0' has 2 frames in stream 'a', but 3 in stream 'b'\n    checkData=true leaves "
             "such sequences out.",
        ),
        (
            [part("a", {0: 2}), part("v", {0: 3}, expand=True)],
            {"drop": False},
            "sequence '0' of stream 'v', which is expanded, has 3 frames, not 1 (v.txt)\n"
            "    checkData=true leaves such sequences out.",
        ),
        (
            [part("a", {0: 2}), part("b", {1: 2})],
            {},
            "no sequence is in all streams: sequence '0' of stream 'a' is not in stream 'b' (b.txt)\n"
            "    The keys have to be the same in all files; without folders and extensions where those differ.",
        ),
        (
            [part("a", {0: 2}), part("b", {0: 2})],
            {"numeric_keys": True},
            "stream 'a': the key 'x' in a.txt is no number\n"
            "    useNumericSequenceKeys=true (also where a text format file is read) needs numbers as keys.",
        ),
        (
            [part("a", {0: 2}), Part(ListSource("b", [(0, np.ones((1, 1)))] * 2), ("b",))],
            {},
            "stream 'b': the key '0' occurs twice in b.txt",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit(parts: list[Part], options: dict[str, bool], message: str) -> None:
    if message.startswith("stream 'a'"):
        parts[0].source.frames = [("x", np.ones((2, 1)))]
    with pytest.raises(DataError) as caught:
        CompositeSource(parts, **options).index()
    assert str(caught.value) == message


@pytest.mark.parametrize("missing", [0, 1, 7])
def test_the_first_sequence_that_does_not_fit_is_named(missing: int) -> None:
    """However many are missing before it, which are left out in any case."""
    first = part("a", dict.fromkeys(range(10), 2))
    second = part("b", {8: 3, 9: 4, **dict.fromkeys(range(missing, 8), 2)})
    with pytest.raises(DataError) as caught:
        CompositeSource([first, second], equal_lengths=True, drop=False).index()
    assert caught.value.message == "sequence '8' has 2 frames in stream 'a', but 3 in stream 'b'"


def test_a_source_without_keys() -> None:
    class Nameless(ListSource):
        def keys(self, chunk: int) -> tuple[()]:
            return ()

    nameless = Part(Nameless("b", [(0, np.ones((1, 1)))]), ("b",))
    with pytest.raises(DataError) as caught:
        CompositeSource([part("a", {0: 1}), nameless]).index()
    assert str(caught.value) == (
        "stream 'b': b.txt has no sequence keys, so it cannot be joined with others\n"
        "    Give each sequence an id in the file."
    )


class CutSource(ListSource):
    """Notes how small its chunks shall be."""

    chunk_bytes = 0

    def read_in_order(self, chunk_bytes: int) -> None:
        self.chunk_bytes = chunk_bytes


def test_all_sources_hear_that_they_are_read_in_order():
    sources = [CutSource(name, [(1, values_of(1, 2))]) for name in "ab"]
    parts = [Part(FrameSource(sources[0]), ("a",)), Part(NumberedSource(sources[1]), ("b",))]
    CompositeSource(parts).read_in_order(4096)
    assert [each.chunk_bytes for each in sources] == [4096, 4096]
