from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_htk import HTKDeserializers, HTKMLFReader

from cntk_core.api import Config, ReaderContext
from cntk_core.api.builders import SourceText

sys.path.insert(0, str(Path(__file__).parent))  # for lattice_files

LENGTHS = {"utt0": 7, "utt1": 4, "utt2": 9, "utt3": 1, "utt4": 6}
STATES = ("a[2]", "a[3]", "sil[2]")


def frames_of(name: str, dim: int = 2) -> np.ndarray:
    """Frames whose values tell the utterance and the time."""
    number, length = list(LENGTHS).index(name), LENGTHS[name]
    return np.array([[100 * number + t + i / 4 for i in range(dim)] for t in range(length)], dtype=np.float32)


def htk_bytes(frames: np.ndarray, order: str = ">", kind: int = 9, period: int = 100_000, crc: bytes = b"") -> bytes:
    header = struct.pack(f"{order}iiHH", len(frames), period, 4 * frames.shape[1], kind)
    return header + frames.astype(f"{order}f4").tobytes() + crc


def classes_of(name: str) -> list[int]:
    return [(t + len(name)) // 2 % 3 for t in range(LENGTHS[name])]


def mlf_text(names: Any = LENGTHS, unit: int = 100_000) -> str:
    lines = ["#!MLF!#"]
    for name in names:
        lines.append(f'"*/{name}.lab"')
        classes, start = classes_of(name), 0
        for t in range(1, len(classes) + 1):
            if t == len(classes) or classes[t] != classes[start]:
                lines.append(f"{start * unit} {t * unit} {STATES[classes[start]]}")
                start = t
        lines.append(".")
    return "\n".join(lines) + "\n"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five utterances: files, an archive, lists of both, labels in another order, a state list."""
    monkeypatch.chdir(tmp_path)
    Path("feat").mkdir()
    archive, lines = [], []
    for name in LENGTHS:
        frames = frames_of(name)
        Path(f"feat/{name}.mfc").write_bytes(htk_bytes(frames))
        first = sum(len(part) for part in archive)
        archive.append(frames)
        lines.append(f"{name}.mfc=all.chunk[{first},{first + len(frames) - 1}]")
    Path("all.chunk").write_bytes(htk_bytes(np.concatenate(archive)))
    Path("archive.scp").write_text("\n".join(lines) + "\n")
    Path("files.scp").write_text("".join(f"{name}.mfc=feat/{name}.mfc\n" for name in LENGTHS))
    Path("ali.mlf").write_text(mlf_text(reversed(LENGTHS)))
    Path("states.list").write_text("\n".join(STATES) + "\n")
    return tmp_path


FEATURES = "features=[ dim=2 ; scpFile=archive.scp ]"
LABELS = "labels=[ labelDim=3 ; mlfFile=ali.mlf ; labelMappingFile=states.list ]"


@pytest.fixture
def make(corpus: Path):
    """Return a function that makes a reader of a block of text; warnings are kept in ``reader.told``."""
    readers: list[HTKDeserializers] = []

    def build(text: str = FEATURES + "\n" + LABELS, *, old: bool = True, dtype: str = "float32", **context: Any) -> Any:
        reader_class = HTKMLFReader if old else HTKDeserializers
        block = Config.from_source(SourceText.of(text, "r.cntk"))
        told: list[str] = []
        options = reader_class.settings_from(block, f"reader '{reader_class.__name__}'")
        reader = reader_class(options, ReaderContext(dtype=np.dtype(dtype), trace=told.append, **context))
        reader.told = told
        readers.append(reader)
        return reader

    yield build
    for reader in readers:
        reader.close()
