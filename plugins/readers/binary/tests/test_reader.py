"""What is read: dense and sparse streams, jagged sequences, chosen and renamed streams, and the random order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cbf_bytes import Stream, binary_file
from cntk_reader_binary import BinaryWriterOptions, CNTKBinaryWriter
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from cntk_core.api import CntkError, EpochSpec, SequenceOutput, SparseRows, WriterContext
from cntk_testing.examples import examples
from cntk_testing.inside import unpack_sequences

COUNTS = st.integers(0, 4)


@st.composite
def contents(draw: st.DrawFn) -> tuple[list[Stream], list[list[dict[bytes, np.ndarray]]]]:
    """Streams and chunks of sequences whose streams have different lengths; each sequence has some sample."""
    streams = [
        Stream(name, draw(st.integers(1, 4)), draw(st.booleans()), draw(st.booleans()))
        for name in draw(st.sampled_from([(b"a",), (b"a", b"bb"), (b"x", b"y", b"z")]))
    ]
    same = draw(st.booleans())
    chunks = []
    for size in draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)):
        chunk = []
        for _ in range(size):
            lengths = [draw(COUNTS) for _ in streams]
            lengths = [2] * len(streams) if same or not any(lengths) else lengths
            rng = np.random.default_rng(draw(st.integers(0, 1000)))
            chunk.append(
                {
                    stream.name: rng.integers(-2, 3, (length, stream.dim)).astype(float)
                    for stream, length in zip(streams, lengths, strict=True)
                }
            )
        chunks.append(chunk)
    return streams, chunks


def dense(data) -> np.ndarray:
    return data if isinstance(data, np.ndarray) else data.toarray()


def column_sequences(column, count: int) -> list[np.ndarray]:
    numbers = np.arange(count)
    firsts, lengths = column.first_rows(numbers), column.lengths(numbers)
    data = dense(column.data)
    return [data[first : first + length] for first, length in zip(firsts, lengths, strict=True)]


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents(), st.integers(1, 200))
def test_any_file(make, content, chunk_bytes: int) -> None:
    """A file made byte by byte is read, and what is read and written again is read the same."""
    streams, chunks = content
    reader = make(binary_file(streams, chunks))
    expected = [sequence for chunk in chunks for sequence in chunk]
    check_source(reader.source, streams, expected)
    outputs = {stream.name.decode(): stream.dim for stream in streams}
    sparse = frozenset(stream.name.decode() for stream in streams if stream.sparse)
    options = BinaryWriterOptions(file=Path("again.cbf"), precision="double", chunk_size_in_bytes=chunk_bytes)
    writer = CNTKBinaryWriter(options, WriterContext(outputs, None, sparse))
    for sequence in expected:
        writer.write({stream.name.decode(): [output(sequence[stream.name], stream)] for stream in streams})
    writer.close()
    check_source(make(Path("again.cbf").read_bytes()).source, streams, expected)
    reader.close()


def output(frames: np.ndarray, stream: Stream) -> SequenceOutput:
    if not stream.sparse:
        return SequenceOutput("", frames)
    places = np.nonzero(frames)
    return SequenceOutput("", SparseRows(frames[places], places[1], np.count_nonzero(frames, axis=1)))


def check_source(source, streams: list[Stream], expected: list[dict[bytes, np.ndarray]]) -> None:
    number = 0
    for index, info in enumerate(source.index()):
        chunk = source.load(index)
        assert list(source.keys(index)) == list(range(number, number + info.sequences))
        lengths = info.sample_counts()
        found = {s.name: column_sequences(chunk.columns[s.name.decode()], info.sequences) for s in streams}
        for i in range(info.sequences):
            for stream in streams:
                assert np.array_equal(found[stream.name][i], expected[number][stream.name])
            assert lengths[i] == max(len(values) for values in expected[number].values())
            number += 1
    assert number == len(expected)


A, B = Stream(b"a", 2), Stream(b"b", 3, sparse=True)
ONE = {b"a": np.array([[1.0, 2], [3, 4]]), b"b": np.array([[0.0, 5, 0]])}
TWO = {b"a": np.array([[6.0, 7]]), b"b": np.array([[0.0, 0, 8], [9, 0, 0], [0, 0, 0]])}
FILE = binary_file([A, B], [[ONE], [TWO]])


def test_minibatch(make) -> None:
    (minibatch,) = make(FILE).minibatches(EpochSpec(minibatch_size=100))
    assert minibatch.samples == 5
    a, b = minibatch.streams["a"], minibatch.streams["b"]
    assert [x.tolist() for x in unpack_sequences(a.data, a.layout)] == [ONE[b"a"].tolist(), TWO[b"a"].tolist()]
    assert [x.tolist() for x in unpack_sequences(b.data.toarray(), b.layout)] == [
        TWO[b"b"].tolist(),
        ONE[b"b"].tolist(),
    ]
    assert a.data.dtype == np.float64
    assert a.layout.keys == (0, 1)


def test_only_what_the_network_needs_is_kept(make) -> None:
    reader = make(FILE, inputs={"B": (3,)})
    assert [stream.name for stream in reader.streams] == ["B"]
    assert list(reader.source.load(0).columns) == ["B"]


def test_streams_are_renamed(make) -> None:
    text = "input=[ features=[ alias=a ; dim=2 ; format=dense ] ; B=[] ]\nrandomize=none"
    reader = make(FILE, text, inputs={"Features": (1, 2)})
    assert [(stream.name, stream.shape) for stream in reader.streams] == [("Features", (1, 2)), ("B", (3,))]
    (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=100))
    assert minibatch.streams["Features"].data.shape == (3, 1, 2)


def test_truncated_is_said_to_change_nothing(make) -> None:
    reader = make(FILE, "truncated=true")
    assert reader.told == ["CNTKBinaryReader reads whole sequences, truncated=true does not change that."]
    assert make(FILE, "").told == []


BLOCKS = {
    "unknown stream": (
        "input=[ features=[ alias=aa ] ]",
        "r.cntk:2:9: 'x.cbf' has no stream 'aa'; did you mean 'a'?\n"
        "    It has: a, b. Write features=[ alias=... ], the name in the file.",
    ),
    "taken": (
        "input=[ x=[ alias=a ] ; a=[] ]",
        "r.cntk:2:25: stream 'a' of the file feeds 'x' already",
    ),
    "dim": (
        "input=[ a=[ dim=3 ] ]",
        "r.cntk:2:9: stream 'a' has dim=3, but 2 in the file\n    Leave dim out: the file knows it.",
    ),
    "format": (
        "input=[ b=[ format=dense ] ]",
        "r.cntk:2:9: stream 'b' has format=dense, but is sparse in the file\n    Leave format out: the file knows it.",
    ),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks(make, case: str) -> None:
    text, message = BLOCKS[case]
    with pytest.raises(CntkError) as caught:
        make(FILE, text)
    assert str(caught.value) == message


def test_input_of_the_network(make) -> None:
    with pytest.raises(CntkError) as caught:
        make(FILE, inputs={"a": (3,)})
    assert str(caught.value) == (
        "r.cntk:1:1: stream 'a' has samples of 2 values, but the network's input 'a' is [3]\n"
        "    Change the input of the network, or write the file again."
    )
