"""CNTKBinaryWriter in the action write, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_reader_binary import CNTKBinaryReader, CNTKBinaryWriter

from cntk_core.api import CntkError, Config, ReaderContext, SequenceOutput, WriterContext
from cntk_core.api.builders import SourceText
from cntk_kit_recipes.cli import main

RECIPE = """\
command = W
W = [ action = write ; minibatchSize = 2
 BrainScriptNetworkBuilder = [ features = Input{2} ; z = features + features ; y = ReduceSum(features)
  featureNodes = (features) ; outputNodes = (z:y) ]
 reader = [ readerType = CNTKTextFormatReader ; file = data.ctf ; input = [ features = [ dim = 2 ; format = dense ] ] ]
 writer = [ writerType = CNTKBinaryWriter ; file = "out/z.cbf" ; precision = double ] ]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def block(text: str) -> Config:
    return Config.from_source(SourceText.of(text, "r.cntk"))


def make(text: str = "file=x.cbf", outputs: tuple[str, ...] = ("a", "b")) -> CNTKBinaryWriter:
    options = CNTKBinaryWriter.settings_from(block(text), "writer 'CNTKBinaryWriter'")
    return CNTKBinaryWriter(options, WriterContext(dict.fromkeys(outputs, 2)))


def values(count: int) -> list[SequenceOutput]:
    return [SequenceOutput("", np.ones((1, 2)))] * count


def test_outputs_of_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    Path("r.cntk").write_text(RECIPE)
    Path("data.ctf").write_text("1 |features 1 2\n1 |features 3 4\n2 |features 5 6\n3 |features 7 8\n")
    assert main(["configFile=r.cntk"]) == 0, capsys.readouterr().err
    options = CNTKBinaryReader.settings_from(block('file="out/z.cbf"'), "reader")
    reader = CNTKBinaryReader(options, ReaderContext(dtype=np.dtype(np.float64)))
    assert [info.sample_counts().tolist() for info in reader.source.index()] == [[2, 1, 1]]
    columns = reader.source.load(0).columns
    assert columns["z"].data.tolist() == [[2, 4], [6, 8], [10, 12], [14, 16]]
    assert columns["y"].data.tolist() == [[3], [7], [11], [15]]
    reader.close()


@pytest.mark.parametrize(
    ("precision", "read"), [("double", 0.1), ("float", float(np.float32(0.1))), ("", float(np.float32(0.1)))]
)
def test_precisions(precision: str, read: float) -> None:
    writer = make("file=x.cbf" + (f"\nprecision={precision}" if precision else ""), ("a",))
    writer.write({"a": [SequenceOutput("", np.full((1, 2), 0.1))]})
    writer.close()
    options = CNTKBinaryReader.configure(block('file="x.cbf"'), "reader")
    reader = CNTKBinaryReader(options, ReaderContext(dtype=np.dtype(np.float64)))
    assert len(list(reader.source.index())) == 1
    assert reader.source.load(0).columns["a"].data.tolist() == [[read, read]]
    reader.close()


def test_different_numbers_of_sequences() -> None:
    writer = make()
    with pytest.raises(CntkError) as caught:
        writer.write({"a": values(2), "b": values(1)})
    writer.discard()
    writer.close()
    assert str(caught.value) == (
        "r.cntk:1:1: CNTKBinaryWriter: the outputs have different numbers of sequences: 'a' 2, 'b' 1\n"
        "    A file holds streams of the same sequences; write such nodes to a file of their own."
    )
    assert not list(Path().iterdir())


def test_file_gets_its_name_when_it_is_whole() -> None:
    Path("x.cbf").write_text("old")
    writer = make()
    writer.write({"a": values(1), "b": values(1)})
    assert Path("x.cbf").read_text() == "old"
    writer.close()
    writer.close()
    assert sorted(path.name for path in Path().iterdir()) == ["x.cbf"]
    assert Path("x.cbf").stat().st_size > 50


def test_name_that_cannot_be_given() -> None:
    Path("x.cbf").mkdir()
    Path("x.cbf/file").write_text("")
    writer = make()
    with pytest.raises(CntkError) as caught:
        writer.close()
    assert str(caught.value) == "r.cntk:1:1: 'x.cbf' cannot be written: is a directory"
    assert not Path("x.cbf.part").exists()


@pytest.mark.parametrize(
    ("text", "outputs", "message"),
    [
        ("file=x.cbf", (), "r.cntk:1:1: CNTKBinaryWriter has nothing to write"),
        ("file=x.cbf\nprecision=half", ("a",), "r.cntk:2:11: precision must be one of the names below, not 'half'"),
        ("file=x.cbf\nchunkSizeInBytes=0", ("a",), "r.cntk:2:18: 'chunkSizeInBytes' must be at least 1, not 0"),
        ("file=x.cbf/y.cbf", ("a",), "r.cntk:1:1: 'x.cbf/y.cbf' cannot be written: file exists"),
        ("precision=float", ("a",), "r.cntk: required parameter missing: file"),
    ],
)
def test_errors(text: str, outputs: tuple[str, ...], message: str) -> None:
    if "/y" in text:
        Path("x.cbf").write_text("")
    with pytest.raises(CntkError) as caught:
        make(text, outputs)
    assert str(caught.value).partition("\n    ")[0] == message


@pytest.mark.parametrize(
    ("size", "chunks"),
    [(1, [2, 1, 3]), (12, [2, 1, 3]), (13, [2, 4]), (20, [2, 4]), (21, [3, 3]), (32, [3, 3]), (33, [6])],
)
def test_a_chunk_ends_with_the_sequence_that_fills_it(size: int, chunks: list[int]) -> None:
    """Sequences of 2, 1 and 3 frames of 8 bytes, before each of which stand 4 bytes."""
    writer = make(f"file=x.cbf\nchunkSizeInBytes={size}", ("a",))
    frames = [np.full((length, 2), length) for length in (2, 1, 3)]
    for one in frames:
        writer.write({"a": [SequenceOutput("", one)]})
    writer.close()
    options = CNTKBinaryReader.configure(block('file="x.cbf"'), "reader")
    reader = CNTKBinaryReader(options, ReaderContext(dtype=np.dtype(np.float64)))
    assert [info.samples for info in reader.source.index()] == chunks
    found = [reader.source.load(chunk).columns["a"].data for chunk in range(len(chunks))]
    reader.close()
    assert np.concatenate(found).tolist() == np.concatenate(frames).tolist()
