"""``cntk convert-data``: binary files of what a recipe reads, with the exact output and messages."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from cntk_kit_recipes.cli import main

RECIPE = """\
command = P:T
P = [ action = dumpNode ; modelPath = m ]
T = [ action = train
 reader = [ readerType = CNTKTextFormatReader ; file = data.ctf ; input = [
  x = [ dim = 2 ; format = dense ] ; y = [ dim = 3 ; format = sparse ] ] ]
 cvReader = [ readerType = CNTKTextFormatReader ; file = data.ctf ; input = [ x = [ dim = 2 ; format = dense ] ] ] ]
"""
DATA = "1 |x 1 2 |y 2:4\n1 |x 3 4\n2 |x 5 6 |y 0:7 1:8\n"
MAGIC = 0x636E746B5F62696E


@pytest.fixture(autouse=True)
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(RECIPE)
    Path("data.ctf").write_text(DATA)


def floats(*values: float) -> bytes:
    return np.array(values, dtype="<f4").tobytes()


def ints(*values: int) -> bytes:
    return np.array(values, dtype="<i4").tobytes()


def test_file_is_as_the_format_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert-data", "r.cntk", "-o", "out.cbf"]) == 0
    data = Path("out.cbf").read_bytes()
    assert capsys.readouterr().out == f"out.cbf: 2 sequences, {len(data)} bytes: x [2], y [3]\n"
    x = ints(2) + floats(1, 2, 3, 4) + ints(1) + floats(5, 6)
    y = ints(1, 1) + floats(4) + ints(2, 1) + ints(1, 2) + floats(7, 8) + ints(0, 1, 2)
    chunk = ints(2, 1) + x + y
    header = struct.pack("<QII", MAGIC, 1, 2)
    header += struct.pack("<BI1sBI", 0, 1, b"x", 0, 2) + struct.pack("<BI1sBI", 1, 1, b"y", 0, 3)
    header += struct.pack("<qII", 12, 2, 3)
    assert data == struct.pack("<QI", MAGIC, 1) + chunk + header + struct.pack("<q", 12 + len(chunk))
    assert not Path("out.cbf.part").exists()


def test_precision_and_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert-data", "r.cntk", "-o", "out.cbf", "--key", "cvReader", "--precision", "double"]) == 0
    assert capsys.readouterr().out == "out.cbf: 2 sequences, 127 bytes: x [2]\n"
    assert np.frombuffer(Path("out.cbf").read_bytes(), dtype="<f8", count=4, offset=24).tolist() == [1, 2, 3, 4]


def test_no_such_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert-data", "r.cntk", "-o", "out.cbf", "--section", "P"]) == 1
    assert capsys.readouterr().err == "error: r.cntk: the recipe has no block 'reader' to convert\n"


def test_malformed_data_leaves_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("data.ctf").write_text(DATA + "3 |x 5,5 6\n")
    assert main(["convert-data", "r.cntk", "-o", "out.cbf", "--key", "cvReader"]) == 1
    assert capsys.readouterr().err.startswith(
        "error: data.ctf: CNTKTextFormatReader: at least 1 malformed row, maxErrors=0\n    data.ctf:4:6: "
    )
    assert sorted(path.name for path in Path().iterdir()) == ["data.ctf", "r.cntk"]


def test_onto_its_own_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert-data", "r.cntk", "-o", "./data.ctf"]) == 2
    assert capsys.readouterr().err == (
        "error: './data.ctf' is the file that is read\n    Give the new one another name.\n"
    )
    assert Path("data.ctf").read_text() == DATA


def test_onto_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    assert main(["convert-data", "r.cntk", "-o", "folder"]) == 2
    assert capsys.readouterr().err == "error: 'folder' is a folder\n    Give the name of the new file.\n"
