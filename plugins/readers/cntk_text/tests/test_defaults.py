"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cntk_reader_cntk_text.options import StreamKeys, TextReaderKeys

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        StreamKeys,
        {"defines_mb_size": False},
    ),
    (
        TextReaderKeys,
        {
            "max_line_bytes": 67108864,
            "skip_sequence_ids": False,
            "frame_mode": False,
            "max_errors": 0,
            "chunk_size_in_bytes": 33554432,
            "truncated": False,
            "truncation_length": 0,
        },
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
