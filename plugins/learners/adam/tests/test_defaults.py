"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cntk_learner_adam.adadelta import AdaDeltaOptions
from cntk_learner_adam.adam import AdamOptions, AdamWOptions

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        AdamOptions,
        {
            "beta2": 0.999,
            "epsilon": 1e-08,
            "unit_gain": True,
        },
    ),
    (
        AdamWOptions,
        {"weight_decay": 0.01},
    ),
    (
        AdaDeltaOptions,
        {
            "rho": 0.95,
            "epsilon": 1e-08,
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
