"""BinaryReader and BinaryWriter: files of sections, put together byte by byte or written, and damaged ones."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_binary import BinaryReader, BinaryWriter

from cntk_core.api import CntkError, Config, EpochSpec, ReaderContext, SequenceOutput, WriterContext
from cntk_core.api.builders import SourceText
from cntk_testing import ReaderContract, WriterContract

Change = Callable[[bytes], bytes]
ROWS = 7
FEATURES = np.arange(ROWS * 2).reshape(ROWS, 2) / 4
NUMBERS = np.array([2, 0, 1, 2, 0, 1, 0])
HEADER = 320
CUT = "\n    The file is damaged, or was not written to its end."


def header(
    name: bytes, kind: int, values: int, width: int, dim: int, count: int, inside: Sequence[int] = (), classes: int = 0
) -> bytes:
    """A header as the format says, without the writer's help."""
    magic = 0xACE9 if kind == 1 else 0x4ACE
    head = struct.pack("<11H", magic, 0x0100, HEADER, len(inside), kind, values, width, 0, dim, 0, 0) + bytes(10)
    head += struct.pack("<QHH", count, 1 if classes else 0, classes)
    size = HEADER + count * width
    tail = name.ljust(128, b"\0") + struct.pack(f"<QQ{len(inside)}q", size, size, *inside)
    return (head.ljust(128, b"\0") + tail).ljust(HEADER, b"\0")


def features(code: str = "f4") -> bytes:
    return header(b"features:Data Section", 2, 1, int(code[1]), 2, 2 * ROWS) + FEATURES.astype("<" + code).tobytes()


def cache() -> bytes:
    """A cache of features and labels: numbers of classes, their names, and one-hot."""
    first = HEADER
    second = first + len(features())
    names = second + HEADER + 4 * ROWS
    third = names + HEADER
    labels = header(b"labels:Labels", 3, 3, 4, 1, ROWS, (names, third), classes=3) + NUMBERS.astype("<u4").tobytes()
    mapping = header(b"mapping:Label Map", 4, 2, 0, 1, 0)
    category = header(b"category:Category Labels", 6, 1, 4, 3, 3 * ROWS) + np.eye(3)[NUMBERS].astype("<f4").tobytes()
    return header(b"Binary Data File", 1, 0, 0, 0, ROWS, (first, second)) + features() + labels + mapping + category


def plain_labels() -> bytes:
    own = header(b"labels:Labels", 3, 3, 4, 1, ROWS, classes=3) + NUMBERS.astype("<u4").tobytes()
    return header(b"Binary Data File", 1, 0, 0, 0, ROWS, (HEADER,)) + own


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def make_sections(tmp_path: Path) -> Iterator[Callable[..., BinaryReader]]:
    readers: list[BinaryReader] = []

    def build(text: str = "file=c.bin", data: bytes | None = None, dtype: str = "float64", **context) -> BinaryReader:
        (tmp_path / "c.bin").write_bytes(cache() if data is None else data)
        block = Config.from_source(SourceText.of(text, "r.cntk"))
        options = BinaryReader.settings_from(block, "reader 'BinaryReader'")
        readers.append(BinaryReader(options, ReaderContext(dtype=np.dtype(dtype), **context)))
        return readers[-1]

    yield build
    for reader in readers:
        reader.close()


def read(reader: BinaryReader) -> dict[str, list]:
    found: dict[str, list] = {stream.name: [] for stream in reader.streams}
    for minibatch in reader.minibatches(EpochSpec(minibatch_size=3)):
        for name, value in minibatch.streams.items():
            found[name] += value.data.tolist()
    return found


@pytest.mark.thorough
class TestInOrder(ReaderContract):
    samples = ROWS
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, make_sections):
        return lambda: make_sections("file=c.bin\nchunkSizeInBytes=100")


def test_a_cache(make_sections) -> None:
    """Labels are read from the section that has a one in each record."""
    expected = {"features": FEATURES.tolist(), "labels": np.eye(3)[NUMBERS].tolist()}
    assert read(make_sections()) == expected
    assert read(make_sections("file=c.bin\nchunkSizeInBytes=1", dtype="float32")) == expected
    reader = make_sections(inputs={"Labels": (1, 3), "x": (2,)})
    assert [(stream.name, stream.shape) for stream in reader.streams] == [("Labels", (1, 3))]


@pytest.mark.parametrize(
    ("size", "sizes"), [(1, [1] * ROWS), (40, [1] * ROWS), (79, [1] * ROWS), (80, [2, 2, 2, 1]), (120, [3, 3, 1]),
                        (280, [7]), (1000, [7])]
)  # fmt: skip
def test_chunks_have_as_many_records_as_fit(make_sections, size: int, sizes: list[int]) -> None:
    """A record is two features and three labels, of 8 bytes each."""
    source = make_sections(f"file=c.bin\nchunkSizeInBytes={size}").source
    assert [info.samples for info in source.index()] == sizes
    rows = [source.load(chunk).columns["features"].data for chunk in range(len(sizes))]
    assert np.concatenate(rows).tolist() == FEATURES.tolist()
    source.read_in_order(80)
    assert [info.samples for info in source.index()] == ([1] * ROWS if size < 80 else [2, 2, 2, 1])


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="nobody says which files are open")
def test_damaged_files_are_closed(make_sections) -> None:
    before = len(os.listdir("/dev/fd"))
    for data in (b"", cache()[:-1], header(b"Binary Data File", 1, 0, 0, 0, 0)):
        with pytest.raises(CntkError):
            make_sections(data=data)
    assert len(os.listdir("/dev/fd")) == before


