"""The last value that is taken, and the first that is not: sizes, lines, numbers, open files, names of tables."""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_kaldi import archive, commands
from cntk_reader_kaldi.archive import ArchiveFile, ArchiveFiles
from cntk_reader_kaldi.tables import split_specifier
from kaldi_bytes import F, L, alignment, matrix, posterior

from cntk_core.api import DataError


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def opened(data: bytes, max_line_bytes: int = 100) -> ArchiveFile:
    Path("x.ark").write_bytes(data)
    return ArchiveFile("x.ark", max_line_bytes)


@pytest.mark.parametrize(("rows", "columns"), [(0, 2), (2, 0), (-1, 2), (2, -1)])
def test_a_matrix_has_rows_and_columns(rows: int, columns: int) -> None:
    data = b"\0BFM " + struct.pack("<bibi", 4, rows, 4, columns)
    with closing(opened(data)) as file, pytest.raises(DataError, match=f"the matrix is {rows} x {columns}: it has no "):
        file.header(0)


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_may_be_as_long_as_is_said(end: bytes) -> None:
    line = b"1 22 333" + end
    with closing(opened(line, len(line))) as file:
        assert file.posterior(0)[0].classes.tolist() == [1, 22, 333]
    with closing(opened(line, len(line) - 1)) as file, pytest.raises(DataError, match=f"than {len(line) - 1} bytes"):
        file.posterior(0)


def test_an_empty_line_ends_where_the_next_begins() -> None:
    with closing(opened(b"\n1 2\n")) as file:
        found, end = file.posterior(0)
        assert (found.counts.tolist(), end) == ([], 1)


@pytest.mark.parametrize("place", [7, 12, 17])
def test_a_posterior_says_how_long_each_of_its_numbers_is(place: int) -> None:
    good = posterior([[(3, 1.0)]])
    assert good[place] == 4
    wrong = good[:place] + b"\5" + good[place + 1 :]
    with closing(opened(good)) as file:
        assert file.posterior(0)[0].classes.tolist() == [3]
    with closing(opened(wrong)) as file:
        if place == 12:  # the bytes begin with an alignment of one frame then
            found, end = file.posterior(0)
            assert (found.classes.tolist(), end) == ([1], 12)
            return
        with pytest.raises(DataError, match="byte 7: here are neither the classes of an alignment nor a posterior"):
            file.posterior(0)


def test_the_last_few_archives_stay_open() -> None:
    files = ArchiveFiles()
    for number in range(archive._OPEN_FILES + 1):
        Path(f"{number}.ark").write_bytes(matrix(np.ones((1, 2))))
    first, *others = [files.get(f"{number}.ark") for number in range(archive._OPEN_FILES + 1)]
    assert all(each.header(0).rows == 1 for each in others)
    with pytest.raises(DataError, match="cannot be read"):
        first.header(0)
    assert files.get("0.ark").header(0).rows == 1
    assert files.get("2.ark") is others[1]
    files.close()
    with pytest.raises(DataError, match="cannot be read"):
        others[1].header(0)
    assert files.get("2.ark").header(0).rows == 1  # is opened anew
    files.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("scp:a.ark", ("scp", "a.ark")),
        (" ark,t: a.scp ", ("ark", "a.scp")),
        ("scp,p:a b", ("scp", "a b")),
        ("a.scp", ("scp", "a.scp")),
        ("a.ark", ("ark", "a.ark")),
        ("scp", ("ark", "scp")),
        ("ark", ("ark", "ark")),
        ("c:a.scp", ("scp", "c:a.scp")),
        ("c:a.ark", ("ark", "c:a.ark")),
    ],
)
def test_what_a_specifier_names(text: str, found: tuple[str, str]) -> None:
    assert split_specifier(text) == found


def test_a_long_command_is_shown_in_part() -> None:
    most = "x" * commands._SHOWN
    assert commands.shown(most) == most
    assert commands.shown(most + "y") == most + "..."


def test_a_class_of_a_mapping_has_nine_digits_at_most(make) -> None:
    Path("map").write_text("0\n1\n2\n999999999\n")
    mapped = L.replace("labelDim=3", "labelDim=4").replace(" ]", ' ; labelMappingFile="map" ]')
    make(F + mapped)
    Path("map").write_text("0\n1\n2\n1000000000\n")
    with pytest.raises(DataError, match=r"^map:4: '1000000000' is no class of an alignment"):
        make(F + mapped)


def test_an_alignment_may_have_no_frames() -> None:
    with closing(opened(alignment([]))) as file:
        assert file.posterior(0)[0].counts.tolist() == []
