"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cntk_reader_language.lm import LMFeatureKeys, LMKeys, LMLabelKeys
from cntk_reader_language.lu import LUKeys, LULabelKeys
from cntk_reader_language.writer import OutputKeys

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        LUKeys,
        {
            "nbruttsineachrecurrentiter": 1,
            "equal_length": True,
            "data_multi_pass": False,
            "ignoresentencebegintag": False,
        },
    ),
    (
        LULabelKeys,
        {
            "dim": 1,
            "label_dim": 0,
            "use_word_map": False,
            "is_proposal": False,
        },
    ),
    (
        LMKeys,
        {
            "nbruttsineachrecurrentiter": 1,
            "cache_block_size": 50000,
        },
    ),
    (
        LMLabelKeys,
        {
            "dim": 1,
            "label_dim": 0,
        },
    ),
    (
        LMFeatureKeys,
        {"noise_number": 0},
    ),
    (
        OutputKeys,
        {"nbest": 1},
    ),
]


@pytest.mark.parametrize(("keys", "expected"), DEFAULTS)
def test_defaults(keys: type[Any], expected: dict[str, float]) -> None:
    fields = {field.name: field.default for field in attrs.fields(keys) if not field.inherited}
    numbers = {name: value for name, value in fields.items() if isinstance(value, bool | int | float)}
    assert numbers == expected
    assert {name: type(value) for name, value in numbers.items()} == {
        name: type(value) for name, value in expected.items()
    }
