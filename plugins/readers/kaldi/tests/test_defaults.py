"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cntk_reader_kaldi.options import AlignmentKeys, FeatureKeys, KaldiKeys

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        FeatureKeys,
        {"max_line_bytes": 67108864, "expand_to_utterance": False, "allow_commands": False},
    ),
    (
        AlignmentKeys,
        {"max_line_bytes": 67108864, "soft_labels": True, "targets_delay": 0, "allow_commands": False},
    ),
    (KaldiKeys, {"soft_labels": True, "targets_delay": 0, "allow_commands": False}),
]


@pytest.mark.parametrize(("keys", "expected"), DEFAULTS)
def test_defaults(keys: type[Any], expected: dict[str, float]) -> None:
    fields = {field.name: field.default for field in attrs.fields(keys) if not field.inherited}
    numbers = {name: value for name, value in fields.items() if isinstance(value, bool | int | float)}
    assert numbers == expected
    assert {name: type(value) for name, value in numbers.items()} == {
        name: type(value) for name, value in expected.items()
    }
