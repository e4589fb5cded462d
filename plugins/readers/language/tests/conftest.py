"""Small texts in the current directory, and functions that make readers of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cntk_reader_language import LMSequenceReader, LUSequenceReader

sys.path.insert(0, str(Path(__file__).parent))  # for language_texts

from language_texts import LM, LU, make_reader


@pytest.fixture(autouse=True)
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts: 14 frames for the language model, 9 words with tags."""
    monkeypatch.chdir(tmp_path)
    Path("classes.txt").write_text("0 9 </s> 0\n1 5 a 0\n2 4 b 1\n3 3 c 1\n4 1 <unk> 2\n")
    Path("lm.txt").write_text("</s> a b </s>\n</s> </s>\n</s> c zebra a b </s>\n</s> b c </s>\n\n</s> a a </s>\n")
    Path("words.txt").write_text("EOS\nx\ny\nz\n<unk>\n")
    Path("tags.txt").write_text("O\nT\n")
    Path("map.txt").write_text("EOS EOS\nx x\ny x\n")
    Path("lu.txt").write_text("x O\ny T\nEOS O\n\n\nz O\nother T\n\nx y T\nz O\ny O\nEOS O\n")


@pytest.fixture
def lm():
    """A function that makes an LMSequenceReader."""
    return lambda **parts: make_reader(LMSequenceReader, LM, **parts)


@pytest.fixture
def lu():
    """A function that makes an LUSequenceReader."""
    return lambda **parts: make_reader(LUSequenceReader, LU, **parts)
