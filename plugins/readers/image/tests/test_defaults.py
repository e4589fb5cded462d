"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cntk_reader_image.options import ColorKeys, CropKeys, DeserializerKeys, ImageReaderKeys, IntensityKeys, ScaleKeys

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        CropKeys,
        {"seed": 0},
    ),
    (
        ScaleKeys,
        {"pad_value": -1},
    ),
    (
        ColorKeys,
        {
            "brightness_radius": 0.0,
            "contrast_radius": 0.0,
            "saturation_radius": 0.0,
            "seed": 0,
        },
    ),
    (
        IntensityKeys,
        {
            "intensity_std_dev": 0.0,
            "seed": 0,
        },
    ),
    (
        ImageReaderKeys,
        {
            "max_line_bytes": 67108864,
            "max_image_pixels": 89478485,
            "num_cpu_threads": 0,
            "max_errors": 0,
            "cache_size_in_bytes": 536870912,
        },
    ),
    (
        DeserializerKeys,
        {
            "multi_view_crop": False,
            "multi_threaded_deserialization": True,
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
