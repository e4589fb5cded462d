"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cntk_learner_rmsprop.rmsprop import RmsPropOptions

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        RmsPropOptions,
        {
            "rms_gamma": 0.99,
            "rms_wgt_inc": 1.2,
            "rms_wgt_dec": 0.75,
            "rms_wgt_max": 10.0,
            "rms_wgt_min": 0.1,
            "norm_with_ave_multiplier": True,
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
