"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from cntk_kit_recipes.block.epoch_schedules import CosineOptions, PolynomialOptions, StepOptions, WarmupOptions
from cntk_kit_recipes.block.parallel_block import ParallelOptions

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        ParallelOptions,
        {
            "parallelization_start_epoch": 1,
            "distributed_mb_reading": True,
            "sync_perf_stats": 0,
            "communication_timeout": 600.0,
            "stall_report_after": 30.0,
            "check_parameters_every": 0,
            "elastic": False,
            "min_ranks": 1,
        },
    ),
    (
        CosineOptions,
        {
            "end": 0.0,
            "epochs": 0,
        },
    ),
    (
        StepOptions,
        {
            "factor": 0.1,
            "every": 1,
        },
    ),
    (
        PolynomialOptions,
        {
            "end": 0.0,
            "power": 1.0,
        },
    ),
    (
        WarmupOptions,
        {
            "start": 0.0,
            "end": 0.0,
            "warmup_epochs": 1,
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
