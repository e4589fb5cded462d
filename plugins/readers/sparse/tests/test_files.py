"""Bytes of a file through a block: any of them, in any order, and what there is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cntk_reader_sparse import files
from cntk_reader_sparse.files import DataFile

from cntk_core.api import DataError

DATA = bytes(range(100))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataFile]:
    monkeypatch.setattr(files, "BLOCK_BYTES", 16)
    path = tmp_path / "x.bin"
    path.write_bytes(DATA)
    found = DataFile(path, "reader", None)
    yield found
    found.close()


class Counted:
    """A file that counts how often it is read, and gives a few bytes at once."""

    def __init__(self, file: object) -> None:
        self.file, self.places = file, []

    def seek(self, place: int) -> int:
        self.places.append(place)
        return self.file.seek(place)

    def read(self, size: int) -> bytes:
        return self.file.read(min(size, 7))

    def close(self) -> None:
        self.file.close()


def test_bytes_are_read_a_block_at_a_time(file: DataFile) -> None:
    file._file = counted = Counted(file._file)
    asked = [(10, 6), (20, 6), (10, 1), (9, 1), (9, 16), (25, 16), (24, 2), (0, 40), (39, 1), (40, 1), (99, 1)]
    for offset, size in asked:
        assert bytes(file.read(offset, size)) == DATA[offset : offset + size]
    assert counted.places == [10, 9, 25, 24, 0, 40, 99]


def test_what_a_file_has(file: DataFile) -> None:
    assert [file.has(offset, size=size) for offset, size in ((0, 100), (99, 1), (100, 0), (0, 0))] == [True] * 4
    assert [file.has(offset, size=size) for offset, size in ((0, 101), (99, 2), (101, 0), (-1, 5), (5, -1))] == [
        False
    ] * 5
    assert file.size == 100
    assert file.integer(4) == int.from_bytes(DATA[4:8], "little")


def test_a_file_that_becomes_shorter_says_where(file: DataFile) -> None:
    Path(file.name).write_bytes(DATA[:30])
    with pytest.raises(DataError, match=r"byte 30: the file has become shorter while it was read$"):
        file.read(25, 6)
    assert bytes(file.read(25, 5)) == DATA[25:30]


def test_a_closed_file_is_read_no_more(file: DataFile) -> None:
    assert bytes(file.read(0, 4)) == DATA[:4]
    file.close()
    file.close()
    with pytest.raises(DataError, match="cannot read the file: "):
        file.read(0, 4)
