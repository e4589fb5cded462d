from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_sparse import DSSMReader, LibSVMBinaryReader, SparsePCReader

from cntk_core.api import Config, ReaderContext
from cntk_core.api.builders import SourceText
from cntk_core.api.readers import ChunkedReader

sys.path.insert(0, str(Path(__file__).parent))

READERS: dict[str, type[ChunkedReader]] = {
    each.__name__: each for each in (DSSMReader, LibSVMBinaryReader, SparsePCReader)
}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a reader of files in an empty folder."""
    monkeypatch.chdir(tmp_path)
    readers: list[ChunkedReader] = []

    def build(name: str, text: str, files: dict[str, bytes], *, dtype: str = "float64", **context: Any):
        for file, data in files.items():
            Path(file).write_bytes(data)
        reader_class = READERS[name]
        block = Config.from_source(SourceText.of(text, "r.cntk"))
        options = reader_class.settings_from(block, f"reader '{name}'")
        reader = reader_class(options, ReaderContext(dtype=np.dtype(dtype), **context))
        readers.append(reader)
        return reader

    yield build
    for reader in readers:
        reader.close()
