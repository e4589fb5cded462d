"""What pieces of programs answer beside the original 2.7, whose answers are in data/snippets.json."""

from __future__ import annotations

import importlib.util
import json
import re
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


@pytest.mark.sampled(2, later=1)
@pytest.mark.parametrize("first", range(0, len(PIECES), 12))
def test_answers(first: int) -> None:
    for piece in PIECES[first : first + 12]:
        assert json.loads(json.dumps(snippets.answer(piece))) == ORIGINAL[piece], piece


MESSAGES = {
    "C.sequence.past_value(C.input_variable(3, name='x'))": (
        "PastValue needs a sequence, and Input('x', [#], [3]) is none"
    ),
    "C.sequence.input_variable(2) + C.sequence.input_variable(2, sequence_axis=C.Axis('q'))": (
        "Plus: its inputs have different dynamic axes: Input('I', [#, *], [2]) has defaultBatchAxis, "
        "defaultDynamicAxis, Input('I', [#, *], [2]) has defaultBatchAxis, q"
    ),
    "C.train.distributed.block_momentum_distributed_learner(C.sgd([C.parameter(2)], 0.1), 0)": (
        "a block has at least one sample: block_size cannot be 0"
    ),
    "C.Trainer(None, C.reduce_sum(C.input_variable(2) * C.parameter(2)), [])": (
        "a trainer needs a learner at least: Trainer(model, criterion, C.sgd(model.parameters, lr))"
    ),
}


@pytest.mark.parametrize("piece", MESSAGES)
def test_messages(piece: str) -> None:
    with pytest.raises(ValueError) as caught:
        eval(piece, {"C": snippets.C})
    assert re.sub(r"Input\d+", "I", str(caught.value)) == MESSAGES[piece]