def test_numbers_without_classes(make_sections) -> None:
    """They are no labels: nobody knows how many there are."""
    own = header(b"labels:Labels", 3, 3, 4, 1, ROWS) + NUMBERS.astype("<u4").tobytes()
    with pytest.raises(CntkError) as caught:
        make_sections(data=header(b"Binary Data File", 1, 0, 0, 0, ROWS, (HEADER,)) + own)
    assert str(caught.value) == "c.bin: byte 640: section 'labels' has values of kind 3 with 4 bytes, no numbers"


def test_labels_that_are_numbers_alone(make_sections) -> None:
    assert read(make_sections(data=plain_labels())) == {"labels": np.eye(3)[NUMBERS].tolist()}


def test_several_files_and_precisions(make_sections) -> None:
    Path("f.bin").write_bytes(header(b"File", 1, 0, 0, 0, ROWS, (HEADER,)) + features("f8"))
    found = read(make_sections("file=f.bin:c.bin", data=plain_labels(), dtype="float32"))
    assert found == {"features": FEATURES.tolist(), "labels": np.eye(3)[NUMBERS].tolist()}


def put(offset: int, form: str, *values: int) -> Change:
    def change(data: bytes) -> bytes:
        new = struct.pack("<" + form, *values)
        return data[:offset] + new + data[offset + len(new) :]

    return change


LABELS_AT = HEADER + len(features())
CASES: dict[str, tuple[Change, str]] = {
    "empty": (lambda data: b"", "byte 0: there is no section here\n    Is it a cache of BinaryWriter?"),
    "another format": (
        put(0, "H", 1),
        "byte 0: a section begins with 0001, and should with ace9\n"
        "    `cntk convert-data` writes the format of CNTKBinaryReader, which is another one.",
    ),
    "unfinished": (put(0, "H", 0xBAD1), "byte 0: the cache was not written to its end\n    Make it again."),
    "version": (
        put(2, "H", 1),
        "byte 0: the header of a section is wrong: version 1, 320 bytes, 2 sections in it" + CUT,
    ),
    "many": (
        put(6, "H", 6),
        "byte 0: the header of a section is wrong: version 256, 320 bytes, 6 sections in it" + CUT,
    ),
    "place": (put(272, "q", -1), "byte -1: there is no section here" + CUT),
    "itself": (put(272, "q", 0), "byte 0: there is no section here\n    Is it a cache of BinaryWriter?"),
    "inside": (put(HEADER, "H", 0xACE9), f"byte {HEADER}: a section begins with ace9, and should with 4ace" + CUT),
    "values": (
        put(HEADER + 32, "Q", 2**62),
        f"byte {HEADER}: the section promises {2**62} values of 4 bytes, and the file has no room for them" + CUT,
    ),
    "records": (put(HEADER + 16, "H", 3), f"byte {HEADER}: the section has 14 values, and 3 in each record" + CUT),
    "type": (
        put(HEADER + 12, "H", 2),
        f"byte {2 * HEADER}: section 'features' has values of kind 1 with 2 bytes, no numbers",
    ),
    "names": (
        put(LABELS_AT + 128, "9s", b"features:"),
        f"byte {LABELS_AT + HEADER}: there are two sections 'features'",
    ),
    "counts": (put(HEADER + 32, "Q", 12), "byte 1684: section 'labels' has 7 records, 'features' 6"),
}


@pytest.mark.parametrize("case", CASES)
def test_damaged_files(make_sections, case: str) -> None:
    change, message = CASES[case]
    with pytest.raises(CntkError) as caught:
        make_sections(data=change(cache()))
    assert str(caught.value) == f"c.bin: {message}"


def test_files_without_data(make_sections) -> None:
    with pytest.raises(CntkError) as caught:
        make_sections(data=header(b"Binary Data File", 1, 0, 0, 0, 0))
    assert str(caught.value) == "c.bin: the file has no section with data"
    with pytest.raises(CntkError) as caught:
        make_sections("file=()")
    assert str(caught.value) == "r.cntk:1:1: reader 'BinaryReader' has no file"


def test_numbers_that_the_network_cannot_have(make_sections) -> None:
    data = header(b"Binary Data File", 1, 0, 0, 0, ROWS, (HEADER,))
    data += header(b"features:Data Section", 2, 1, 8, 2, 2 * ROWS) + np.full((ROWS, 2), 1e300).tobytes()
    reader = make_sections(data=data, dtype="float32")
    assert str(reader.source) == "c.bin"
    with pytest.raises(CntkError) as caught:
        read(reader)
    assert str(caught.value) == f"c.bin: byte {2 * HEADER}: section 'features': 1e+300 is too large for float32"


