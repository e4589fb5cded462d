"""Names that modules have of each other: in the original most of them import with ``*`` and pass on what they import.

Scripts count on it: after ``from cntk.layers import *`` they write ``np``, ``sequence.last`` and ``default_options``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from cntk._names import MODULES, NAMES

_TABLE = """
cntk: C Enum ctypes division enum np numbers os platform print_function sparse sys unique warnings
cntk.debugging: CloneMethod UserFunction cntk_py defaultdict division map_if_possible output_variable print_function
    profiler sys user_function
cntk.device: Enum cntk_py typemap
cntk.eval: MinibatchData sanitize_function sanitize_var_map use_default_device
cntk.initializer: cntk_py
cntk.internal: Axis C cntk cntk_py collections np numbers sanitize utils
cntk.internal.utils: NDArrayView cntk_py
cntk.io: ArrayMixin Record TraceLevel Value cntk cntk_py get_trace_level is_string np sanitize_dtype_cntk typemap
    use_default_device uuid warnings
cntk.io.transforms: cntk_py sanitize_2d_number sanitize_range
cntk.layers: Axis C Constant FunctionType InferredDimension Parameter PoolingType_Average PoolingType_Max Record
    SentinelValueForAutoSelectRandomSeed Variable alias batch_normalization blocks combine convolution
    convolution_transpose default_options default_override_or division dropout get_default_override
    get_python_function_arguments glorot_uniform higher_order_layers is_default_override layers map_function_arguments
    models np placeholder pooling reconcile_dynamic_axes reduce_mean reshape sanitize_shape sequence sigmoid slice
    softplus splice sqrt tanh times unpooling warn
cntk.layers.blocks: Constant Function InferredDimension Parameter alias combine default_override_or division
    get_default_override glorot_uniform np sigmoid slice softplus tanh times
cntk.layers.higher_order_layers: FunctionType
cntk.layers.layers: AveragePooling C Convolution Convolution1D Convolution2D Convolution3D ConvolutionTranspose
    ConvolutionTranspose1D ConvolutionTranspose2D ConvolutionTranspose3D GlobalAveragePooling GlobalMaxPooling
    MaxPooling MaxUnpooling PoolingType_Average PoolingType_Max Record SequentialConvolution UntestedBranchError
    convolution convolution_transpose division pooling reshape sequence splice unpooling
cntk.layers.models: C Dense Label PastValueWindow default_options division get_default_override warn
cntk.layers.models.attention: C Dense Function Label PastValueWindow Stabilizer default_options default_override_or
    division get_default_override glorot_uniform warn
cntk.layers.sequence: Constant ForwardDeclaration GRU InferredDimension LSTM Parameter RNNStep RNNUnit Record Stabilizer
    UntestedBranchError alias division get_default_override glorot_uniform identity np sigmoid slice softplus tanh
    times
cntk.layers.typing: Axis Variable get_python_function_arguments map_function_arguments np sanitize_shape
cntk.learners: Enum NDArrayView asarray cntk_py map_if_possible np typemap unique utils warnings
cntk.logging: Enum Variable cntk_py core cpu division graph os print_function progress_print sys time unique
cntk.losses: Axis C CloneMethod Constant Parameter division get_data_type parameter print_function sanitize_axis
    sanitize_dynamic_axes sanitize_shape softmax times typemap
cntk.metrics: division get_data_type print_function sanitize_axis typemap
cntk.ops: sequence SentinelValueForAutoSelectRandomSeed cntk_py division np numbers print_function sanitize_axis
    sanitize_axis_list sanitize_convolution_args sanitize_dtype_cntk sanitize_dynamic_axes sanitize_input
    sanitize_multi_axis_reduction_list sanitize_permutation sanitize_pooling_args sanitize_shape typemap
    use_default_device
cntk.ops.functions: DeviceDescriptor Enum Record UserFunction Value Variable cntk cntk_py collections cpu
    get_python_function_arguments is_byte_buffer map_function_arguments map_if_possible native_user_function path
    register_native_user_function sanitize_Function_attributes sanitize_batch sanitize_dtype_cntk sanitize_var_map
    sanitize_variable_value_dict sanitize_variables_or_functions sys typemap unique warnings
cntk.ops.sequence: get_data_type typemap
cntk.random: sanitize_input
cntk.train: Enum MinibatchData cntk_py ctypes distributed enum platform sanitize_function sanitize_var_map sys trainer
    typemap unique use_default_device
cntk.train.distributed: cntk_py ctypes trainer typemap
cntk.train.trainer: MinibatchData cntk_py sanitize_function sanitize_var_map typemap use_default_device
cntk.train.training_session: Enum cntk_py sanitize_function sanitize_var_map typemap unique use_default_device
"""
"""For each module the names of others that it has."""

_OUTSIDE = {
    **dict.fromkeys(
        ["collections", "ctypes", "enum", "numbers", "os", "platform", "sys", "time", "uuid", "warnings"], ""
    ),
    "C": "cntk",
    "Enum": "enum",
    "FunctionType": "types",
    "InferredDimension": "cntk",
    "cntk": "",
    "defaultdict": "collections",
    "division": "__future__",
    "np": "numpy",
    "path": "os",
    "print_function": "__future__",
    "sparse": "scipy.sparse",
    "unique": "enum",
    "warn": "warnings",
}
"""Names from outside, and the modules that they are or are in."""

_WHOLE = {"C", "np", "sparse"}
_HOMES = [
    "cntk.internal",
    "cntk.layers.typing",
    "cntk.layers",
    "cntk.layers.blocks",
    "cntk.logging",
    "cntk.tensor",
]
"""Modules of names that the package itself does not have."""

INHERITED = {
    module: names.split()
    for module, names in (line.split(":") for line in _TABLE.replace("\n    ", " ").splitlines()[1:])
}
"""For each module the names that it has of others."""


def _find(module: str, name: str) -> Any:
    if name in _OUTSIDE:
        home = _OUTSIDE[name] or name
        return import_module(home) if home == name or name in _WHOLE else getattr(import_module(home), name)
    if name in NAMES and NAMES[name] != module:
        return getattr(import_module(NAMES[name]), name)
    if name in MODULES:
        return import_module(MODULES[name])
    for home in _HOMES:
        if home != module and name in vars(found := import_module(home)):
            return vars(found)[name]
    return import_module(f"{module}.{name}")


def inherit(module: str) -> None:
    """Give a module the names that its namesake has of others; they are looked up when somebody asks for them.

    Args:
        module: its full name; it is being imported, and this is the last that it does.
    """
    names = INHERITED[module]
    here = vars(sys.modules[module])
    own = here.get("__all__") or [name for name in here if not name.startswith("_")]
    before = here.get("__getattr__")

    def find(name: str) -> Any:
        if before is not None:
            try:
                return before(name)
            except AttributeError:
                if name not in names:
                    raise
        if name not in names:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        here[name] = found = _find(module, name)
        return found

    here["__all__"] = sorted({*own, *names})
    here["__getattr__"] = find
