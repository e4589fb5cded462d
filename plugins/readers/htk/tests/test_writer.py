"""HTKMLFWriter: files that the reader reads back, and what is wrong said in one message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_reader_htk import HTKMLFWriter
from cntk_reader_htk.htkfile import FeatureFile

from cntk_core.api import CntkError, Config, SequenceOutput, WriterContext
from cntk_core.api.builders import SourceText

BLOCK = "outputNodeNames=z\nz=[ dim=2 ; scpFile=out.scp ; type=Real ]"


def make(text: str = BLOCK, outputs: dict[str, int] | None = None, told: list[str] | None = None) -> HTKMLFWriter:
    options = HTKMLFWriter.settings_from(Config.from_source(SourceText.of(text, "r.cntk")), "writer 'HTKMLFWriter'")
    trace = None if told is None else told.append
    return HTKMLFWriter(options, WriterContext({"z": 2} if outputs is None else outputs, trace))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out.scp").write_text("out/a.mfc\n\nout/b.mfc\n")


def test_files_are_read_back() -> None:
    told: list[str] = []
    writer = make(told=told)
    first, second = np.array([[1.5, 2], [3, np.inf]]), np.array([[4.0, 5]])
    writer.write({"z": [SequenceOutput("a", first)]})
    writer.write({"z": [SequenceOutput("b", second)]})
    writer.close()
    for name, values in (("a", first), ("b", second)):
        file = FeatureFile(f"out/{name}.mfc")
        assert file.header.style == "2-dimensional USER with a frame of 10 ms"
        assert file.header.order == ">"
        found = np.zeros_like(values)
        file.read(0, len(values) - 1, found)
        file.close()
        assert np.array_equal(found, values)
    assert told == [
        "WARNING: HTKMLFWriter: 1 values of 'out/a.mfc' are not finite (2 frames)",
        "evaluate: writing 2 frames of out/a.mfc",
        "evaluate: writing 1 frames of out/b.mfc",
    ]


@pytest.mark.parametrize("pieces", [["abc"], ["a", "bc"], ["ab", "c"]])
def test_too_few_files(pieces: list[str]) -> None:
    writer = make()
    *fitting, last = [{"z": [SequenceOutput(key, np.zeros((1, 2))) for key in keys]} for keys in pieces]
    for one in fitting:
        writer.write(one)
    with pytest.raises(CntkError) as caught:
        writer.write(last)
    assert str(caught.value) == (
        "r.cntk: HTKMLFWriter: utterance 3 ('c') has no file in the list of 'z', which has 2\n"
        "    The list needs one file for each utterance that is read."
    )


def test_a_file_that_cannot_be_written() -> None:
    Path("out").write_text("")
    with pytest.raises(CntkError, match=r"^r\.cntk: 'out/a\.mfc' cannot be written: "):
        make().write({"z": [SequenceOutput("a", np.zeros((1, 2)))]})


def test_a_frame_that_is_too_large() -> None:
    with pytest.raises(CntkError) as caught:
        make(BLOCK.replace("dim=2", "dim=20000"), {"z": 20000}).write(
            {"z": [SequenceOutput("a", np.zeros((1, 20000)))]}
        )
    assert str(caught.value) == (
        "r.cntk: 'out/a.mfc' cannot be written: a frame of 20000 values is too large for an HTK file (at most 16383)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BLOCK.replace("dim=2", "dim=3"), "r.cntk:2:5: the node 'z' has 2 values, not dim=3\n    Set dim=2."),
        (BLOCK.replace("z=[", "y=[").replace("Names=z", "Names=y"),
         "r.cntk:2:13: HTKMLFWriter: the action writes no node 'y'\n"
         "    It writes: z; outputNodeNames of the section says which."),
        (BLOCK.replace("out.scp", "no.scp"),
         "r.cntk:2:13: cannot open the list of files to write 'no.scp': no such file or directory\n"
         "    A relative name starts at the directory in which the command runs."),
        (BLOCK.replace("Real", "Category"), "r.cntk:2:36: z:type must be 'real', not 'Category'\n    Accepted: real."),
        ("z=[ dim=2 ; scpFile=out.scp ]", "r.cntk: required parameter missing: outputNodeNames\n"
         "    Add outputNodeNames=... to the recipe."),
    ],
)  # fmt: skip
def test_wrong_blocks(text: str, message: str) -> None:
    with pytest.raises(CntkError) as caught:
        make(text)
    assert str(caught.value) == message
