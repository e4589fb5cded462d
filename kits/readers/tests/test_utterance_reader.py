"""Readers of utterances, over sources in memory: order, frames, pieces, side by side, for the write action."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from cntk_core.config import Config, parse_text
from cntk_core.contract.reader import EpochSpec, ReaderContext, StreamInfo
from cntk_core.errors import CntkError, ConfigError
from cntk_core.records.minibatch import Minibatch
from cntk_kit_readers.composite import Part
from cntk_kit_readers.source import Chunk, ChunkInfo, ChunkSource, Column
from cntk_kit_readers.utterance_keys import UtteranceKeys, read_utterance_block
from cntk_kit_readers.utterance_reader import UtteranceReader, window_of

LENGTHS = {"a": 3, "b": 1, "c": 4, "d": 2}


class Memory(ChunkSource):
    """The utterances of a stream: frame t of utterance n is 10 n + t."""

    closed = 0

    def index(self) -> list[ChunkInfo]:
        return [ChunkInfo(4, 10, np.array(list(LENGTHS.values())))]

    def keys(self, chunk: int) -> list[str]:
        return list(LENGTHS)

    def load(self, chunk: int) -> Chunk:
        values = [10.0 * number + t for number, length in enumerate(LENGTHS.values()) for t in range(length)]
        ends = np.cumsum([0, *LENGTHS.values()])
        return Chunk({"features": Column(np.array(values)[:, None], ends)}, self.keys(chunk))

    def close(self) -> None:
        Memory.closed += 1


@attrs.frozen
class Stream:
    name: str
    expand: bool = False
    where: Any = None


@attrs.frozen
class Told:
    """What a stream was opened with."""

    max_errors: int
    longest: int | None


def make(text: str = "", *, counts: bool = False, **context: Any) -> tuple[UtteranceReader, list[Told], list[str]]:
    opened: list[Told] = []
    told: list[str] = []

    def open_part(stream: Stream, context: ReaderContext, trace: Any, **given: Any) -> tuple[Part, StreamInfo]:
        opened.append(Told(**given))
        trace(f"opened {stream.name}")
        return Part(Memory(), (stream.name,)), StreamInfo(stream.name, (1,), sequence=True)

    block = parse_text(text, file="r.cntk")
    keys = block.bind(UtteranceKeys, what="reader")
    options = _Options(**attrs.asdict(keys, recurse=False))
    reader = UtteranceReader(
        options, ReaderContext(dtype=np.dtype("f8"), trace=told.append, **context), open_part=open_part,
        features=Stream, counts_utterances=counts,
    )  # fmt: skip
    return reader, opened, told


class _Options(UtteranceKeys):  # type: ignore[misc] # options of a reader have more than the keys of its block
    streams = (Stream("features"),)


def frames(minibatch: Minibatch) -> list[list[float]]:
    return minibatch.streams["features"].data[:, 0].tolist()


def read(reader: UtteranceReader, **spec: int) -> list[Minibatch]:
    found = list(reader.minibatches(EpochSpec(**{"minibatch_size": 4, **spec})))
    reader.close()
    return found


def test_frames_are_samples() -> None:
    reader, opened, _ = make("readMethod=none")
    assert reader.streams == (StreamInfo("features", (1,)),)
    assert [frames(one) for one in read(reader)] == [[0, 1, 2, 10], [20, 21, 22, 23], [30, 31]]
    assert opened == [Told(0, None)]


@pytest.mark.parametrize("counts", [False, True])
def test_utterances_are_sequences(counts: bool) -> None:
    """As many as fit, and if the recipe counts them, at least so many."""
    text = "readMethod=none ; frameMode=false ; nbruttsineachrecurrentiter=3 ; maxErrors=2 ; maxUtteranceLength=9"
    reader, opened, _ = make(text, counts=counts)
    assert reader.streams == (StreamInfo("features", (1,), sequence=True),)
    keys = [sorted(one.streams["features"].layout.keys) for one in read(reader)]
    assert keys == ([["a", "b", "c"], ["d"]] if counts else [["a", "b"], ["c"], ["d"]])
    assert opened == [Told(2, 9)]


def test_frames_are_not_counted_as_utterances() -> None:
    reader, opened, _ = make("readMethod=none ; nbruttsineachrecurrentiter=3 ; maxUtteranceLength=9", counts=True)
    assert [one.samples for one in read(reader, minibatch_size=1)] == [1] * 10
    assert opened == [Told(0, None)]


@pytest.mark.parametrize(
    ("length", "size", "pieces", "factor"),
    [(0, 2, [4, 4, 2], 2), (2, 4, [4, 4, 2], 1), (2, 2, [2] * 5, 1), (3, 6, [5, 4, 1], 1)],
)
def test_pieces_of_utterances(length: int, size: int, pieces: list[int], factor: int) -> None:
    """Without truncationLength minibatchSize is the length of a piece, of as many utterances as the recipe says."""
    text = "readMethod=none ; frameMode=false ; truncated=true ; nbruttsineachrecurrentiter=1:2"
    reader, _, _ = make(f"{text} ; truncationLength={length}")
    assert [reader.minibatch_factor(epoch) for epoch in range(3)] == ([1, 2, 2] if not length else [1, 1, 1])
    found = read(reader, minibatch_size=size, epoch=1)
    assert sum(one.samples for one in found) == 10
    slots = {one.streams["features"].layout.slots for one in found}
    assert slots == {factor if not length else max(size // length, 1)}
    assert max(one.streams["features"].layout.steps for one in found) == (length or size)


def test_whole_utterances_are_not_cut() -> None:
    reader, _, _ = make("frameMode=false ; truncationLength=2")
    assert reader.minibatch_factor(0) == 1
    (whole,) = read(make("readMethod=none")[0], minibatch_size=99)
    assert sorted(value for one in read(reader) for value in frames(one)) == frames(whole)


def test_the_write_action_has_an_utterance_in_a_minibatch() -> None:
    reader, _, _ = make("", for_writing=True)
    assert reader.streams == (StreamInfo("features", (1,), sequence=True),)
    assert [one.streams["features"].layout.keys for one in read(reader)] == [(name,) for name in LENGTHS]


@pytest.mark.parametrize(("level", "told"), [(0, []), (1, ["opened features"]), (2, ["opened features"])])
def test_warnings_are_told_from_level_1_on(level: int, told: list[str]) -> None:
    reader, _, found = make(f"traceLevel={level}")
    reader.close()
    assert found == told


def test_a_stream_that_cannot_be_opened_closes_the_others() -> None:
    before = Memory.closed

    def open_part(stream: Stream, *_: Any, **__: Any) -> tuple[Part, StreamInfo]:
        if stream.name == "labels":
            raise ConfigError("no labels")
        return Part(Memory(), (stream.name,)), StreamInfo(stream.name, (1,), sequence=True)

    with pytest.raises(ConfigError, match="no labels"):
        UtteranceReader(
            _Two(), ReaderContext(dtype=np.dtype("f8")), open_part=open_part, features=Stream, counts_utterances=False
        )
    assert Memory.closed == before + 1


class _Two(_Options):
    streams = (Stream("features"), Stream("labels"))


@pytest.mark.parametrize(
    ("text", "window"),
    [("", None), ("randomize=7", 7), ("randomize=auto", None), ("randomize=0", ""), ("readMethod=none", "")],
)
def test_windows(text: str, window: int | str | None) -> None:
    found = window_of(parse_text(text).bind(UtteranceKeys, what="reader"))
    if window == "":
        assert found is None
    else:
        assert found is not None
        assert (found.size, found.in_samples) == (window, True)


def test_a_reader_without_features() -> None:
    """Which is not told beside other mistakes."""

    def stream_of(block: Config, name: str, what: str) -> Any:
        return "labels"

    for text in ("reader=[ x=[ a=1 ] ]", "reader=[ x=[ a=1 ] ; frameMode=7 ]"):
        with pytest.raises(CntkError) as caught:
            read_utterance_block(
                parse_text(text).section("reader"), "reader", UtteranceKeys, stream_of, features=Stream, ignore=(),
                errors=[],
            )  # fmt: skip
        assert ("reader has no block of features" in str(caught.value)) == ("frameMode" not in text)
