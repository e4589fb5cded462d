"""The reader: options, streams, label maps, errors."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_uci import UCIFastReader
from cntk_reader_uci.source import Piece, TableSource
from cntk_reader_uci.table import Marks

from cntk_core.api import CntkError, DataError, EpochSpec, ReaderContext
from cntk_core.api.builders import parse_text
from cntk_core.api.readers import Window

RECIPE = """
reader = [
    readerType = UCIFastReader ; file = "t.txt" {keys}
    features = [ {features} ]
    labels = [ {labels} ]
]
"""
KEYS = "; randomize = none"
FEATURES = "start = 1 ; dim = 2"
LABELS = "start = 0 ; labelDim = 3 ; labelMappingFile = map.txt"
DATA = "b 1 2\na -3 4e1\n\nc .5 6.\nb 7 8 extra\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text(DATA)
    Path("map.txt").write_text("a\n b \nc\n")


def make(
    keys: str = KEYS, features: str = FEATURES, labels: str = LABELS, inputs: dict | None = None, trace=None
) -> UCIFastReader:
    block = parse_text(RECIPE.format(keys=keys, features=features, labels=labels), file="r.cntk").section("reader")
    context = ReaderContext(dtype=np.dtype(np.float64), inputs=inputs or {}, trace=trace)
    return UCIFastReader(UCIFastReader.settings_from(block, "reader 'UCIFastReader'"), context)


def read(reader: UCIFastReader, **spec: int) -> dict[str, list]:
    minibatches = list(reader.minibatches(EpochSpec(**spec)))
    reader.close()
    return {
        stream.name: [row for mb in minibatches for row in mb.streams[stream.name].data.tolist()]
        for stream in reader.streams
    }


def error_of(**options) -> str:
    with pytest.raises(CntkError) as caught:
        read(make(**options))
    return str(caught.value)


@pytest.mark.parametrize("chunk", ["", "; chunkSizeInBytes = 1", "; chunkSizeInBytes = 14"])
def test_features_and_labels(chunk: str) -> None:
    found = read(make(KEYS + chunk), minibatch_size=3)
    assert found["features"] == [[1, 2], [-3, 40], [0.5, 6], [7, 8]]
    assert found["labels"] == np.eye(3)[[1, 0, 2, 1]].tolist()


def test_a_byte_order_mark_is_no_label() -> None:
    Path("t.txt").write_bytes(b"\xef\xbb\xbf" + DATA.encode())
    assert read(make())["labels"][0] == [0, 1, 0]


def test_regression_and_overlapping_columns() -> None:
    found = read(make(labels="start = 1 ; dim = 2 ; labelType = Regression"))
    assert found["labels"] == found["features"]


def test_labels_that_are_not_read() -> None:
    none = "start = 0 ; dim = 0 ; labelType = none"
    assert list(read(make(labels=none))) == ["features"]
    more = f"{none} ] ; more = [ start = 1 ; dim = 1"
    assert list(read(make(labels=more))) == ["features", "more"]


def test_label_dim_of_the_mapping_file_or_larger() -> None:
    assert len(read(make(labels="labelMappingFile = map.txt"))["labels"][0]) == 3
    assert len(read(make(labels="labelDim = 5 ; labelMappingFile = map.txt"))["labels"][0]) == 5


def test_the_network_gives_names_and_shapes() -> None:
    found = make(inputs={"Features": (2, 1), "LABELS": (3,)}).streams
    assert [(stream.name, stream.shape) for stream in found] == [("Features", (2, 1)), ("LABELS", (3,))]


def test_marks() -> None:
    Path("t.txt").write_text("a;1,5;2\nb ; -2e1;,5\n")
    found = read(make(KEYS + '; customDelimiter = ";" ; customDecimalPoint = ","'))
    assert found["features"] == [[1.5, 2], [-20, 0.5]]


def test_random_order() -> None:
    Path("t.txt").write_text("".join(f"a {i} {i}\n" for i in range(50)))
    whole, near = (
        [row[0] for row in read(make(f"; randomize = {randomize} ; chunkSizeInBytes = 30"))["features"]]
        for randomize in ("auto", "10")
    )
    assert sorted(whole) == sorted(near) == list(range(50))
    assert list(range(50)) not in (whole, near)


def test_a_label_map_is_made_from_the_data() -> None:
    told: list[str] = []
    keys = KEYS + "; allowMapCreation = true ; traceLevel = 1"
    found = read(make(keys, labels="labelDim = 3 ; labelMappingFile = run/new.txt", trace=told.append))
    assert found["labels"] == np.eye(3)[[0, 1, 2, 0]].tolist()
    assert Path("run/new.txt").read_text() == "b\na\nc\n"
    assert told == ["label mapping file 'run/new.txt' written with 3 labels"]


def test_a_byte_order_mark_is_no_part_of_the_first_label_that_is_found() -> None:
    Path("t.txt").write_bytes(b"\xef\xbb\xbfb 1 2\n\xef\xbb\xbfb 1 2\nb 1 2\n")
    make(KEYS + "; allowMapCreation = true", labels="labelDim = 3 ; labelMappingFile = new.txt")
    assert Path("new.txt").read_bytes() == b"b\n\xef\xbb\xbfb\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"labels": "labelDim = 3 ; labelMappingFile = none.txt"},
            "r.cntk:5:5: the label mapping file 'none.txt' of stream 'labels' cannot be read: "
            "no such file or directory\n"
            "    The action createLabelMap makes it; so does allowMapCreation=true in the reader's block.",
        ),
        (
            {"labels": "labelDim = 2 ; labelMappingFile = map.txt"},
            "r.cntk:5:5: stream 'labels' has labelDim=2, but 'map.txt' names 3 classes\n"
            "    Set labelDim=3, or shorten the file.",
        ),
        (
            {"inputs": {"features": (4,)}},
            "r.cntk:4:5: stream 'features' has dim=2, but the network's input 'features' is [4]\n"
            "    Set dim=4, or change the input.",
        ),
        (
            {"labels": LABELS + " ; dim = 2"},
            "r.cntk:5:72: stream 'labels' of reader 'UCIFastReader' has dim=2; a category is one column\n"
            "    Set dim=1, or labelType=regression.",
        ),
        (
            {"labels": LABELS + " ; file = other.txt"},
            "r.cntk:5:5: stream 'labels' has the file 'other.txt', stream 'features' 't.txt'\n"
            "    All columns stand in one table: give file=... once, in the reader's block.",
        ),
        (
            {"keys": '; customDelimiter = ";;"'},
            "r.cntk:3:51: customDelimiter must be one ASCII character, not ';;'",
        ),
        (
            {"keys": '; customDelimiter = ";" ; customDecimalPoint = ";"'},
            "r.cntk:3:75: customDelimiter and customDecimalPoint are the same character",
        ),
        (
            {"keys": "; oneLinePerFile = true"},
            "r.cntk:3:51: oneLinePerFile=true is not supported\n    Put all lines in one file.",
        ),
    ],
)
def test_errors_of_the_recipe(options: dict, message: str) -> None:
    assert error_of(**options) == message


def test_errors_are_collected() -> None:
    text = error_of(keys="; randomize = often", features="start = -1", labels="labelType = odd")
    assert "4 problems found" in text
    for part in ("'often'", "start' must be at least 0, not -1", "features:dim", "'odd'"):
        assert part in text


def test_errors_of_the_table() -> None:
    Path("t.txt").write_text("b 1 2\nd 1 x\na 1\n")
    expected = (
        "t.txt:2: column 0 (stream 'labels'): label 'd' is not in the mapping file\n"
        "t.txt:2: column 2 (stream 'features'): 'x' is no number\n"
        "t.txt:3: the line has 2 columns; stream 'features' (start=1, dim=2) needs 3"
    )
    for keys in ("", "; chunkSizeInBytes = 1"):
        reader = make(KEYS + keys)
        assert sorted(str(error) for error in reader.check()) == expected.split("\n")
        reader.close()
    assert "3 problems found" in error_of()


def test_many_bad_lines_are_counted() -> None:
    Path("t.txt").write_text("a 1 x\n" * 15)
    text = error_of()
    assert "t.txt:10: " in text
    assert "t.txt: 5 more bad lines in this part of the table; `cntk check-data` lists them all" in text


def test_missing_and_empty_files() -> None:
    Path("t.txt").write_text("\n \n")
    reader = make()
    assert [str(error) for error in reader.check()] == ["t.txt: the file is empty"]
    reader.close()
    assert error_of() == "t.txt has no samples"
    Path("t.txt").unlink()
    relative = "\n    A relative name starts at the directory in which the command runs."
    assert error_of() == f"r.cntk:4:5: UCIFastReader: cannot open file 't.txt': no such file or directory{relative}"
    Path("t.txt").mkdir()
    assert error_of() == "r.cntk:4:5: UCIFastReader: cannot open file 't.txt': is a directory"


def test_errors_of_the_mapping_file() -> None:
    Path("map.txt").write_text("a\nb\na\n")
    assert error_of() == "map.txt:3: label 'a' is there twice"
    Path("map.txt").write_text("\n")
    assert error_of() == "map.txt: the label mapping file is empty"


@pytest.mark.parametrize("blank", ["\v", "\f \t", "\r"])
def test_lines_of_white_space_are_no_samples(blank: str) -> None:
    Path("t.txt").write_bytes(DATA.encode() + blank.encode() + b"\nc 9 9\n")
    assert len(read(make(KEYS + "; chunkSizeInBytes = 1"))["features"]) == 5


def test_lines_that_are_too_long() -> None:
    Path("t.txt").write_text(DATA + "b 1 " + "2" * 40 + "\n")
    message = (
        "t.txt:6: the line has more than 40 bytes, maxLineBytes=40\n"
        "    Is it the right file? If it is, give the reader a larger maxLineBytes."
    )
    assert error_of(keys=KEYS + "; maxLineBytes = 40") == message
    keys = KEYS + "; maxLineBytes = 40 ; allowMapCreation = true"
    assert error_of(keys=keys, labels=LABELS.replace("map.txt", "new.txt")) == message
    assert len(read(make(KEYS + "; maxLineBytes = 44"))["features"]) == 5


def test_a_long_number_takes_no_more_memory_than_its_own() -> None:
    Path("t.txt").write_text("a 1 2\n" * 2000 + "b 1 " + "0" * 100_000 + "7\n")
    reader = make()
    tracemalloc.start()
    found = read(reader)["features"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[-1] == [1, 7]
    assert peak < 20 << 20


def test_the_first_wrong_labels_are_compared_with_those_there_are() -> None:
    Path("map.txt").write_text("apple\nb\nc\n")
    Path("t.txt").write_text("appel 1 2\n" * 12)
    errors = [str(error) for error in make().check()]
    assert len(errors) == 12
    message = "column 0 (stream 'labels'): label 'appel' is not in the mapping file"
    assert errors[9] == f"t.txt:10: {message}; did you mean 'apple'?"
    assert errors[10] == f"t.txt:11: {message}"


def test_a_label_map_that_cannot_be_made() -> None:
    made = {"keys": f"{KEYS} ; allowMapCreation = true", "labels": LABELS.replace("map.txt", "map.txt/new.txt")}
    with pytest.raises(CntkError) as caught:
        make(**made)
    assert str(caught.value) == ("r.cntk:5:5: the label mapping file 'map.txt/new.txt' cannot be written: file exists")
    Path("t.txt").write_text("b 1 2\n\n3 4\n")
    with pytest.raises(CntkError) as caught:
        make(keys=made["keys"], labels="start = 2 ; labelDim = 3 ; labelMappingFile = new.txt")
    assert str(caught.value) == (
        "t.txt:3: the line has 2 columns; the labels of stream 'labels' stand in column 2 (from 0)"
    )
    assert not Path("new.txt").exists()


WINDOWS = [
    *((text, Window()) for text in ("auto", "TRUE")),
    *((text, None) for text in ("none", "False", "0")),
    ("3", Window(3, in_samples=True)),
]


@pytest.mark.parametrize(("text", "window"), WINDOWS)
def test_windows(text: str, window: Window | None) -> None:
    recipe = RECIPE.format(keys=f"; randomize = {text}", features=FEATURES, labels=LABELS)
    block = parse_text(recipe, file="r.cntk").section("reader")
    assert UCIFastReader.settings_from(block, "reader 'UCIFastReader'").window == window


def test_data_in_their_order_come_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(make())
    loaded: list[int] = []
    load = TableSource.load
    monkeypatch.setattr(TableSource, "load", lambda self, chunk: loaded.append(chunk) or load(self, chunk))
    monkeypatch.setattr("cntk_kit_readers.chunked.FIRST_BYTES", 14)
    assert read(make()) == expected
    assert max(loaded) > 0


@pytest.mark.parametrize(("size", "samples"), [(6, [1, 1, 1, 1]), (9, [2, 1, 1]), (15, [2, 2]), (1000, [4])])
def test_chunks_have_as_many_bytes_as_asked_for(size: int, samples: list[int]) -> None:
    """The lines have 6, 9, 1, 8 and 12 bytes."""
    source = TableSource(Path("t.txt"), None, (), Marks(), size, np.float32)
    assert [info.samples for info in source.index()] == samples


def test_whole_minibatches_alone() -> None:
    """A sweep has as many as fit into it; any other epoch becomes larger, and goes on in the next sweep."""
    full = "; randomize = none ; minibatchMode = Full"
    rows = read(make(), minibatch_size=1)["features"]
    assert len(rows) == 4
    assert read(make(full), minibatch_size=3)["features"] == rows[:3]
    assert read(make(full), minibatch_size=3, epoch=1)["features"] == rows[:3]
    assert read(make(full), minibatch_size=2, max_samples=2)["features"] == rows[:2]
    assert read(make(full), minibatch_size=2, epoch_size=5)["features"] == [*rows, *rows[:2]]
    assert read(make(full), minibatch_size=2, epoch_size=5, epoch=1)["features"] == [*rows[2:], *rows]
    with pytest.raises(CntkError) as caught:
        read(make(full), minibatch_size=5)
    assert str(caught.value) == (
        "minibatchMode=full, but t.txt has 4 samples and a minibatch 5\n"
        "    Set minibatchMode=partial, or a smaller minibatchSize."
    )


def test_a_cache_is_not_needed() -> None:
    told: list[str] = []
    reader = make("; randomize = none ; writerType = BinaryWriter ; wfile = t.bin", trace=told.append)
    assert read(reader) == read(make())
    assert told == ["UCIFastReader: no binary cache is written or read (writerType), the table is parsed directly"]
    assert not Path("t.bin").exists()


LINES = [b"1 2", b"", b"  3 4", b" \t ", b"5,6", b",", b"7 8 9", b"\r", b"10 11\r"]


def pieces(text: bytes, size: int, marks: Marks) -> list[Piece]:
    """What the text is cut into, line by line."""
    offset = end = 3
    first, samples, found = 1, 0, []
    for number, line in enumerate(text[3:].splitlines(keepends=True), start=1):
        end += len(line)
        samples += bool(marks.split(line))
        if end - offset >= size or end == len(text):
            found.append(Piece(offset, end - offset, first, samples))
            offset, first, samples = end, number + 1, 0
    return found


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(("size", "delimiter"), [(1, b""), (12, b","), (40, b""), (1000, b",")])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_are_counted_wherever_blocks_end(monkeypatch, block, size, delimiter, end):
    monkeypatch.setattr("cntk_reader_uci.source._BLOCK", block)
    lines = [LINES[choice] for choice in np.random.default_rng(3).integers(len(LINES), size=60)]
    text = b"\xef\xbb\xbf" + b"\n".join([*lines, b"12 13"]).replace(b"\r\n", b" \n") + end
    Path("t.txt").write_bytes(text)
    source = TableSource(Path("t.txt"), None, [], Marks(delimiter), size, np.float32, 20)
    found = source.index()
    assert source._pieces == pieces(text, size, Marks(delimiter))
    assert [info.samples for info in found] == [piece.samples for piece in source._pieces]


def test_the_end_of_a_line_is_no_part_of_its_length():
    Path("t.txt").write_bytes(b"1 2 3 4\r\n1 2 3 4\n\n1 2 3 4 5")
    source = TableSource(Path("t.txt"), None, [], Marks(), 100, np.float32, 7)
    with pytest.raises(DataError, match=r"t.txt:4: the line has more than 7 bytes"):
        source.index()
    Path("t.txt").write_bytes(b"1 2 3 4\r\n1 2 3 4\n\n1 2 3 4\r\n")
    assert [info.samples for info in source.index()] == [3]
