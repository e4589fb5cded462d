from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_cntk_text import CNTKTextFormatReader, StreamOptions, TextReaderOptions

from cntk_core.api import ReaderContext

sys.path.insert(0, str(Path(__file__).parent))

Make = Callable[..., CNTKTextFormatReader]

A = StreamOptions(name="a", dim=2, format="dense")
L = StreamOptions(name="l", dim=3, format="sparse")


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a reader of a text; warnings are kept in ``reader.told``."""
    monkeypatch.chdir(tmp_path)
    readers: list[CNTKTextFormatReader] = []

    def build(
        text: str | bytes,
        streams: tuple[StreamOptions, ...] = (A,),
        dtype: str = "float64",
        inputs: dict[str, tuple[int, ...]] | None = None,
        **options: Any,
    ) -> CNTKTextFormatReader:
        data = text.encode() if isinstance(text, str) else text
        Path("t.ctf").write_bytes(data)
        told: list[str] = []
        context = ReaderContext(dtype=np.dtype(dtype), inputs=inputs or {}, trace=told.append)
        options.setdefault("randomize", "none")
        reader = CNTKTextFormatReader(TextReaderOptions(file=Path("t.ctf"), streams=streams, **options), context)
        reader.told = told
        readers.append(reader)
        return reader

    yield build
    for reader in readers:
        reader.close()
