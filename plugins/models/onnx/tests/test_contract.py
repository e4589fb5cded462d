"""The format keeps the contract of model formats, and the wheel that of wheels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cntk_model_onnx.model_format import OnnxFormat
from judge import DATA

from cntk_testing import ModelFormatContract, PackagingContract


class TestOnnx(ModelFormatContract):
    format_class = OnnxFormat
    writes = True


class TestOthers(ModelFormatContract):
    """Files of another program, too; of those an end may be missing without being missed only where none is."""

    format_class = OnnxFormat
    writes = True

    def model_file(self, folder: Path) -> Path:
        path = folder / "net.onnx"
        path.write_bytes((DATA / "resnet.script.onnx").read_bytes())
        return path


class TestPackaging(PackagingContract):
    distribution = "cntk-model-onnx"
    kind = "model_format"


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.onnx")))
def test_files_of_others_are_recognized(name: str) -> None:
    path = DATA / name
    assert OnnxFormat().recognizes(path.read_bytes()[:64], path)


def test_a_file_that_begins_otherwise_is_not(tmp_path: Path) -> None:
    other: Any = tmp_path / "net.onnx"
    for begin in (b"", b"\x08", b"\x08\x00\x12\x04", b"BCN\0", b"\x12\x04\xff\xff\xff\xff", b"\x08\x07\x13\x00"):
        assert not OnnxFormat().recognizes(begin, other)
    assert OnnxFormat().recognizes(b"\x12\x07pytorch\x1a", other)
    assert not OnnxFormat().recognizes(b"\x12\x07pytorch\x1a", tmp_path / "net.bin")