def test_a_label_beyond_its_classes(make_sections) -> None:
    reader = make_sections(data=put(2 * HEADER + 8, "I", 3)(plain_labels()))
    with pytest.raises(CntkError) as caught:
        read(reader)
    assert str(caught.value) == f"c.bin: byte 648: label 3 of section 'labels' is not below its 3 classes{CUT}"


def test_what_does_not_fit_the_network(make_sections) -> None:
    with pytest.raises(CntkError) as caught:
        make_sections(inputs={"features": (3,)})
    assert str(caught.value) == (
        "r.cntk:1:1: section 'features' of 'c.bin' has records of 2 values, but the network's input 'features' is [3]\n"
        "    Change the input of the network."
    )
    with pytest.raises(CntkError) as caught:
        make_sections("file=no.bin")
    assert str(caught.value).startswith(
        "r.cntk:1:1: BinaryReader: cannot open file 'no.bin': no such file or directory"
    )


# -- the writer -------------------------------------------------------------------------------------------


def writer(outputs: dict[str, int], text: str = "wfile=out/c.bin ; wrecords=10") -> BinaryWriter:
    block = Config.from_source(SourceText.of(text, "r.cntk"))
    return BinaryWriter(BinaryWriter.settings_from(block, "writer 'BinaryWriter'"), WriterContext(outputs))


class TestWriter(WriterContract):
    @pytest.fixture
    def writer_factory(self):
        def make(folder: Path, context: WriterContext) -> BinaryWriter:
            block = Config.from_source(SourceText.of(f'file="{folder / "out.bin"}"', "r.cntk"))
            return BinaryWriter(BinaryWriter.settings_from(block, "writer"), context)

        return make


@pytest.mark.parametrize("count", [1, 5, 6, 37])
def test_what_is_written_is_read(make_sections, count: int) -> None:
    """The sections begin at multiples of 65536; the header of the file grows with them."""
    one = writer({f"n{k}": 2 for k in range(count)})
    for rows in (FEATURES[:3], FEATURES[3:]):
        one.write({f"n{k}": [SequenceOutput("", rows + k)] for k in range(count)})
    one.close()
    one.close()
    data = Path("out/c.bin").read_bytes()
    assert len(data) == count * 65536 + HEADER + 4 * 2 * ROWS
    assert struct.unpack_from("<HHHH", data) == (0xACE9, 0x0100, 320 if count < 6 else 576, count)
    assert read(make_sections(data=data)) == {f"n{k}": (FEATURES + k).tolist() for k in range(count)}
    assert [path.name for path in Path("out").iterdir()] == ["c.bin"]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({}, "r.cntk: BinaryWriter writes 1 to 37 nodes to a file, not 0"),
        (
            {"z": 65536},
            "r.cntk: BinaryWriter: 'z' has 65536 values, and a record of such a file at most 65535\n"
            "    CNTKBinaryWriter has no such limit.",
        ),
    ],
)
def test_what_such_a_file_cannot_have(outputs: dict[str, int], message: str) -> None:
    with pytest.raises(CntkError) as caught:
        writer(outputs)
    assert str(caught.value) == message


def test_the_largest_record(make_sections) -> None:
    one = writer({"z": 65535})
    one.write({"z": [SequenceOutput("", np.ones((1, 65535)))]})
    one.close()
    assert make_sections(data=Path("out/c.bin").read_bytes()).streams[0].shape == (65535,)


def test_a_file_that_is_given_up() -> None:
    one = writer({"a": 1})
    one.write({"a": [SequenceOutput("", np.ones((2, 1)))]})
    one.discard()
    one.close()
    assert list(Path("out").iterdir()) == []


def test_outputs_of_different_lengths_leave_no_file() -> None:
    one = writer({"a": 1, "b": 1})
    one.write({"a": [SequenceOutput("", np.ones((2, 1)))], "b": [SequenceOutput("", np.ones((1, 1)))]})
    with pytest.raises(CntkError) as caught:
        one.close()
    assert str(caught.value) == (
        "r.cntk: BinaryWriter: the outputs have different numbers of samples: 'a' 2, 'b' 1\n"
        "    The records of a file belong together; write such nodes to a file of their own."
    )
    assert list(Path("out").iterdir()) == []


def test_a_file_that_cannot_be_written() -> None:
    Path("c.bin/in the way").mkdir(parents=True)
    made = writer({"a": 1}, "wfile=c.bin ; wrecords=10")
    made.write({"a": [SequenceOutput("", np.ones((2, 1)))]})
    with pytest.raises(CntkError) as caught:
        made.close()
    assert caught.value.message == "'c.bin' cannot be written: is a directory"
    assert [path.name for path in Path().iterdir()] == ["c.bin"]
