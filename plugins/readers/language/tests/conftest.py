"""Small texts in the current directory, and functions that make readers of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_reader_language import LMSequenceReader, LUSequenceReader

from cntk_core.api import ReaderContext
from cntk_core.api.builders import parse_text

LM = """
reader = [
    readerType = LMSequenceReader ; file = lm.txt ; wordclass = classes.txt {keys}
    features = [ dim = 5 {features} ]
    labelIn = [ labelDim = 5 ; labelMappingFile = none.txt ; endSequence = "</s>" {words} ]
    labels = [ labelType = nextWord {labels} ]
]
"""
LU = """
reader = [
    readerType = LUSequenceReader ; file = lu.txt ; wordmap = map.txt {keys}
    features = [ dim = 0 ]
    labelIn = [ token = words.txt ; labelDim = 5 ; endSequence = EOS {words} ]
    labels = [ token = tags.txt ; labelDim = 2 {labels} ]
]
"""


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


def make_reader(
    kind: type, recipe: str, for_writing: bool = False, inputs: dict | None = None, trace=None, **parts: str
):
    """Make a reader of a recipe with some parts."""
    names = ("keys", "features", "words", "labels")
    block = parse_text(recipe.format(**{name: parts.get(name, "") for name in names}), file="r.cntk").section("reader")
    context = ReaderContext(dtype=np.dtype(np.float64), for_writing=for_writing, inputs=inputs or {}, trace=trace)
    return kind(kind.settings_from(block, f"reader '{kind.__name__}'"), context)


@pytest.fixture
def lm():
    """A function that makes an LMSequenceReader."""
    return lambda **parts: make_reader(LMSequenceReader, LM, **parts)


@pytest.fixture
def lu():
    """A function that makes an LUSequenceReader."""
    return lambda **parts: make_reader(LUSequenceReader, LU, **parts)
