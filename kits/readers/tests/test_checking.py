"""What `cntk check-data` finds with any reader of chunks."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.contract.reader import StreamInfo
from cntk_core.errors import DataError, Location, raise_problems
from cntk_kit_readers.checking import check_chunks
from cntk_kit_readers.source import Chunk, ChunkInfo, ChunkSource, Column

STREAMS = (StreamInfo("x", (2,)), StreamInfo("y", (1,)))


def good(rows: int = 3) -> Chunk:
    return Chunk({"x": Column(np.zeros((rows, 2))), "y": Column(np.zeros((rows, 1)))})


class Given(ChunkSource):
    """Chunks as they are given; a function is called."""

    def __init__(self, *chunks, infos=None):
        self.chunks = chunks
        self.infos = infos or [ChunkInfo(3, 3)] * len(chunks)

    def index(self):
        return self.infos() if callable(self.infos) else self.infos

    def load(self, chunk):
        found = self.chunks[chunk]
        return found() if callable(found) else found

    def close(self):
        pass


def failing(error: Exception):
    def load():
        raise error

    return load


def two_problems():
    raise_problems([DataError("first", where=Location("f", 1)), DataError("second", where=Location("f", 9))])


def found(source: ChunkSource) -> list[str]:
    return [str(error).partition("\n")[0] for error in check_chunks(source, STREAMS)]


def test_sound_data():
    assert not found(Given(good(), good()))


def test_all_chunks_are_looked_at():
    source = Given(failing(DataError("torn", where=Location("f", 4))), good(), two_problems)
    assert found(source) == ["f:4: torn", "f:1: first", "f:9: second"]


def test_errors_of_libraries():
    (error,) = check_chunks(Given(good(), failing(KeyError("labels"))), STREAMS)
    assert error.message == "the data, chunk 2 of 2 cannot be read: KeyError: 'labels'"
    assert "test_checking.py:" in error.hint


def test_data_that_cannot_be_opened():
    assert found(Given(infos=failing(DataError("not there")))) == ["not there"]
    assert found(Given(infos=list)) == ["the data has no samples"]


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (Chunk({"x": Column(np.zeros((3, 2)))}), "the stream 'y' is missing; there are x"),
        (Chunk({}), "the stream 'x' is missing; there are none"),
        (good(4), "the stream 'x' has 4 sequences, not 3 as the index says"),
        (
            Chunk({"x": Column(np.zeros((3, 5))), "y": Column(np.zeros((3, 1)))}),
            "a sample of the stream 'x' has the shape (5,), not (2,)",
        ),
    ],
)
def test_chunks_that_are_not_as_declared(chunk, message):
    assert found(Given(good(), chunk))[0] == f"the data, chunk 2 of 2: {message}"


def test_sequences_and_pieces():
    column = Column(np.zeros((5, 2)), np.array([0, 2, 2, 5]))
    assert not found(Given(Chunk({"x": column, "y": Column(np.zeros((9, 1)), rows=np.array([0, 4, 8]))})))
