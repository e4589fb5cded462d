from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_reader_image import Base64ImageDeserializer, ImageDeserializer, ImageReader
from PIL import Image

from cntk_core.api import Config, ReaderContext
from cntk_core.api.builders import SourceText
from cntk_core.api.readers import ChunkedReader
from cntk_kit_readers.composite_reader import composite_class

sys.path.insert(0, str(Path(__file__).parent))

from image_recipes import colours

KINDS: dict[str, Any] = {
    "ImageReader": ImageReader,
    "ImageDeserializer": ImageDeserializer,
    "Base64ImageDeserializer": Base64ImageDeserializer,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def images(folder: Path) -> Path:
    """Write ``count`` images and their map file; return the map file."""
    lines = []
    for number in range(11):
        Image.fromarray(colours(number)).save(folder / f"{number}.png")
        lines.append(f"{number}.png\t{number % 4}")
    map_file = folder / "map.txt"
    map_file.write_text("\n".join(lines) + "\n")
    return map_file


@pytest.fixture
def make(folder: Path):
    """Return a function that makes a reader; warnings are kept in ``reader.told``."""
    readers: list[ChunkedReader] = []

    def build(kind: str, text: str, *, dtype: str = "float32", **context: Any) -> ChunkedReader:
        config = Config.from_source(SourceText.of(text, "r.cntk"))
        reader_class = KINDS[kind] if kind in KINDS else composite_class(find)
        options = reader_class.settings_from(config, f"reader '{kind}'")
        told: list[str] = []
        reader = reader_class(options, ReaderContext(dtype=np.dtype(dtype), trace=told.append, **context))
        reader.told = told
        readers.append(reader)
        return reader

    yield build
    for reader in readers:
        reader.close()


def find(name: str, _: Any) -> Any:
    if name in KINDS:
        return KINDS[name]
    from cntk_reader_cntk_text import CNTKTextFormatReader

    assert name == "CNTKTextFormatDeserializer"
    return CNTKTextFormatReader
