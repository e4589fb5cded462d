"""Names that scripts take from the original's library itself, as far as they mean something here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from cntk.device import DeviceKind
from cntk.initializer import fix_seed, reset_seeds
from cntk.ops.functions import Function
from cntk.variables import Constant, Parameter, Variable

DataType_Float, DataType_Double, DataType_Float16 = np.float32, np.float64, np.float16
DeviceKind_CPU, DeviceKind_GPU = DeviceKind.CPU, DeviceKind.GPU
DataUnit_Sweep, DataUnit_Sample, DataUnit_Minibatch = range(3)
VariableKind_Input, VariableKind_Output, VariableKind_Parameter, VariableKind_Constant, VariableKind_Placeholder = (
    range(5)
)
MaskKind_Invalid, MaskKind_Valid, MaskKind_SequenceBegin = range(3)
StorageFormat_Dense, StorageFormat_SparseCSC, StorageFormat_SparseBlockCol = range(3)
PoolingType_Max, PoolingType_Average = range(2)
PaddingMode_CONSTANTPAD, PaddingMode_REFLECTPAD, PaddingMode_SYMMETRICPAD = range(3)
TraceLevel_Error, TraceLevel_Warning, TraceLevel_Info = range(3)
InferredDimension, FreeDimension = -1, -3
chunk_id_max = 2**32 - 1
default_param_init_scale = default_param_init_output_rank = 1
default_param_init_filter_rank = 0
minibatch_size_ignored = 0
infinitely_repeat = 2**64 - 1
sentinel_value_for_auto_select_random_seed = 2**64 - 3
sentinel_value_for_infer_param_init_rank = 2**31 - 1


def reset_random_seed(seed: int) -> None:
    """Let the seeds of what says none begin at a number."""
    reset_seeds(seed)


def set_fixed_random_seed(seed: int) -> None:
    """Let a number be the seed of all that says none."""
    fix_seed(seed)


def force_deterministic_algorithms() -> None:
    """Do nothing: results are the same from run to run."""


def should_force_deterministic_algorithms() -> bool:
    """Whether results are the same from run to run, which they are."""
    return True


def always_allow_setting_default_device() -> None:
    """Do nothing: the device of a program can always be chosen."""


def is_native_user_function_registered(op_id: str) -> bool:
    """Whether there is a user function in C++ of this name; there is none."""
    return False


def allow_renaming_functions() -> None:
    """Let functions that have a name be given another one."""
    Function._may_rename = True


def enable_forward_values_sharing() -> None:
    """Do nothing: memory is always shared where that is possible."""


def disable_forward_values_sharing() -> None:
    """Do nothing: what gradients need is always kept."""


__all__ = [
    "Constant",
    "DataType_Double",
    "DataType_Float",
    "DataType_Float16",
    "DeviceKind_CPU",
    "DeviceKind_GPU",
    "Function",
    "Parameter",
    "Variable",
    "allow_renaming_functions",
    "always_allow_setting_default_device",
    "disable_forward_values_sharing",
    "enable_forward_values_sharing",
    "force_deterministic_algorithms",
    "infinitely_repeat",
    "is_native_user_function_registered",
    "minibatch_size_ignored",
    "reset_random_seed",
    "sentinel_value_for_auto_select_random_seed",
    "sentinel_value_for_infer_param_init_rank",
    "set_fixed_random_seed",
    "should_force_deterministic_algorithms",
]

_TRAINING = {
    "Learner": "cntk.learners",
    "MinibatchSourceConfig": "cntk.io",
    "ProgressWriter": "cntk.logging",
    "Trainer": "cntk.train",
    "disable_profiler": "cntk.debugging",
    "enable_profiler": "cntk.debugging",
    "set_checked_mode": "cntk.debugging",
    "set_computation_network_trace_level": "cntk.debugging",
    "start_profiler": "cntk.debugging",
    "stop_profiler": "cntk.debugging",
    "to_dictionary": "cntk.io._config",
    "training_double_parameter_schedule": "cntk.learners._schedules",
}
"""Names of what trains, reads and reports, and their modules."""


def __getattr__(name: str) -> Any:
    """Return a name of what trains, reads and reports.

    Raises:
        AttributeError: there is no such name.
    """
    if name not in _TRAINING:
        raise AttributeError(f"module 'cntk.cntk_py' has no attribute '{name}'")
    return getattr(import_module(_TRAINING[name]), name)
