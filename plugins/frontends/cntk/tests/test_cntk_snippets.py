"""What pieces of programs answer beside the original 2.7, whose answers are in data/snippets.json."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

_SPEC = importlib.util.spec_from_file_location("snippets", Path(__file__).with_name("snippets.py"))
assert _SPEC is not None
snippets = importlib.util.module_from_spec(_SPEC)
assert _SPEC.loader is not None
_SPEC.loader.exec_module(snippets)

ORIGINAL: dict[str, Any] = json.loads(Path(snippets.ANSWERS).read_text(encoding="utf-8"))


PIECES = list(ORIGINAL)


@pytest.mark.parametrize("first", range(0, len(PIECES), 12))
def test_answers(first: int) -> None:
    for piece in PIECES[first : first + 12]:
        assert json.loads(json.dumps(snippets.answer(piece))) == ORIGINAL[piece], piece


MESSAGES = {
    "C.sequence.past_value(C.input_variable(3, name='x'))": (
        "PastValue needs a sequence, and Input('x', [#], [3]) has none: its only dynamic axis is the batch"
    ),
    "C.plus(C.sequence.input_variable(2, name='a'), C.sequence.input_variable(2, sequence_axis=C.Axis('q'), name='b'), name='p')": (
        "Plus 'p': its inputs have different dynamic axes: Input('a', [#, *], [2]) has defaultBatchAxis, "
        "defaultDynamicAxis, Input('b', [#, q], [2]) has defaultBatchAxis, q"
    ),
    "C.Trainer(None, C.reduce_sum(C.input_variable(2) * C.parameter(2)), [])": (
        "a Trainer needs at least one learner, such as cntk.sgd(model.parameters, 0.1)"
    ),
}


@pytest.mark.parametrize("piece", MESSAGES)
def test_messages(piece: str) -> None:
    with pytest.raises(ValueError) as caught:
        eval(piece, {"C": snippets.C})
    assert str(caught.value) == MESSAGES[piece]
