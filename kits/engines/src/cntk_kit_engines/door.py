"""What of this kit authors of engines are offered: the door ``cntk_core.api.engines`` has these names."""

from cntk_kit_engines.axes import Axes, stream_of, time_steps
from cntk_kit_engines.byte_loops import byte_loop
from cntk_kit_engines.code_cache import CodeCache
from cntk_kit_engines.compiling import compiles
from cntk_kit_engines.explain import explain, plan_record
from cntk_kit_engines.fallback import Place as FallbackPlace
from cntk_kit_engines.fallback import apart as fallback_apart
from cntk_kit_engines.fallback import forward as fallback_forward
from cntk_kit_engines.fallback import gradient as fallback_gradient
from cntk_kit_engines.fallback import new_axis as fallback_new_axis
from cntk_kit_engines.foreign_results import check_gradients as check_foreign_gradients
from cntk_kit_engines.foreign_results import check_value as check_foreign_value
from cntk_kit_engines.foreign_results import foreign_nodes, is_foreign
from cntk_kit_engines.gradient_flow import flow_back
from cntk_kit_engines.inlets import Inlets
from cntk_kit_engines.interpreter import Interpreter, NodeKernel
from cntk_kit_engines.kept_kernels import kept_kernel
from cntk_kit_engines.kernels import ask as ask_kernels
from cntk_kit_engines.kernels import ask_for_gradient as ask_kernels_for_gradient
from cntk_kit_engines.kernels import by_op as kernels_by_op
from cntk_kit_engines.kernels import in_form_of
from cntk_kit_engines.kernels import tables as kernel_tables
from cntk_kit_engines.lengths import check_lengths
from cntk_kit_engines.machine_code import can_compile, kernel_cache
from cntk_kit_engines.native import Native, native_function
from cntk_kit_engines.native_types import NotNative
from cntk_kit_engines.open_arrays import OpenArrays, reaches_open
from cntk_kit_engines.plan_values import (
    ValueSizes,
    constants_of,
    contexts_of,
    criterion_shape,
    elements_of,
    mark_rows,
    row_count,
)
from cntk_kit_engines.products import matrices as product_matrices
from cntk_kit_engines.products import results as product_results
from cntk_kit_engines.program import PlanProgram, Told, is_total
from cntk_kit_engines.sparse_inputs import is_product, is_transposed, label_inputs, sparse_inputs
from cntk_kit_engines.stages import Meeting, Stage, check_axes, meetings_of, stages_of
from cntk_kit_engines.step_program import StepEngine, StepProgram
from cntk_kit_engines.step_trace import describe_step, nodes_of_step, places_of_step, trace
from cntk_kit_engines.storage import Storage, axis_of_scratch
from cntk_kit_engines.streams import check_size, sparse_matrix
from cntk_kit_engines.timing import Measurement, RunTime, StepTime, called_one_by_one, measured
from cntk_kit_engines.traced_rule import TracedRule
from cntk_kit_engines.tree_text import Dialect, TreeWriter, equal_names
from cntk_kit_engines.trees import (
    Names,
    forward_trees,
    gradient_trees,
    is_elementwise,
    path_of,
    rename_symbols,
    symbols_in_order,
)

__all__ = [
    "Axes",
    "CodeCache",
    "Dialect",
    "FallbackPlace",
    "Inlets",
    "Interpreter",
    "Measurement",
    "Meeting",
    "Names",
    "Native",
    "NodeKernel",
    "NotNative",
    "OpenArrays",
    "PlanProgram",
    "RunTime",
    "Stage",
    "StepEngine",
    "StepProgram",
    "StepTime",
    "Storage",
    "Told",
    "TracedRule",
    "TreeWriter",
    "ValueSizes",
    "ask_kernels",
    "ask_kernels_for_gradient",
    "axis_of_scratch",
    "byte_loop",
    "called_one_by_one",
    "can_compile",
    "check_axes",
    "check_foreign_gradients",
    "check_foreign_value",
    "check_lengths",
    "check_size",
    "compiles",
    "constants_of",
    "contexts_of",
    "criterion_shape",
    "describe_step",
    "elements_of",
    "equal_names",
    "explain",
    "fallback_apart",
    "fallback_forward",
    "fallback_gradient",
    "fallback_new_axis",
    "flow_back",
    "foreign_nodes",
    "forward_trees",
    "gradient_trees",
    "in_form_of",
    "is_elementwise",
    "is_foreign",
    "is_product",
    "is_total",
    "is_transposed",
    "kept_kernel",
    "kernel_cache",
    "kernel_tables",
    "kernels_by_op",
    "label_inputs",
    "mark_rows",
    "measured",
    "meetings_of",
    "native_function",
    "nodes_of_step",
    "path_of",
    "places_of_step",
    "plan_record",
    "product_matrices",
    "product_results",
    "reaches_open",
    "rename_symbols",
    "row_count",
    "sparse_inputs",
    "sparse_matrix",
    "stages_of",
    "stream_of",
    "symbols_in_order",
    "time_steps",
    "trace",
]
