"""What the files of speech say in seldom ways: byte orders, times, paths, damaged lattices, language models."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_htk import HTKMLFWriter
from cntk_reader_htk.denominator import estimate
from cntk_reader_htk.hmms import read_phones
from cntk_reader_htk.htkfile import FeatureFile
from cntk_reader_htk.joined import _Frames, epoch_frames
from cntk_reader_htk.lattice_archive import Archive
from cntk_reader_htk.mlf import LabelParser, frame_range
from cntk_reader_htk.scp import read_script
from cntk_reader_htk.transcripts import SILENCES, read_words
from lattice_files import NO_PHONE, Arc, Lattice, packed, second_version, vector, write_archive

from cntk_core.api import CntkError, Config, DataError, EpochSpec, WriterContext
from cntk_core.api.builders import SourceText
from cntk_core.api.readers import ChunkInfo
from cntk_kit_readers.randomize import FileOrder

# -- features ---------------------------------------------------------------------------------------------

ALIKE = 0x00100000 + 0x1000
"""A period whose bytes are the same both ways round: 00 10 10 00."""


@pytest.mark.parametrize(
    ("order", "more", "found"),
    [(">", 0, ">"), ("<", 0, "<"), ("<", 8 * 12 + 2, "<"), ("<", 8 * 12 + 3, ">"), (">", 8 * 12 + 2, ">")],
)
def test_the_size_of_a_file_tells_the_order_of_its_bytes(order: str, more: int, found: str, tmp_path: Path) -> None:
    """Where the period does not, and up to what else a file may have: two vectors and a sum."""
    path = tmp_path / "x.mfc"
    path.write_bytes(struct.pack(f"{order}iiHH", 3, ALIKE, 12, 9) + bytes(3 * 12 + more))
    if order != found:  # the header makes no sense then
        with pytest.raises(DataError):
            FeatureFile(str(path))
        return
    file = FeatureFile(str(path))
    file.close()
    assert (file.header.order, file.header.frames, file.header.dim) == (found, 3, 3)


def test_an_image_file_without_images(tmp_path: Path) -> None:
    path = tmp_path / "x-ubyte"
    path.write_bytes(struct.pack(">4i", 2051, 0, 2, 2))
    with pytest.raises(DataError) as caught:
        FeatureFile(str(path))
    assert caught.value.message == f"'{path}', byte 4: the header says that the file has 0 frames"


# -- labels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("0", "5", (0, 5)), ("7", "99998", (7, 99998)), ("0", "99998", (0, 99998)), ("0", "99999", (0, 1)),
        ("100000", "100005", (100000, 100005)), ("100000", "300000", (1, 3)), ("149999", "250000", (1, 3)),
        ("200000", "299999", (2, 3)), ("1.7", "3.2", (1, 3)), ("0", "1e6", (0, 10)), ("0", "1_0", None),
        ("x", "3", None), ("0", "nan", None),
    ],
)  # fmt: skip
def test_times_are_frames_or_units_of_100_ns(start: str, end: str, expected: tuple[int, int] | None) -> None:
    """They are the latter where they are a frame of 10 ms apart, or one unit less."""
    assert frame_range(start, end) == expected


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("9" * 18, f"'{'9' * 18}' is class {'9' * 18}, but labelDim=3"),
        ("9" * 19, f"'{'9' * 19}' is not the number of a class"),
        ("-1", "'-1' is not the number of a class"),
    ],
)
def test_numbers_of_classes(word: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.mlf"
    path.write_text(f'#!MLF!#\n"u.lab"\n0 3 {word} {word}\n.\n')
    parser = LabelParser(None, 3)
    parser.read(path)
    assert [error.message for error in parser.labels().errors] == [said]


@pytest.mark.parametrize(
    ("line", "key", "path"),
    [
        (".../a.../x.mfc", "FOLDER/a.../x", "FOLDER/a.../x.mfc"),
        ("u.lab=.../a.../x.mfc", "u", "FOLDER/a.../x.mfc"),
        ("....mfc=y.mfc", "...", "y.mfc"),
    ],
)
def test_three_dots_are_the_folder_of_the_list_once(line: str, key: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "list.scp").write_text(f"{line}\n")
    (entry,) = read_script(tmp_path / "list.scp").entries
    assert (entry.key, entry.path) == (key.replace("FOLDER", str(tmp_path)), path.replace("FOLDER", str(tmp_path)))


# -- utterances end to end --------------------------------------------------------------------------------


def test_frames_that_follow_each_other_are_one_piece() -> None:
    """But not over the end of an utterance."""
    infos = [ChunkInfo(2, 5, np.array([2, 3])), ChunkInfo(1, 4, np.array([4]))]
    order = FileOrder(infos)
    pieces = _Frames(order).pieces(np.array([0, 1, 2, 3, 7, 8, 8, 4, 5]))
    assert [(one.chunk, one.sequence, one.length, one.first, one.count) for one in pieces] == [
        (0, 0, 2, 0, 2), (0, 1, 3, 0, 2), (1, 0, 4, 2, 2), (1, 0, 4, 3, 1), (0, 1, 3, 2, 1), (1, 0, 4, 0, 1),
    ]  # fmt: skip
    assert order.open_chunks == {0, 1}


@pytest.mark.parametrize(
    ("epoch_size", "size", "total", "full", "expected"),
    [
        (0, 4, 10, False, 10), (7, 4, 10, False, 7), (0, 4, 10, True, 8), (0, 4, 8, True, 8), (0, 4, 3, True, 3),
        (0, 4, 4, True, 4), (8, 4, 10, True, 8), (9, 4, 10, True, 11), (16, 4, 10, True, 18), (17, 4, 10, True, 21),
        (5, 4, 3, True, 5), (9, 4, 4, True, 9),
    ],
)  # fmt: skip
def test_frames_of_an_epoch(epoch_size: int, size: int, total: int, full: bool, expected: int) -> None:
    epoch = EpochSpec(epoch_size=epoch_size, minibatch_size=size)
    assert epoch_frames(epoch, total, full=full) == expected


# -- lattices ---------------------------------------------------------------------------------------------


def made(arcs: list[tuple[int, int, int]], tokens: bytes, *, scored: bool = False, nodes: int = 2) -> bytes:
    """A lattice of 3 frames whose arcs go from node to node and name a place among the tokens."""
    sizes = struct.pack("<IIffdQ", 2, len(arcs), 12.0, 0.0, 0.01, 3 | NO_PHONE << 32 | scored << 63)
    words = [begin | end << 20 | first << 40 for begin, end, first in arcs]
    return (
        b"LAT " + struct.pack("<i", 2) + sizes + vector(b"NODS", struct.pack(f"<{nodes}H", *(0, 3, 3)[:nodes]), 2)
        + vector(b"EDGS", struct.pack(f"<{len(words)}Q", *words), 8) + vector(b"ALNS", tokens, 4) + b"END "
    )  # fmt: skip


SCORE = struct.pack("<f", -0.5)
THREE = packed(0, 3, last=True)


def read(data: bytes, folder: Path, phones: tuple[str, ...] = ("a", "b", "sil", "sp")) -> Archive:
    write_archive(folder, "den.lats", {"u": data}, phones)
    return Archive(str(folder / "den.lats"), None)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (made([(0, 1, 0)], SCORE + THREE), "an arc names phones that are not there"),
        (made([(0, 1, 3)], SCORE + THREE), "an arc names phones that are not there"),
        (made([(0, 1, 1)], SCORE + SCORE + THREE, scored=True), "an arc names phones that are not there"),
        (made([(0, 2, 1)], SCORE + THREE), "the arcs do not lead from node to node"),
        (made([(1, 1, 1)], SCORE + THREE), "the arcs do not lead from node to node"),
        (made([(2, 3, 1)], SCORE + THREE), "the arcs do not lead from node to node"),
        (made([(0, 1, 2)], SCORE + SCORE), "the phones of an arc have not as many frames as the arc"),
        (made([(0, 1, 1)], SCORE + packed(0, 2, last=True)), "the phones of an arc have not as many frames as the arc"),
        (made([(0, 1, 1)], SCORE + packed(5, 3, last=True)), "there is a phone 5, and '{}.symlist' has too few"),
        (made([(0, 1, 1)], SCORE + THREE, nodes=3), "3 numbers follow, and the head of the lattice says 2"),
        (made([], SCORE), "the lattice has 2 nodes, 0 arcs and 3 frames"),
    ],
    ids=range(11),
)
def test_damaged_lattices(data: bytes, said: str, tmp_path: Path) -> None:
    archive = read(data, tmp_path)
    with pytest.raises(DataError) as caught:
        archive.read(0)
    archive.close()
    assert caught.value.message.partition(": ")[2] == said.format(archive.path)


@pytest.mark.parametrize(
    "data",
    [made([(0, 1, 1)], SCORE + THREE), made([(0, 1, 2)], SCORE + SCORE + THREE, scored=True)],
    ids=["phones", "scores, too"],
)
def test_sound_lattices(data: bytes, tmp_path: Path) -> None:
    archive = read(data, tmp_path)
    found, frames = archive.read(0), archive.frames(0)
    archive.close()
    assert frames == 3
    assert (found.language.tolist(), found.phones.tolist(), found.frames.tolist()) == ([-0.5], [0], [3])


def test_the_short_pause_is_behind_the_phones_of_the_list(tmp_path: Path) -> None:
    lattice = Lattice((0, 5), (Arc(0, 1, -1.0, (("a", 3), ("sp", 2))),))
    archive = read(second_version(lattice), tmp_path, ("a", "b", "sil"))
    found = archive.read(0)
    archive.close()
    assert [archive.phones[number] for number in found.phones] == ["a", "sp"]
    assert found.frames.tolist() == [3, 2]


# -- models -----------------------------------------------------------------------------------------------


def test_a_history_that_only_ends_utterances_is_followed_by_any_phone() -> None:
    model = estimate([["a", "b", "a", "c"]], 3)
    assert model.following["a", "c"] == {("c", phone): 1 / 3 for phone in "bac"}
    assert model.following["c", "b"] == {("b", "a"): 1.0}


def test_words_of_a_language_model(tmp_path: Path) -> None:
    r"""Those of the section ``\1-grams:``; a line without a word is none."""
    path = tmp_path / "lm.arpa"
    path.write_text("\\data\\\nngram 1=2\n\\1-Grams:\n-1.5 one\n-2\n-0.5 two -0.25\n\\2-grams:\n-1 three four\n")
    assert read_words(path, None) == {"one", "two", *SILENCES}
    path.write_text("\\1-grams:\n-1.5\n")
    with pytest.raises(DataError, match="the language model has no words"):
        read_words(path, None)


@pytest.mark.parametrize("line", ["one", "one x 1 0 0.5 0.5", "one 0 1", "one 4 1"])
def test_lines_that_are_no_transition(line: str, tmp_path: Path) -> None:
    (tmp_path / "phones").write_text("a one s\n")
    (tmp_path / "transitions").write_text(f"{line}\n")
    with pytest.raises(DataError) as caught:
        read_phones(tmp_path / "phones", tmp_path / "transitions", {"s": 0})
    assert caught.value.message == f"'{line}' is no transition of 1 to 3 states"


# -- writing ----------------------------------------------------------------------------------------------


def test_lists_of_different_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, count in (("z", 2), ("y", 3)):
        Path(f"{name}.scp").write_text("".join(f"{name}{place}.mfc\n" for place in range(count)))
    text = "outputNodeNames=z:y\n" + "\n".join(f"{name}=[ dim=2 ; scpFile={name}.scp ]" for name in "zy")
    options = HTKMLFWriter.settings_from(Config.from_source(SourceText.of(text, "r.cntk")), "writer 'HTKMLFWriter'")
    with pytest.raises(CntkError) as caught:
        HTKMLFWriter(options, WriterContext({"z": 2, "y": 2}, None))
    assert str(caught.value).partition(": ")[2] == (
        "HTKMLFWriter: the lists of files have different lengths: 'z' 2, 'y' 3\n"
        "    Each has one file for each utterance."
    )
