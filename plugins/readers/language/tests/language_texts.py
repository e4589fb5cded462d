"""Recipes of both readers with places for more, and a function that makes readers of them."""

from __future__ import annotations

import numpy as np

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


def make_reader(
    kind: type, recipe: str, for_writing: bool = False, inputs: dict | None = None, trace=None, **parts: str
):
    """Make a reader of a recipe with some parts."""
    names = ("keys", "features", "words", "labels")
    block = parse_text(recipe.format(**{name: parts.get(name, "") for name in names}), file="r.cntk").section("reader")
    context = ReaderContext(dtype=np.dtype(np.float64), for_writing=for_writing, inputs=inputs or {}, trace=trace)
    return kind(kind.settings_from(block, f"reader '{kind.__name__}'"), context)
