"""What the keys are worth that a recipe does not give."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from cntk_core.training.rates.auto_adjust import AutoAdjust
from cntk_core.training.settings import SGDSettings

DEFAULTS: list[tuple[type[Any], dict[str, float]]] = [
    (
        SGDSettings,
        {
            "epoch_size": 0,
            "truncated": False,
            "min_learning_rate_per_sample": 1e-09,
            "clipping_threshold_per_sample": math.inf,
            "gradient_clipping_with_truncation": True,
            "disable_reg_in_batch_normalization": False,
            "num_subminibatches": 1,
            "max_samples_in_ram": 0,
            "num_mbs_to_show_result": 10,
            "first_mbs_to_show_result": 0,
            "save_best_model_per_criterion": False,
            "keep_check_point_files": False,
            "checkpoint_every_samples": 0,
            "checkpoint_every_minutes": 0.0,
            "trace_level": 0,
            "use_all_data_for_pre_computed_node": True,
            "gradient_check": False,
            "sig_figs": 6.0,
        },
    ),
    (
        AutoAdjust,
        {
            "reduce_learn_rate_if_improve_less_than": 0.0,
            "increase_learn_rate_if_improve_more_than": math.inf,
            "learn_rate_decrease_factor": 0.618,
            "learn_rate_increase_factor": 1.382,
            "learn_rate_adjust_interval": 1,
            "load_best_model": True,
            "continue_reduce": False,
            "use_cv_set_control_lr_if_cv_exists": True,
            "use_eval_criterion_control_lr": False,
            "num_prev_learn_rates": 5,
            "num_best_search_epoch": 1,
            "better_than_unchanged": False,
            "auto_adjust_minibatch": False,
            "minibatch_size_tuning_frequency": 1,
            "minibatch_size_tuning_max": 1048576,
            "minibatch_search_criterion_error_margin": 1.0,
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
