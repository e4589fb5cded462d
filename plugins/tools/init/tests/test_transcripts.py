"""What ``cntk init`` says of data, asks, and writes: word for word."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from transcripts import FOLDER, transcript

NEEDS = {"parquet": "pyarrow", "pictures": "PIL", "map": "PIL"}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.txt")))
def test_transcript(name: str) -> None:
    if (needed := NEEDS.get(name.partition("_")[0])) and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert transcript(text) == text
