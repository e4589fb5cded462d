"""Corrupt files and wrong blocks: each one message, with its place and what to do."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from cntk_core.api import CntkError, EpochSpec

F = "features=[ dim=2 ; scpFile=archive.scp ]\n"
L = "labels=[ labelDim=3 ; mlfFile=ali.mlf ; labelMappingFile=states.list ]\n"
NO_MAP = "labels=[ labelDim=3 ; mlfFile=ali.mlf ]\n"
ONE = "one.scp"
DAMAGED = "\n    The file is damaged or is no HTK feature file."
LARGER = "\n    Is it the right file? If it is, give the reader a larger maxLineBytes."
UTF8 = "\n    Save it as UTF-8 text; or the recipe names a file of another kind."
FORMS = "\n    A line is path, name=path, or name=archive[first,last]."
DOT = "An entry ends with a line that has only a dot"


def read(make, text: str, **options) -> None:
    reader = make(text, **options)
    for _ in reader.minibatches(EpochSpec(minibatch_size=100)):
        pass


def header(frames: int = 2, period: int = 100_000, size: int = 8, kind: int = 9, order: str = ">") -> bytes:
    return struct.pack(f"{order}iiHH", frames, period, size, kind)


BODY = np.arange(4, dtype=">f4").tobytes()

HTK_FILES = {
    "empty": (
        b"",
        "'x.mfc', byte 0: the file ends inside the header of an HTK file" + DAMAGED,
    ),
    "short header": (
        header()[:7],
        "'x.mfc', byte 7: the file ends inside the header of an HTK file" + DAMAGED,
    ),
    "cut off": (
        header() + BODY[:-3],
        "'x.mfc', byte 25: the file ends here, but its header promises 2 frames up to "
        "byte 28\n    The file is damaged or was not copied to its end.",
    ),
    "text": (
        b"utt0.mfc=feat/utt0.mfc\n",
        "'x.mfc', byte 10: feature kind 33 cannot be read"
        "\n    Kinds that can be read: MFCC (6), FBANK (7), USER (9), PLP (11). Or this is no HTK file.",
    ),
    "waveform": (
        header(kind=0) + BODY,
        "'x.mfc', byte 10: feature kind 0 (WAVEFORM) cannot be read"
        "\n    Kinds that can be read: MFCC (6), FBANK (7), USER (9), PLP (11). Or this is no HTK file.",
    ),
    "discrete": (
        header(kind=10) + BODY,
        "'x.mfc', byte 10: feature kind 10 (DISCRETE) cannot be read"
        "\n    Kinds that can be read: MFCC (6), FBANK (7), USER (9), PLP (11). Or this is no HTK file.",
    ),
    "vector quantization": (
        header(kind=9 | 0o40000) + BODY,
        "'x.mfc', byte 10: features with vector quantization (_V) cannot be read"
        "\n    Write them again without the qualifier _V, as floats or compressed (_C).",
    ),
    "frame size": (
        header(size=7) + BODY,
        "'x.mfc', byte 8: a frame of 7 bytes is not a number of 4-byte values" + DAMAGED,
    ),
    "compressed size": (
        header(size=3, kind=6 | 0o2000) + BODY,
        "'x.mfc', byte 8: a frame of 3 bytes is not a number of 2-byte values" + DAMAGED,
    ),
    "no frames": (
        header(frames=0),
        "'x.mfc', byte 0: the header says that the file has 0 frames" + DAMAGED,
    ),
    "negative frames": (
        header(frames=-3) + BODY,
        "'x.mfc', byte 0: the header says that the file has -3 frames" + DAMAGED,
    ),
    "no values": (
        header(size=0) + BODY,
        "'x.mfc', byte 8: the header says that a frame has no values" + DAMAGED,
    ),
    "compressed without frames": (
        header(frames=4, size=4, kind=6 | 0o2000) + BODY,
        "'x.mfc', byte 0: the header says that the file has 0 frames" + DAMAGED,
    ),
    "compressed without scales": (
        header(frames=6, size=4, kind=6 | 0o2000) + b"1234",
        "'x.mfc', byte 16: the file ends inside the scales of a compressed file" + DAMAGED,
    ),
    "scale of zero": (
        header(frames=5, size=4, kind=6 | 0o2000) + bytes(16) + b"1234",
        "'x.mfc', byte 12: a scale of the compressed values is zero" + DAMAGED,
    ),
    "guid": (
        header(kind=12) + b"12345",
        "'x.mfc', byte 17: the file ends inside the GUID of the stream" + DAMAGED,
    ),
}


@pytest.mark.parametrize("case", HTK_FILES)
def test_feature_files(make, case: str) -> None:
    data, message = HTK_FILES[case]
    Path("x.mfc").write_bytes(data)
    Path(ONE).write_text("\nu=x.mfc\n")
    with pytest.raises(CntkError) as caught:
        read(make, f"features=[ dim=2 ; scpFile={ONE} ]")
    assert str(caught.value) == f"one.scp:2: {message}"


def test_sizes_of_an_idx_file_are_not_negative(make) -> None:
    Path("x-ubyte").write_bytes(struct.pack(">4i", 2051, 1, -1, -2) + b"ab")
    Path(ONE).write_text("x-ubyte\n")
    with pytest.raises(CntkError) as caught:
        read(make, f"features=[ dim=2 ; scpFile={ONE} ]")
    assert caught.value.message == "'x-ubyte', byte 8: the header says that a frame has no values"


def test_a_list_reserves_no_room_for_frames_that_are_not_there(make) -> None:
    Path(ONE).write_text("a=all.chunk[0,2147483646]\n")
    reader = make(f"features=[ dim=2 ; scpFile={ONE} ]")
    tracemalloc.start()
    with pytest.raises(CntkError) as caught:
        list(reader.minibatches(EpochSpec(minibatch_size=100)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.message.startswith("frame 2147483646 of 'all.chunk' is wanted, but the file has frames")
    assert peak < 10 << 20


def test_a_list_of_many_frames_is_not_believed(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_reader_htk.features._BELIEVED_IN_ALL", 60)
    Path(ONE).write_text("".join(f"a{n}=all.chunk[0,29]\n" for n in range(3)))
    reader = make(f"features=[ dim=2 ; scpFile={ONE} ]")
    with pytest.raises(CntkError) as caught:
        reader.source.index()
    assert str(caught.value).startswith("one.scp:3: frame 29 of 'all.chunk' is wanted")


def test_a_long_line_of_a_list(make) -> None:
    Path(ONE).write_text("a=" + "b" * 99)
    with pytest.raises(CntkError) as caught:
        read(make, f"features=[ dim=2 ; scpFile={ONE} ]\nmaxLineBytes=100")
    assert str(caught.value) == "one.scp:1: the line has more than 100 bytes, maxLineBytes=100" + LARGER


@pytest.mark.parametrize("first", [b"\x7f\xc0\0\0", b"\x7f\xb6\xf8\xe6"], ids=["quiet", "signalling"])
def test_scales_that_are_no_numbers_give_no_warning(make, first: bytes) -> None:
    scales = first + struct.pack(">3f", 1e-40, float("inf"), 1e38)
    Path("x.mfc").write_bytes(header(frames=5, size=4, kind=6 | 0o2000) + scales + b"1234")
    Path(ONE).write_text("x.mfc\n")
    (minibatch,) = make(f"features=[ dim=2 ; scpFile={ONE} ]").minibatches(EpochSpec(minibatch_size=100))
    values = minibatch.streams["features"].data
    assert np.isnan(values[0, 0])
    assert np.isinf(values[0, 1])


def test_idx_file(make) -> None:
    Path("x-ubyte").write_bytes(struct.pack(">4i", 2049, 1, 1, 2) + b"ab")
    Path(ONE).write_text("x-ubyte\n")
    with pytest.raises(CntkError) as caught:
        read(make, f"features=[ dim=2 ; scpFile={ONE} ]")
    assert str(caught.value) == (
        "one.scp:1: 'x-ubyte', byte 0: the magic number is 2049, not 2051\n"
        "    Files whose name ends in -ubyte are IDX files of images; rename it if it is an HTK file."
    )


SCRIPTS = {
    "missing file": ("a=b.mfc", "one.scp:1: cannot open feature file 'b.mfc': no such file or directory\n"
                     "    A relative name starts where the command runs; prefixPathInSCP=... puts a folder in front."),
    "no name": ("=all.chunk[0,3]", "one.scp:1: the name before '=' is missing" + FORMS),
    "no path": ("a=[0,3]", "one.scp:1: the path after '=' is missing" + FORMS),
    "range without name": ("all.chunk[0,3]", "one.scp:1: 'all.chunk[0,3]' has a range of frames, but no name\n"
                           "    Write name=all.chunk[0,3]; the name is the key of the labels."),
    "one number": ("a=all.chunk[3]", "one.scp:1: the range of frames '[3]' is not [first,last]" + FORMS),
    "no numbers": ("a=all.chunk[x,y]", "one.scp:1: the range of frames '[x,y]' is not [first,last]" + FORMS),
    "negative": ("a=all.chunk[-1,3]", "one.scp:1: the range of frames '[-1,3]' is not [first,last]" + FORMS),
    "open": ("a=all.chunk[0,3", "one.scp:1: the range of frames in 'all.chunk[0,3' has no ']' at the end" + FORMS),
    "not opened": ("a=all.chunk0,3]", "one.scp:1: the range of frames at the end of 'all.chunk0,3]' "
     "has no '['" + FORMS),
    "backwards": ("a=all.chunk[5,3]", "one.scp:1: the first frame 5 of the range is behind the last, 3\n"
                  "    Both are counted from 0, and the last is part of the utterance."),
    "beyond the end": ("a=all.chunk[20,27]", "one.scp:1: frame 27 of 'all.chunk' is wanted, but the file has frames "
                       "0 to 26\n    The range [20,27] of the list counts frames from 0 and includes the last."),
    "too large": ("a=all.chunk[0,9999999999]", "one.scp:1: frame 9999999999 is more than a file can have" + FORMS),
    "many digits": (f"a=all.chunk[0,{'9' * 5000}]",
                    f"one.scp:1: the range of frames '[0,{'9' * 5000}]' is not [first,last]" + FORMS),
    "zero byte": ("a=b.mfc\nc=d\0.mfc",
                  "one.scp:2: byte 4 of the line is zero, so this is no list of feature files" + UTF8),
    "empty": ("", "one.scp: the list of feature files has no utterances" + FORMS),
    "twice": ("a=all.chunk[0,1]\na=all.chunk[2,3]", "one.scp: the list of feature files has no utterances\n"
              "    Every name occurs more than once, and such utterances are left out."),
    "not text": (b"\xff\xfe", "one.scp:1: byte 1 of the line is not UTF-8, so this is no list of feature files" + UTF8),
    "mixed kinds": ("a=all.chunk[0,1]\nb=other.mfc", "one.scp:2: 'other.mfc' is 2-dimensional MFCC "
     "with a frame of 10 ms, "
                    "but the stream 'features' is 2-dimensional USER with a frame of 10 ms\n"
                    "    All files of a list have the same kind, dimension and frame period."),
}  # fmt: skip


@pytest.mark.parametrize("case", SCRIPTS)
def test_lists(make, case: str) -> None:
    text, message = SCRIPTS[case]
    Path("other.mfc").write_bytes(header(kind=6) + BODY)
    Path(ONE).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CntkError) as caught:
        read(make, f"features=[ dim=2 ; scpFile={ONE} ]")
    assert str(caught.value) == message


RANGES = "\n    A label is: start end state, in frames or in units of 100 ns; ranges follow each other from 0 on."
COLUMNS = "\n    Give labelMappingFile=..., the list of states; without it a label is: start end name class."
STATES = "\n    labelMappingFile has one state to a line, written as in the label file."
GAP = "\n    Labels follow each other from 0 on without gaps."
ENTRY = '\n    An entry is "name", lines of labels, and a line with only a dot.'
LABELS = {
    "no header": ('"utt0.lab"\n0 1 a[2]\n.\n', L, "ali.mlf:1: the file begins with '\"utt0.lab\"', not with #!MLF!#\n"
                  "    mlfFile= wants a master label file of HTK."),
    "empty": ("\n", L, "ali.mlf:1: the file is empty, not with #!MLF!#\n    mlfFile= wants a master "
     "label file of HTK."),
    "no quotation marks": ("#!MLF!#\nutt0.lab\n0 7 a[2]\n.\n", L, "ali.mlf:2: the name of an utterance in quotation "
                           "marks was expected, not 'utt0.lab'" + ENTRY),
    "no end": ('#!MLF!#\n"utt0.lab"\n0 7 a[2]\n', L, "ali.mlf:2: the entry 'utt0' does not end\n"
               "    An entry ends with a line that has only a dot; the file may be cut off."),
    "no labels": ('#!MLF!#\n"utt0.lab"\n.\n', L, "ali.mlf:2: the entry 'utt0' has no labels" + RANGES),
    "twice": ('#!MLF!#\n"utt0.lab"\n0 7 a[2]\n.\n"*/utt0.rec"\n0 7 a[2]\n.\n', L, "ali.mlf:5: the utterance 'utt0' has "
              "labels at ali.mlf:2 already\n    The first entry counts; remove the other."),
    "columns": ('#!MLF!#\n"utt0.lab"\n0 7\n.\n', L, "ali.mlf:3: a label has at least three columns, not '0 7'\n"
                f"    A label is: start end state. {DOT}."),
    "lost dot": ('#!MLF!#\n"utt0.lab"\n0 7 a[2]\n"utt1.lab"\n0 4 a[2]\n.\n', L, "ali.mlf:4: a label has at least three "
                 f"columns, not '\"utt1.lab\"'\n    A label is: start end state. {DOT}."),
    "no number": ('#!MLF!#\n"utt0.lab"\n0 x a[2]\n.\n', L, "ali.mlf:3: '0 x' is not a start and an end" + RANGES),
    "no finite number": ('#!MLF!#\n"utt0.lab"\n0 inf a[2]\n.\n', L, "ali.mlf:3: '0 inf' is not a start and an "
                         "end" + RANGES),
    "backwards": ('#!MLF!#\n"utt0.lab"\n3 2 a[2]\n.\n', L, "ali.mlf:3: the end 2 is before the start 3" + RANGES),
    "late start": ('#!MLF!#\n"utt0.lab"\n1 7 a[2]\n.\n', L, "ali.mlf:3: the first label of 'utt0' begins at frame 1, "
                   "not at 0" + GAP),
    "gap": ('#!MLF!#\n"utt0.lab"\n0 3 a[2]\n4 7 a[3]\n.\n', L, "ali.mlf:4: the label begins at frame 4, but the one "
            "before it ends at 3" + GAP),
    "overlap": ('#!MLF!#\n"utt0.lab"\n0 400000 a[2]\n300000 700000 a[3]\n.\n', L, "ali.mlf:4: the "
     "label begins at frame "
                "3, but the one before it ends at 4" + GAP),
    "unknown state": ('#!MLF!#\n"utt0.lab"\n0 7 sill[2]\n.\n', L, "ali.mlf:3: state 'sill[2]' is not "
     "in the state list; "
                      "did you mean 'sil[2]'?" + STATES),
    "four columns": ('#!MLF!#\n"utt0.lab"\n0 7 a[2]\n.\n', NO_MAP, "ali.mlf:3: the label has 3 columns; without "
                     "labelMappingFile it has four, the last is the class" + COLUMNS),
    "class": ('#!MLF!#\n"utt0.lab"\n0 7 a[2] x\n.\n', NO_MAP, "ali.mlf:3: 'x' is not the number of a class" + COLUMNS),
    "large class": ('#!MLF!#\n"utt0.lab"\n0 7 a[2] 3\n.\n', NO_MAP, "ali.mlf:3: 'a[2]' is class 3, but labelDim=3\n"
                    "    Classes are counted from 0; labelDim is how many there are."),
    "small dim": ('#!MLF!#\n"utt0.lab"\n0 7 sil[2]\n.\n', L.replace("=3", "=2"), "ali.mlf:3: 'sil[2]' is class 2, but "
                  "labelDim=2\n    Classes are counted from 0; labelDim is how many there are."),
    "far end": ('#!MLF!#\n"utt0.lab"\n0 900000000000000 a[2]\n.\n', L, "ali.mlf:3: the end "
     "900000000000000 is more than "
                "an utterance can have: 67108864 frames" + RANGES),
    "underscore": ('#!MLF!#\n"utt0.lab"\n0 1_0 a[2]\n.\n', L, "ali.mlf:3: '0 1_0' is not a start and an end" + RANGES),
    "nan": ('#!MLF!#\n"utt0.lab"\n0 nan a[2]\n.\n', L, "ali.mlf:3: '0 nan' is not a start and an end" + RANGES),
    "many digits": (f'#!MLF!#\n"utt0.lab"\n0 7 a[2] {"9" * 5000}\n.\n', NO_MAP,
                    f"ali.mlf:3: '{'9' * 40}' is not the number of a class" + COLUMNS),
    "zero byte": ('#!MLF!#\n"utt0.lab"\n0 7 a\0\n.\n', L, "ali.mlf:3: byte 6 of the line is zero, so "
                  "this is no label file" + UTF8),
    "long line": ('#!MLF!#\n"utt0.lab"\n0 7 ' + "a" * 99 + "\n.\n", L + "maxLineBytes=60\n",
                  "ali.mlf:3: the line has more than 60 bytes, maxLineBytes=60" + LARGER),
    "missing": (None, L, "r.cntk:2:23: cannot open the label file 'ali.mlf': no such file or directory\n"
                "    A relative name starts at the directory in which the command runs."),
    "not text": (b"#!MLF!#\n\x80", L, "ali.mlf:2: byte 1 of the line is not UTF-8, so this is no label file" + UTF8),
}  # fmt: skip


@pytest.mark.parametrize("case", LABELS)
def test_label_files(make, case: str) -> None:
    text, block, message = LABELS[case]
    Path("ali.mlf").unlink()
    if text is not None:
        Path("ali.mlf").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CntkError) as caught:
        read(make, F + block)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\na\n", "states.list:3: state 'a' stands in line 1 already\n"
         "    Each state has one line; its place is the number of its class."),
        ("\n", "states.list: the state list is empty\n    One state name to a line."),
    ],
)  # fmt: skip
def test_state_lists(make, text: str, message: str) -> None:
    Path("states.list").write_text(text)
    with pytest.raises(CntkError) as caught:
        read(make, F + L)
    assert str(caught.value) == message


BLOCKS = {
    "no features": (L, "r.cntk: reader 'HTKMLFReader' has no block of features\n"
                    "    Add features=[ dim=... ; scpFile=... ] and labels=[ labelDim=... ; mlfFile=... ]."),
    "neither": ("x=[ dim=2 ]", "r.cntk:1:1: stream 'x' of reader 'HTKMLFReader' has neither scpFile nor mlfFile\n"
                "    Features have scpFile=..., the list of feature files; labels have mlfFile=... or mlfFileList=..."),
    "even window": (F.replace("dim=2", "dim=2 ; contextWindow=4"), "r.cntk:1:20: contextWindow must be an odd number "
                    "of frames, or left:right, not '4'\n    contextWindow=11 is the same as contextWindow=5:5."),
    "dim": (F.replace("dim=2", "dim=5"), "r.cntk:1:20: stream 'features' has dim=5, and a frame of its files has 2 "
            "values: this is no window of 2 x (1, 3, 5, ...)\n"
            "    Write dim=2 ; contextWindow=..., frames of the window or left:right."),
    "dim of the window": (F.replace("dim=2", "dim=6 ; contextWindow=3"), "r.cntk:1:38: stream "
     "'features' has dim=6, but "
                          "a frame of its files has 2 values\n"
                          "    With contextWindow, dim is the dimension of the files: 2."),
    "type": (F.replace("dim=2", "dim=2 ; type=category"), "r.cntk:1:25: features:type must be 'real', not 'category'\n"
             "    Accepted: real."),
    "randomize": (F + "randomize=sometimes", "r.cntk: randomize must be auto, none, or a number of frames, not "
                  "'sometimes'"),
    "truncated frames": (F + "truncated=true", "r.cntk: frameMode=true and truncated=true exclude each other\n"
                         "    Truncated training needs utterances: set frameMode=false."),
    "nobody side by side": (F + "nbruttsineachrecurrentiter=0", "r.cntk: nbruttsineachrecurrentiter "
     "must be at least 1"),
    "legacy": (F + "legacyMode=true", "r.cntk:2:1: legacyMode is no longer a key of the reader"),
    "expanded alone": (F.replace("dim=2", "dim=2 ; expandToUtterance=true"), "r.cntk:1:45: stream 'features' cannot be "
                       "expanded: no other stream of features gives the lengths\n"
                       "    Remove expandToUtterance=true, or add the features of the utterances."),
    "lattices": (F + "l=[ denlatTocFile=x ]", "r.cntk: reader 'HTKMLFReader' has lattices, and no block with phones\n"
                 "    Add hmms=[ phoneFile=... ; transPFile=... ], the recogniser that made them."),
    "unknown key": (F + "frameMod=true", "r.cntk:2:1: reader 'HTKMLFReader' has no option 'frameMod'; did you mean "
                    "'frameMode'?"),
}  # fmt: skip


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks(make, case: str) -> None:
    text, message = BLOCKS[case]
    with pytest.raises(CntkError) as caught:
        make(text)
    assert str(caught.value).partition("\n    Options:")[0] == message


def test_input_of_the_network(make) -> None:
    with pytest.raises(CntkError) as caught:
        make(F, inputs={"features": (3,)})
    assert str(caught.value) == (
        "r.cntk:1:20: stream 'features' has samples of dimension 2, but the network's input 'features' is [3]\n"
        "    Change dim and contextWindow of the stream, or the input of the network."
    )


class TestMaxErrors:
    BAD = ("\n".join(f"a{i}=none{i}.mfc" for i in range(7)) + "\nb=all.chunk[0,3]\n").replace("a3=none3.mfc", "a3=x[1")

    def test_counted_exactly(self, make) -> None:
        Path(ONE).write_text(self.BAD)
        reader = make(f"features=[ dim=2 ; scpFile={ONE} ]\nmaxErrors=7")
        (minibatch,) = reader.minibatches(EpochSpec(minibatch_size=100))
        assert minibatch.samples == 4
        assert len(reader.told) == 6
        assert (
            reader.told[0] == "WARNING: left out: one.scp:4: the range of frames in 'x[1' has no ']' at the end" + FORMS
        )
        assert reader.told[-1] == "WARNING: one.scp: 7 malformed entries left out in all"
        assert len(list(reader.check())) == 7
        with pytest.raises(CntkError) as caught:
            make(f"features=[ dim=2 ; scpFile={ONE} ]\nmaxErrors=6")
        text = str(caught.value)
        assert text.startswith("one.scp: 7 malformed utterances, maxErrors=6\n")
        assert text.endswith(
            "    ... and 2 more\n    `cntk check-data` lists them all; maxErrors=n leaves out up to n."
        )

    def test_labels(self, make) -> None:
        text = Path("ali.mlf").read_text().replace("a[2]\n.", "b\n.", 2)
        bad = text.count(" b\n")
        assert bad == 2
        Path("ali.mlf").write_text(text)
        reader = make(F + L + f"maxErrors={bad}")
        list(reader.minibatches(EpochSpec(minibatch_size=100)))
        assert sum("malformed" not in line and "left out: ali.mlf:" in line for line in reader.told) == bad
        with pytest.raises(CntkError) as caught:
            read(make, F + L + f"maxErrors={bad - 1}")
        assert str(caught.value).startswith(f"ali.mlf: {bad} malformed entries, maxErrors={bad - 1}\n")


RELATIVE = "\n    A relative name starts at the directory in which the command runs."
LISTED = "labels=[ labelDim=3 ; mlfFileList=ali.list ; labelMappingFile=states.list ]\n"

FILES: dict[str, tuple[dict[str, bytes | None], str, str]] = {
    "no list of features": ({"archive.scp": None}, F, "r.cntk:1:20: cannot open the list of feature files "
                            "'archive.scp': no such file or directory" + RELATIVE),
    "list is a folder": ({}, F.replace("archive.scp", "feat"), "r.cntk:1:20: cannot open the list of feature files "
                         "'feat': is a directory"),
    "list is an archive": ({}, F.replace("archive.scp", "all.chunk"), "all.chunk:1: byte 7 of the line is not UTF-8, "
                           "so this is no list of feature files" + UTF8),
    "feature file is a folder": ({"archive.scp": b"utt0=feat\n"}, F, "archive.scp:1: cannot open feature file 'feat': "
                                 "is a directory"),
    "archive was cut off": ({"all.chunk": header(frames=27) + bytes(27 * 8 - 4)}, F, "archive.scp:1: 'all.chunk', "
                            "byte 224: the file ends here, but its header promises 27 frames up to byte 228\n"
                            "    The file is damaged or was not copied to its end."),
    "archive has fewer frames": ({"all.chunk": header(frames=10) + bytes(80)}, F, "archive.scp:2: frame 10 of "
                                 "'all.chunk' is wanted, but the file has frames 0 to 9\n"
                                 "    The range [7,10] of the list counts frames from 0 and includes the last."),
    "no state list": ({"states.list": None}, F + L, "r.cntk:2:23: cannot open the state list 'states.list': no such "
                      "file or directory" + RELATIVE),
    "state list is an archive": ({"states.list": b"a[2]\n\x00\xff"}, F + L, "states.list:2: byte 2 of the line is not "
                                 "UTF-8, so this is no state list" + UTF8),
    "label file is an archive": ({"ali.mlf": header()}, F + L, "ali.mlf:1: byte 7 of the line is not UTF-8, so this is "
                                 "no label file" + UTF8),
    "no list of labels": ({}, F + LISTED, "r.cntk:2:23: cannot open the list of label files 'ali.list': no such file "
                          "or directory" + RELATIVE),
    "empty list of labels": ({"ali.list": b"\n"}, F + LISTED, "ali.list: the list of label files is empty\n"
                             "    It has the name of a label file in each line."),
    "listed label file": ({"ali.list": b"ali.mlf\nb.mlf\n"}, F + LISTED, "ali.list:2: cannot open the label file "
                          "'b.mlf': no such file or directory" + RELATIVE),
    "listed twice": ({"ali.list": b"ali.mlf\nali.mlf\n"}, F + LISTED + "maxErrors=4\n",
                     "ali.mlf: 5 malformed entries, maxErrors=4\n"
                     "    ali.mlf:2: the utterance 'utt4' has labels at ali.mlf:2 already\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_files_in_each_others_place(make, case: str) -> None:
    files, block, message = FILES[case]
    for name, data in files.items():
        Path(name).unlink(missing_ok=True)
        if data is not None:
            Path(name).write_bytes(data)
    with pytest.raises(CntkError) as caught:
        read(make, block)
    assert str(caught.value)[: len(message)] == message
    assert case == "listed twice" or str(caught.value) == message


SOLVED = "cannot open", "is a directory"


def test_every_message_says_what_to_do() -> None:
    """All messages of the tables have a place and, but for what speaks for itself, a remedy."""
    tables = [HTK_FILES, SCRIPTS, LABELS, FILES]
    messages = [row[-1] for table in tables for row in table.values()]
    assert len(messages) >= 67
    assert [text for text in messages if "\n    " not in text and not any(word in text for word in SOLVED)] == []
