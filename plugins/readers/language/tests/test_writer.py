"""LUSequenceWriter: names of the best elements, and what is wrong said in one message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_reader_language import LMSequenceWriter, LUSequenceWriter

from cntk_core.api import CntkError, Config, SequenceOutput, WriterContext
from cntk_core.api.builders import SourceText
from cntk_kit_recipes.cli import main

BLOCK = "outputNodeNames=z\nz=[ file=out/z.txt ; token=tags.txt ]"
RECIPE = """\
command = W
W = [ action = write ; outputNodeNames = z
 BrainScriptNetworkBuilder = [ f = Input{3} ; z = -f ; featureNodes = (f) ; outputNodes = (z) ]
 reader = [ readerType = CNTKTextFormatReader ; file = d.ctf ; input = [ f = [ dim = 3 ; format = dense ] ] ]
 writer = [ writerType = LUSequenceWriter ; z = [ file = z.txt ; token = tags.txt ; nbest = %s ] ] ]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tags.txt").write_text("O\nB-city\nI-city\n")
    Path("d.ctf").write_text("1 |f 3 1 2\n1 |f 1 2 0\n2 |f 0 0 -5\n")


def make(text: str = BLOCK, outputs: tuple[str, ...] = ("z",)) -> LUSequenceWriter:
    options = LUSequenceWriter.settings_from(
        Config.from_source(SourceText.of(text, "r.cntk")), "writer 'LUSequenceWriter'"
    )
    return LUSequenceWriter(options, WriterContext(dict.fromkeys(outputs, 3)))


@pytest.mark.parametrize(
    ("nbest", "expected"),
    [(1, "B-city I-city \nI-city \n"), (2, "B-city I-city O \nI-city \n")],
)
def test_write_action(capsys: pytest.CaptureFixture[str], nbest: int, expected: str) -> None:
    """A sentence is a line; with several names for a frame those whose value is zero are left out."""
    Path("r.cntk").write_text(RECIPE % nbest)
    assert main(["configFile=r.cntk"]) == 0, capsys.readouterr().err
    assert Path("z.txt").read_text() == expected


def test_elements_without_a_name_do_not_count() -> None:
    writer = make()
    writer.write({"z": [SequenceOutput("", np.array([[0.0, 1.0, 0.5, 9.0], [2.0, 2.0, 1.0, 0.0]]))]})
    writer.write({"z": [SequenceOutput("", np.zeros((0, 4))), SequenceOutput("", np.array([[0.0, 0, 3, 0]]))]})
    writer.close()
    writer.close()
    assert Path("out/z.txt").read_text() == "B-city O \n\nI-city \n"


@pytest.mark.parametrize(
    ("text", "outputs", "message"),
    [
        (BLOCK, ("zz",), "r.cntk:2:1: LUSequenceWriter: the action writes no node 'z'; did you mean 'zz'?\n"
         "    It writes: zz; outputNodeNames of the section says which."),
        ("", ("z",), "r.cntk: LUSequenceWriter has no outputNodeNames\n"
         "    outputNodeNames=z ; z=[ file=... ; token=... ]"),
        (BLOCK.replace("tags", "tag"), ("z",), "r.cntk:2:1: the list of names 'tag.txt' cannot be read: no such file "
         "or directory\n    A relative name starts at the directory in which the command runs."),
        (BLOCK.replace("; token", "; nbest=0 ; token"), ("z",), "r.cntk:2:28: 'nbest' must be at least 1, not 0\n"
         "    How many names are written for each frame, best first."),
    ],
)  # fmt: skip
def test_errors(text: str, outputs: tuple[str, ...], message: str) -> None:
    with pytest.raises(CntkError) as caught:
        make(text, outputs)
    assert str(caught.value) == message


def test_file_that_cannot_be_written() -> None:
    Path("out").write_text("")
    with pytest.raises(CntkError) as caught:
        make().write({"z": [SequenceOutput("", np.zeros((1, 3)))]})
    assert str(caught.value) == "r.cntk:2:1: 'out/z.txt' cannot be written: file exists"


def test_words_of_a_class_file(capsys: pytest.CaptureFixture[str]) -> None:
    """LMSequenceWriter: the names are the third column of the file of word classes."""
    Path("vocab.txt").write_text("0 9 </s> 0\n1 5 to 0\n2 4 go 1\n")
    recipe = (RECIPE % 2).replace("LUSequenceWriter", "LMSequenceWriter ; unk = '<unk>'").replace("tags", "vocab")
    Path("r.cntk").write_text(recipe)
    assert main(["configFile=r.cntk"]) == 0, capsys.readouterr().err
    assert Path("z.txt").read_text() == "to go </s> \ngo \n"


def test_what_is_wrong_with_a_class_file() -> None:
    config = Config.from_source(SourceText.of(BLOCK, "r.cntk"))
    options = LMSequenceWriter.settings_from(config, "writer 'LMSequenceWriter'")
    with pytest.raises(CntkError) as caught:
        LMSequenceWriter(options, WriterContext({"z": 3}))
    text = "the line is not 'number count word class'"
    assert str(caught.value) == "\n".join([*(f"tags.txt:{n}: {text}" for n in (1, 2, 3)), "3 problems found"])
    with pytest.raises(CntkError) as caught:
        LMSequenceWriter(options, WriterContext({"y": 3}))
    assert str(caught.value).startswith("r.cntk:2:1: LMSequenceWriter: the action writes no node 'z'")
