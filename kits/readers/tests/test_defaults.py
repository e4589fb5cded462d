"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from cntk_kit_readers.composite_reader import CompositeKeys
from cntk_kit_readers.reader_keys import ReaderKeys
from cntk_kit_readers.utterance_keys import UtteranceKeys, UtterancePartKeys

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        ReaderKeys,
        {
            "sample_based_randomization_window": False,
            "randomization_seed": 0,
            "keep_data_in_memory": False,
            "cache_size_in_bytes": 536870912,
            "prefetch": True,
            "trace_level": 1,
            "verbosity": 0,
        },
    ),
    (
        UtteranceKeys,
        {
            "max_line_bytes": 67108864,
            "randomization_seed": 0,
            "frame_mode": True,
            "truncated": False,
            "truncation_length": 0,
            "check_data": True,
            "max_errors": 0,
            "keep_data_in_memory": False,
            "cache_size_in_bytes": 536870912,
            "prefetch": True,
            "verbosity": 0,
            "trace_level": 1,
        },
    ),
    (
        UtterancePartKeys,
        {
            "max_line_bytes": 67108864,
            "expand_to_utterance": False,
            "max_errors": 0,
            "verbosity": 0,
            "trace_level": 1,
        },
    ),
    (
        CompositeKeys,
        {
            "sample_based_randomization_window": True,
            "frame_mode": False,
            "truncated": False,
            "truncation_length": 0,
            "check_data": True,
            "hash_sequence_keys": False,
            "max_errors": 0,
            "multi_threaded_deserialization": False,
            "local_timeline": True,
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
