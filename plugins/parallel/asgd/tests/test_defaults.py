"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cntk_parallel_asgd.options import AsynchronousOptions, SimulatedTime, WarmUp

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        WarmUp,
        {
            "adjust_coefficient": 0.1,
            "adjust_per_minibatches": 256,
        },
    ),
    (
        SimulatedTime,
        {
            "seed": 1,
            "seconds_per_sample": 0.001,
            "jitter": 0.1,
            "latency": 0.0,
        },
    ),
    (
        AsynchronousOptions,
        {
            "use_pipeline": False,
            "sim_model_average": False,
            "compensation_decay": 0.95,
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
