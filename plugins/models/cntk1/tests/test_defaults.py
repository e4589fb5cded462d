"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cntk_model_cntk1.convert_dbn import ConvertOptions

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        ConvertOptions,
        {
            "output_layer_size": -1,
            "uniform_init": True,
            "init_value_scale": 1.0,
            "need_prior": False,
            "add_dropout_nodes": False,
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
