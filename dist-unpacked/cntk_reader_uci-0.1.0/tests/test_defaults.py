"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cntk_reader_uci.options import ColumnKeys, LabelKeys, UCIReaderKeys

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        ColumnKeys,
        {"start": 0},
    ),
    (
        LabelKeys,
        {
            "start": 0,
            "dim": 1,
            "label_dim": 0,
        },
    ),
    (
        UCIReaderKeys,
        {
            "max_line_bytes": 67108864,
            "allow_map_creation": False,
            "one_line_per_file": False,
            "chunk_size_in_bytes": 33554432,
            "trace_level": 0,
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
