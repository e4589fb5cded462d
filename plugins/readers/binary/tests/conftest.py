from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_binary import CNTKBinaryReader

from cntk_core.api import Config, ReaderContext
from cntk_core.api.builders import SourceText

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a reader of the bytes of a file; warnings are kept in ``reader.told``."""
    monkeypatch.chdir(tmp_path)
    readers: list[CNTKBinaryReader] = []

    def build(data: bytes | None, text: str = "", *, dtype: str = "float64", **context: Any) -> CNTKBinaryReader:
        if data is not None:
            Path("x.cbf").write_bytes(data)
        source = SourceText.of('file="x.cbf"\n' + (text or "randomize=none"), "r.cntk")
        options = CNTKBinaryReader.settings_from(Config.from_source(source), "reader 'CNTKBinaryReader'")
        told: list[str] = []
        reader = CNTKBinaryReader(options, ReaderContext(dtype=np.dtype(dtype), trace=told.append, **context))
        reader.told = told
        readers.append(reader)
        return reader

    yield build
    for reader in readers:
        reader.close()
