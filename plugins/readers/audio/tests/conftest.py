from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_audio import AudioReader

from cntk_core.api import Config, ReaderContext
from cntk_core.api.builders import SourceText

sys.path.insert(0, str(Path(__file__).parent))

from sounds import F, L, write_corpus


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five sounds and a class for each."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    return tmp_path


@pytest.fixture
def make(corpus: Path):
    """Return a function that makes a reader of a block of text; warnings are kept in ``reader.told``."""
    readers: list[AudioReader] = []

    def build(text: str = F + L, *, dtype: str = "float32", **context: Any) -> Any:
        block = Config.from_source(SourceText.of(text, "r.cntk"))
        told: list[str] = []
        options = AudioReader.settings_from(block, "reader 'AudioReader'")
        reader: Any = AudioReader(options, ReaderContext(dtype=np.dtype(dtype), trace=told.append, **context))
        reader.told = told
        readers.append(reader)
        return reader

    yield build
    for reader in readers:
        reader.close()
