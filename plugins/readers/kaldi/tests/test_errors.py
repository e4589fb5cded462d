"""Corrupt archives and lists: each one message with its place and what to do. Commands are never run."""

from __future__ import annotations

import random
import struct
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_kaldi.archive import ArchiveFile
from kaldi_bytes import LENGTHS, F, L, alignment, compressed, matrix

from cntk_core.api import CntkError, DataError, EpochSpec

ONE = np.array([[1.0, 2], [3, 4]])
GOOD = matrix(ONE)
CUT = "\n    The file is damaged or was not copied to its end."
OTHER = "\n    Features are matrices (FM, DM, CM) or vectors (FV, DV); or the offset in the list is wrong."
LEAVE = "\n    Leave the utterance out of the list."
FORMS = (
    "\n    A line is: key path, key path:offset, or with ranges of rows and columns behind it, path:offset[0:49,3:5]."
)
RUN = (
    "\n    allowCommands=true in the reader's block runs it for each reader; `cntk kaldi-prepare RECIPE` once for all."
)
WRITE = "\n    Write what it gives to a file: ... ark:features.ark"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written here: other tests run at the same time and have some of the same names."""
    monkeypatch.chdir(tmp_path)


def read(make, text: str) -> None:
    for _ in make(text).minibatches(EpochSpec(minibatch_size=100)):
        pass


MATRICES = {
    "empty": (b"", "byte 0: there is nothing: the file has 0 bytes\n    The list belongs to another archive."),
    "token": (b"\0BXM " + GOOD[5:], "byte 2: 'XM ' is no matrix" + OTHER),
    "alignment": (alignment([1, 2]), "byte 2: '\\x04\\x02\\x00' is no matrix" + OTHER),
    "sizes": (b"\0BFM \1" + GOOD[6:], "byte 5: here should be the rows of a matrix" + OTHER),
    "cut off in the sizes": (GOOD[:12], "byte 12: the file ends inside the columns of a matrix" + CUT),
    "cut off": (GOOD[:-1], "byte 0: a matrix of 2 x 2 ends at byte 31, and the file at byte 30" + CUT),
    "hostile sizes": (b"\0BFM " + struct.pack("<bibi", 4, 2**31 - 1, 4, 2**31 - 1), "byte 0: a matrix of 2147483647 x "
                      "2147483647 ends at byte 18446744056529682451, and the file at byte 15" + CUT),
    "no rows": (b"\0BFM " + struct.pack("<bibi", 4, 0, 4, 0), "byte 0: the matrix is 0 x 0: it has no frames" + LEAVE),
    "negative rows": (b"\0BFM " + struct.pack("<bibi", 4, -1, 4, 2), "byte 0: the matrix is -1 x 2: it has no frames"
                      + LEAVE),
    "compressed and cut off": (compressed(np.zeros((3, 2)), 0, 1, b"CM2")[:-2], "byte 0: a matrix of 3 x 2 ends at "
                               "byte 34, and the file at byte 32" + CUT),
    "compressed without sizes": (b"\0BCM2 \0\0\0\0", "byte 14: the file ends inside the sizes of a matrix" + CUT),
    "text": (b"hello\n", "byte 0: 'hello\\x0a' is no matrix" + OTHER),
    "text without end": (b" [ 1 2\n 3 4\n", "byte 1: the matrix does not end: there is no ']'" + CUT),
    "text without rows": (b" [ ]\n", "byte 1: the matrix has no frames" + LEAVE),
    "text without numbers": (b" [ 1 2\n 3 x ]\n", "byte 1: row 1 of the matrix is no row of numbers" + CUT),
    "text with short rows": (b" [ 1 2\n 3 ]\n", "byte 1: row 1 of the matrix has 1 values, and the first 2" + CUT),
}  # fmt: skip


@pytest.mark.parametrize("case", MATRICES)
def test_matrices(make, case: str) -> None:
    data, message = MATRICES[case]
    Path("x.ark").write_bytes(data)
    Path("x.scp").write_text("\nutt x.ark\n")
    with pytest.raises(CntkError) as caught:
        read(make, "features=[ dim=2 ; scpFile=x.scp ]")
    assert str(caught.value) == f"x.scp:2: 'x.ark', {message}"


LISTS = {
    "no path": ("utt", "x.scp:1: 'utt' has no path" + FORMS),
    "command": ("utt copy-feats ark:a ark:- |", "x.scp:1: 'copy-feats ark:a ark:- |' is a command, which is not "
                "run" + RUN),
    "twice": ("utt good.ark\nutt good.ark", "x.scp:2: the key 'utt' stands in line 1 already\n    Each utterance has "
              "one line."),
    "range": ("utt good.ark[0:x]", "x.scp:1: '[0:x]' is no range of rows" + FORMS),
    "columns": ("utt good.ark[0:1,0:x]", "x.scp:1: '[0:1,0:x]' is no range of rows and range of columns" + FORMS),
    "three ranges": ("utt good.ark[0:1,0:1,0:1]", "x.scp:1: '[0:1,0:1,0:1]' is no range of rows and range of columns"
                     + FORMS),
    "brackets": ("utt good.ark]", "x.scp:1: 'good.ark]' is no range of rows" + FORMS),
    "columns backwards": ("utt good.ark[:,1:0]", "x.scp:1: the range [1:0] ends before it begins" + FORMS),
    "columns beyond": ("utt good.ark[:,1:2]", "x.scp:1: column 2 of 'utt' is wanted, and its matrix has columns 0 to 1"
                       "\n    A range counts columns from 0 and includes the last."),
    "standard input": ("utt -", "x.scp:1: '-', the standard input, is not read" + WRITE),
    "backwards": ("utt good.ark[1:0]", "x.scp:1: the range [1:0] ends before it begins" + FORMS),
    "beyond": ("utt good.ark[0:5]", "x.scp:1: row 5 of 'utt' is wanted, and it has rows 0 to 1\n"
               "    A range counts rows from 0 and includes the last."),
    "begins beyond": ("utt good.ark[2:3]", "x.scp:1: row 2 of 'utt' is wanted, and it has rows 0 to 1\n"
                      "    A range counts rows from 0 and includes the last."),
    "offset": ("utt good.ark:900", "x.scp:1: 'good.ark', byte 900: there is nothing: the file has 31 bytes\n"
               "    The list belongs to another archive."),
    "no archive": ("utt none.ark", "x.scp:1: cannot open archive 'none.ark': no such file or directory\n"
                   "    A relative name starts at the directory in which the command runs."),
    "empty": ("", "x.scp: the table has no utterances\n    Is it the right file?"),
    "other dimension": ("a good.ark\nb wide.ark", "x.scp:2: 'b' has 3 values in a frame, and the stream 'features' 2\n"
                        "    All matrices of a table have the same number of columns."),
}  # fmt: skip


@pytest.mark.parametrize("case", LISTS)
def test_lists(make, case: str) -> None:
    text, message = LISTS[case]
    Path("good.ark").write_bytes(GOOD)
    Path("wide.ark").write_bytes(matrix(np.ones((2, 3))))
    Path("x.scp").write_text(text)
    with pytest.raises(CntkError) as caught:
        read(make, "features=[ dim=2 ; scpFile=x.scp ]")
    assert str(caught.value) == message


ALI = "r.cntk:2:23: 'ali.ark', byte "
PAIRS = "\n    An alignment is the classes of the frames; a posterior [ class weight ... ]."
ALIGNMENTS = {
    "missing": (None, "r.cntk:2:23: cannot open archive 'ali.ark': no such file or directory\n"
                "    A relative name starts at the directory in which the command runs."),
    "no key": (b"\0B\4", ALI + "0: the key of an utterance was expected\n"
               "    Is this a Kaldi archive, and whole?"),
    "cut off": (b"utt-a " + alignment([0] * 7)[:-1], ALI + "47: the file ends inside an alignment "
                "of 7 frames" + CUT),
    "negative": (b"utt-a \0B\4" + struct.pack("<i", -2), ALI + "8: an alignment cannot have -2 "
                 "frames" + CUT),
    "hostile": (b"utt-a \0B\4" + struct.pack("<i", 2**31 - 1), ALI + "8: an alignment cannot "
                "have 2147483647 frames" + CUT),
    "words": (b"utt-a one two\n", ALI + "6: 'one two' is neither an alignment nor a posterior" + PAIRS),
    "half a pair": (b"utt-a [ 1 ]\n", ALI + "6: '[ 1 ]' is neither an alignment nor a posterior" + PAIRS),
    "no close": (b"utt-a [ 1 0.5 [ 2 1 ]\n", ALI + "6: '[ 1 0.5 [ 2 1 ]' is neither an alignment nor a posterior"
                 + PAIRS),
    "before": (b"utt-a 3 [ 1 0.5 ]\n", ALI + "6: '3 [ 1 0.5 ]' is neither an alignment nor a posterior" + PAIRS),
    "weight": (b"utt-a [ ] [ 1 1 2 nan ]\n", "r.cntk:2:23: frame 1 of 'utt-a' has a weight that is no number\n"
               "    Weights of a posterior are numbers, mostly from 0 to 1."),
    "class": (b"utt-a 0 1 3\n", "r.cntk:2:23: frame 2 of 'utt-a' is of class 3, but labelDim=3\n"
              "    Classes are counted from 0; labelDim is how many there are."),
    "twice": (b"utt-a 0 1\nutt-a 0 1\n", ALI + "16: the key 'utt-a' is there twice\n"
              "    Each utterance has one entry."),
}  # fmt: skip


@pytest.mark.parametrize("case", ALIGNMENTS)
def test_alignments(make, case: str) -> None:
    data, message = ALIGNMENTS[case]
    Path("ali.ark").unlink()
    if data is not None:
        Path("ali.ark").write_bytes(data)
    with pytest.raises(CntkError) as caught:
        read(make, F + L)
    assert str(caught.value) == message


def test_ranges_of_alignments(make) -> None:
    Path("ali.ark").write_bytes(b"utt-a " + alignment([0] * 7))
    Path("ali.scp").write_text("utt-a ali.ark:6[4:10]\n")
    with pytest.raises(CntkError) as caught:
        read(make, F + L.replace("ark:ali.ark", "scp:ali.scp"))
    assert str(caught.value) == (
        "ali.scp:1: frame 10 of 'utt-a' is wanted, and it has frames 0 to 6\n"
        "    A range counts frames from 0 and includes the last."
    )
    Path("ali.ark").write_bytes(b"utt-a " + alignment([]))
    Path("ali.scp").write_text("utt-a ali.ark:6\n")
    with pytest.raises(CntkError) as caught:
        read(make, F + L.replace("ark:ali.ark", "scp:ali.scp"))
    assert str(caught.value) == "ali.scp:1: 'utt-a' has no frames\n    Leave the utterance out."


@pytest.mark.parametrize(("number", "more"), [(5, ()), (6, ("... and 1 more",))])
def test_the_first_few_are_shown(make, number: int, more: tuple[str, ...]) -> None:
    """A list with many mistakes: five of them are told, and how many there are."""
    sound = Path("feats.scp").read_text()
    Path("feats.scp").write_text(sound + "".join(f"wrong-{i}\n" for i in range(number)))
    wrong = [f"feats.scp:{6 + i}: 'wrong-{i}' has no path{FORMS}" for i in range(number)]
    with pytest.raises(CntkError) as caught:
        read(make, F)
    text = f"feats.scp: {number} malformed entries, maxErrors=0"
    last = "`cntk check-data` lists them all; maxErrors=n leaves out up to n."
    expected = "\n".join([text, *wrong[:5], *more, last])
    assert [line.strip() for line in str(caught.value).splitlines()] == [line.strip() for line in expected.splitlines()]
    reader = make(f"{F}maxErrors={number}")
    assert sum(minibatch.samples for minibatch in reader.minibatches(EpochSpec(100))) == sum(LENGTHS.values())
    many = [f"WARNING: feats.scp: {number} malformed entries left out in all"] if more else []
    assert reader.told == [*(f"WARNING: left out: {one}" for one in wrong[:5]), *many]


def test_archives_that_change_while_they_are_read(make) -> None:
    reader = make(F + L)
    assert not list(reader.check())
    for name in ("feats.ark", "ali.ark"):
        with Path(name).open("r+b") as file:
            file.truncate(10)
    with pytest.raises(CntkError, match="damaged or was not copied to its end"):
        for _ in reader.minibatches(EpochSpec(minibatch_size=100)):
            pass


LISTED = {
    "lengths": (
        {"counts": "utt-c nine\n", "feats.rx": "scp:feats.scp\n"},
        "counts:1: 'utt-c nine' is no key and length\n"
        "    A line is the key of an utterance and how many frames it has; feat-to-len writes such a list.",
    ),
    "no lengths": (
        {"feats.rx": "scp:feats.scp\n"},
        "r.cntk:1:20: cannot open the list of lengths 'counts': no such file or directory\n"
        "    A relative name starts at the directory in which the command runs.",
    ),
    "two specifiers": (
        {"counts": "utt-c 9\n", "feats.rx": "scp:feats.scp\nscp:feats.scp\n"},
        "feats.rx: the file with the specifier of a table has 2 lines\n"
        "    It has one line: scp:feats.scp or ark:feats.ark.",
    ),
}


@pytest.mark.parametrize("case", LISTED)
def test_lists_of_lengths(make, case: str) -> None:
    files, message = LISTED[case]
    for name, text in files.items():
        Path(name).write_text(text)
    with pytest.raises(CntkError) as caught:
        read(make, "features=[ dim=2 ; rx=feats.rx ; scpFile=counts ]\n")
    assert str(caught.value) == message


BLOCKS = {
    "window and dim": (F.replace("dim=2", "dim=6 ; contextWindow=3"), "r.cntk:1:38: stream 'features' has dim=6, but a "
                       "frame of its table has 2 values\n"
                       "    With contextWindow, dim is the dimension of the table: 2."),
    "binary list": (F.replace("feats.scp", "bytes.scp"), "bytes.scp:2: byte 3 of the line is not UTF-8, so this is no "
                    "list of a table\n    An archive is named with ark: in front."),
    "command": (F + L.replace("ark:ali.ark", "ark:ali-to-post ark:a ark:- |"), "r.cntk:2:23: the command 'ali-to-post "
                "ark:a ark:- |' cannot be read as a table" + RUN),
    "neither": ("features=[ dim=2 ]", "r.cntk:1:1: stream 'features' of reader 'Kaldi2Reader' has neither rx nor "
                "scpFile\n"
                "    Write scpFile=feats.scp, or rx=... with scp:... or ark:... in the file that it names."),
    "standard input": (F + L.replace("ark:ali.ark", "ark:-"), "r.cntk:2:23: the standard input cannot be read as "
                       "a table" + WRITE),
    "sequence training": (F + "seqTrainCriterion=mmi", "r.cntk:2:1: reader 'Kaldi2Reader' has no block denlats, the "
                          "lattices\n    Add denlats=[ rx=ark:... ; kaldiModel=final.mdl ]."),
    "no features": (L, "r.cntk: reader 'Kaldi2Reader' has no block of features\n"
                    "    Add features=[ dim=... ; scpFile=... ] and labels=[ labelDim=... ; mlfFile=... ]."),
    "dim": (F.replace("dim=2", "dim=4"), "r.cntk:1:20: stream 'features' has dim=4, and a frame of its table has 2 "
            "values: this is no window of 2 x (1, 3, 5, ...)\n"
            "    Write dim=2 ; contextWindow=..., frames of the window or left:right."),
}  # fmt: skip


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks(make, case: str) -> None:
    text, message = BLOCKS[case]
    Path("bytes.scp").write_bytes(b"a b\nc \xff\n")
    with pytest.raises(CntkError) as caught:
        make(text)
    assert str(caught.value) == message


def test_input_of_the_network(make) -> None:
    with pytest.raises(CntkError) as caught:
        make(F, inputs={"features": (3,)})
    assert str(caught.value) == (
        "r.cntk:1:20: stream 'features' has samples of dimension 2, but the network's input 'features' is [3]\n"
        "    Change dim and contextWindow of the stream, or the input of the network."
    )


@pytest.mark.parametrize(("allowed", "fails"), [(2, True), (3, False)])
def test_max_errors_counts_exactly(make, allowed: int, fails: bool) -> None:
    lines = Path("feats.scp").read_text().splitlines()
    lines[0], lines[2], lines[3] = "utt-a", lines[2] + "[0:99]", "utt-d none.ark"
    Path("feats.scp").write_text("\n".join(lines))
    text = f"{F}maxErrors={allowed}"
    if fails:
        with pytest.raises(CntkError) as caught:
            read(make, text)
        assert str(caught.value).startswith("feats.scp: 3 malformed entries, maxErrors=2\n    feats.scp:1: 'utt-a'")
        return
    reader = make(text)
    (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=100))
    assert minibatch.samples == LENGTHS["utt-b"] + LENGTHS["utt-e"]
    assert len(reader.told) == len(list(reader.check())) == 3


@pytest.mark.slow
def test_any_damage_is_an_error_of_ours(make) -> None:
    """Random bytes at random places of an archive: it is read, or one of our errors says what is wrong."""
    rng = random.Random(3)
    sound, errors = Path("feats.ark").read_bytes(), 0
    for _ in range(150):
        data = bytearray(sound)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice((0, 4, 0x7F, 0xFF, ord("["), rng.randrange(256)))
        Path("feats.ark").write_bytes(data[: rng.randint(0, len(data))] if rng.random() < 0.2 else data)
        try:
            read(make, rng.choice((F, F.replace("feats.scp", "feats.ark"))))
        except CntkError:
            errors += 1
    assert errors > 40


LARGER = "\n    Is it the right file? If it is, give the reader a larger maxLineBytes."


@pytest.mark.parametrize(
    ("text", "keys", "message"),
    [
        ("utt-a feats.ark\0:5\n", "", "feats.scp:1: byte 16 of the line is zero, so this is no list of a table\n"
         "    An archive is named with ark: in front."),
        ("utt-a " + "x" * 99, "maxLineBytes=100", "feats.scp:1: the line has more than 100 bytes, "
         "maxLineBytes=100" + LARGER),
    ],
)  # fmt: skip
def test_lists_of_anybody(make, text: str, keys: str, message: str) -> None:
    Path("feats.scp").write_text(text)
    with pytest.raises(CntkError) as caught:
        make(F + L + keys)
    assert str(caught.value) == message


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 19, "-1", "\u0661"])
def test_lengths_that_are_none(make, length: str) -> None:
    Path("r").write_text("scp:feats.scp\n")
    Path("lengths").write_text(f"utt-a {length}\n", encoding="utf-8")
    with pytest.raises(CntkError) as caught:
        make("features=[ dim=2 ; rx=r ; scpFile=lengths ]\n" + L)
    assert str(caught.value.where) == "lengths:1"
    assert caught.value.message == f"'utt-a {length}'"[:61].rstrip("'") + "' is no key and length"


@pytest.mark.parametrize("word", [b"1_0", b"0x10", b"nan0", b"infinity", b"1e", b"."])
def test_words_that_are_no_numbers(word: bytes) -> None:
    Path("x.ark").write_bytes(b" [ 1 " + word + b" ]\n")
    with closing(ArchiveFile("x.ark")) as file, pytest.raises(DataError) as caught:
        file.header(0)
    assert caught.value.message == "'x.ark', byte 1: row 0 of the matrix is no row of numbers"


@pytest.mark.parametrize("line", [b"1 2_0\n", b"-1\n", b"[ 1 0.5 2 5_0 ]\n", b"1 " + b"9" * 5000 + b"\n"])
def test_lines_that_are_no_alignments(line: bytes) -> None:
    Path("x.ark").write_bytes(line)
    with closing(ArchiveFile("x.ark")) as file, pytest.raises(DataError, match="is neither an alignment nor a post"):
        file.posterior(0)


@pytest.mark.parametrize(
    ("data", "what"), [(b" [\n 1 2 3 4 5\n ]\n", "row 0 of the matrix"), (b"1 2 3 4 5 6\n", "the line")]
)
def test_long_lines_of_text(data: bytes, what: str) -> None:
    Path("x.ark").write_bytes(data)
    with closing(ArchiveFile("x.ark", max_line_bytes=8)) as file, pytest.raises(DataError) as caught:
        file.header(0) if b"[" in data else file.posterior(0)
    assert f"{what} has more than 8 bytes, maxLineBytes=8" in caught.value.message


def test_values_for_double_precision() -> None:
    Path("x.ark").write_bytes(matrix(np.array([[1.0, 1e39]]), b"DM "))
    double = np.zeros((1, 2))
    with closing(ArchiveFile("x.ark")) as file:
        header = file.header(0)
        file.read(header, 0, double)
        with pytest.raises(DataError) as caught:
            file.read(header, 0, np.zeros((1, 2), np.float32))
    assert str(caught.value) == (
        "'x.ark', byte 15: in the matrix that begins here, 1e+39 is too large for float32\n    Set precision=double."
    )
    assert double.tolist() == [[1, 1e39]]


def test_a_range_that_is_none_gives_no_warning() -> None:
    Path("x.ark").write_bytes(compressed(np.array([[0, 9]]), 0.0, float("inf"), b"CM3"))
    found = np.zeros((1, 2), np.float32)
    with closing(ArchiveFile("x.ark")) as file:
        file.read(file.header(0), 0, found)
    assert np.isnan(found[0, 0])
    assert np.isinf(found[0, 1])


def test_an_archive_with_a_zero_byte_in_its_name() -> None:
    with pytest.raises(DataError) as caught:
        ArchiveFile("x\0.ark")
    assert str(caught.value) == "cannot open archive 'x\0.ark': embedded null byte"
