from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_kaldi import Kaldi2Reader

from cntk_core.api import Config, ReaderContext
from cntk_core.api.builders import SourceText

sys.path.insert(0, str(Path(__file__).parent))

from kaldi_bytes import LENGTHS, F, L, alignment, archive, classes_of, frames_of, matrix


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five utterances: an archive, a list of it, and alignments in another order."""
    monkeypatch.chdir(tmp_path)
    data, offsets = archive({name: matrix(frames_of(name)) for name in LENGTHS})
    Path("feats.ark").write_bytes(data)
    Path("feats.scp").write_text("".join(f"{name} feats.ark:{offset}\n" for name, offset in offsets.items()))
    Path("ali.ark").write_bytes(archive({name: alignment(classes_of(name)) for name in reversed(LENGTHS)})[0])
    return tmp_path


@pytest.fixture
def make(corpus: Path):
    """Return a function that makes a reader of a block of text; warnings are kept in ``reader.told``."""
    readers: list[Kaldi2Reader] = []

    def build(text: str = F + L, *, dtype: str = "float32", **context: Any) -> Any:
        block = Config.from_source(SourceText.of(text, "r.cntk"))
        told: list[str] = []
        options = Kaldi2Reader.settings_from(block, "reader 'Kaldi2Reader'")
        reader = Kaldi2Reader(options, ReaderContext(dtype=np.dtype(dtype), trace=told.append, **context))
        reader.told = told
        readers.append(reader)
        return reader

    yield build
    for reader in readers:
        reader.close()
