"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cntk_builder_simple.options import SimpleOptions

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        SimpleOptions,
        {
            "init_value_scale": 1.0,
            "uniform_init": True,
            "apply_mean_var_norm": False,
            "need_prior": False,
            "add_dropout_nodes": False,
            "output_layer_size": -1,
            "default_hidden_activity": 0.1,
            "lookup_table_order": 0,
            "ma_order": 0,
            "sparseinput": False,
            "const_forget_gate_value": False,
            "const_input_gate_value": False,
            "const_output_gate_value": False,
            "forget_gate_init_val": -1.0,
            "input_gate_init_val": -1.0,
            "output_gate_init_val": -1.0,
            "vocab_size": -1,
            "nbr_class": -1,
            "noise_number": -1,
            "auxfeatdim": 20,
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
