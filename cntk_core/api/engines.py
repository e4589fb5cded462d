"""The kit of authors of execution engines: plans, stages, streams, expression trees, geometry."""

from __future__ import annotations

from cntk_core.contract.engine import Program, ProgramState
from cntk_core.network.inference import shift_of
from cntk_core.ops.families.convolution import convolution_geometry, sharing_of
from cntk_core.ops.families.criteria import SMALLEST_DIVISOR
from cntk_core.ops.families.ctc import LOG_ZERO, PhonePath, latest_frames, phone_path, sequences_of, skips_of
from cntk_core.ops.families.delay_rows import delay_rows
from cntk_core.ops.families.delays import TAIL, fill_outside, initial_rows, keep_tail, last_sequence
from cntk_core.ops.families.distances import cosine_gradients, cosines
from cntk_core.ops.families.dropout import RATE as DROPOUT_RATE
from cntk_core.ops.families.dropout import dropout_rate
from cntk_core.ops.families.frame_moves import reconciled_rows, same_sequences
from cntk_core.ops.families.geometry import Geometry, is_legacy
from cntk_core.ops.families.normalization import (
    Statistics,
    blend_share,
    check_statistics,
    settle_statistics,
    statistics_used,
    update_share,
)
from cntk_core.ops.families.pooling import image_pooling_geometry, legacy_pooling_geometry, pooling_geometry
from cntk_core.ops.families.quantized import quantized_product
from cntk_core.ops.families.recurrent_cells import Weights as StackWeights
from cntk_core.ops.families.recurrent_stack import split_weights, whole_sequences
from cntk_core.ops.families.reshaping import transposed_axes
from cntk_core.ops.families.sequences import gathered_places
from cntk_core.ops.families.slicing import slice_ranges
from cntk_core.ops.families.softmax import log_softmax
from cntk_core.ops.families.unary import clipped_log
from cntk_core.ops.families.vocabulary import TRAINS, UNNORMALIZED, check_word_classes
from cntk_core.ops.kernel import kernels
from cntk_core.ops.language.expression import Expr, TraceMath, symbol
from cntk_core.ops.language.framing import (
    align,
    math_of,
    paired,
    run_forward,
    run_gradient,
    samples,
    unbroadcast,
    unpaired,
)
from cntk_core.ops.language.layouts import frame_layout, sequence_layout
from cntk_core.ops.language.random import stream_key
from cntk_core.ops.language.rows import longest_sequence, reader_slots, sequence_rows
from cntk_core.ops.language.shapes import broadcast, longest_axes, with_lengths
from cntk_core.ops.language.sparse_rows import best_columns
from cntk_core.ops.table import core_op
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import (
    AnyStep,
    Buffer,
    GradientStep,
    Loop,
    LoopGradient,
    Step,
    Target,
    derive_layout,
    derived_nodes,
    is_open,
    layout_of_root,
    makes_axis_by_values,
)
from cntk_core.plan.sparse import is_sparse_product
from cntk_core.plan.traced import Tree
from cntk_kit_engines.axes import Axes, stream_of
from cntk_kit_engines.byte_loops import byte_loop
from cntk_kit_engines.code_cache import CodeCache
from cntk_kit_engines.compiling import compiles
from cntk_kit_engines.explain import explain
from cntk_kit_engines.gradient_flow import flow_back
from cntk_kit_engines.interpreter import Interpreter
from cntk_kit_engines.kept_kernels import kept_kernel
from cntk_kit_engines.kernels import by_op as kernels_by_op
from cntk_kit_engines.kernels import in_form_of
from cntk_kit_engines.lengths import check_lengths
from cntk_kit_engines.machine_code import can_compile, kernel_cache
from cntk_kit_engines.native import Native, native_function
from cntk_kit_engines.native_types import NotNative
from cntk_kit_engines.products import matrices as product_matrices
from cntk_kit_engines.products import results as product_results
from cntk_kit_engines.program import PlanProgram, is_total
from cntk_kit_engines.sparse_inputs import is_product, is_transposed, label_inputs, sparse_inputs
from cntk_kit_engines.stages import Meeting, Stage, check_axes, meetings_of, stages_of
from cntk_kit_engines.streams import check_size, sparse_matrix
from cntk_kit_engines.trees import Names, forward_trees, gradient_trees, path_of, rename_symbols, symbols_in_order

KIT_VERSION = "1.0"
"""Version of this kit. Names may change with its major; what goes is announced for two minor versions."""

__all__ = [
    "DROPOUT_RATE",
    "KIT_VERSION",
    "LOG_ZERO",
    "SMALLEST_DIVISOR",
    "TAIL",
    "TRAINS",
    "UNNORMALIZED",
    "AnyStep",
    "Axes",
    "Buffer",
    "CodeCache",
    "Expr",
    "Geometry",
    "GradientStep",
    "Interpreter",
    "Loop",
    "LoopGradient",
    "Meeting",
    "Names",
    "Native",
    "NotNative",
    "PhonePath",
    "PlanProgram",
    "Program",
    "ProgramState",
    "StackWeights",
    "Stage",
    "Statistics",
    "Step",
    "Target",
    "TraceMath",
    "Tree",
    "align",
    "best_columns",
    "blend_share",
    "broadcast",
    "byte_loop",
    "can_compile",
    "check_axes",
    "check_lengths",
    "check_size",
    "check_statistics",
    "check_word_classes",
    "clipped_log",
    "compiles",
    "convolution_geometry",
    "core_op",
    "cosine_gradients",
    "cosines",
    "delay_rows",
    "derive_layout",
    "derived_nodes",
    "dropout_rate",
    "explain",
    "fill_outside",
    "flow_back",
    "forward_trees",
    "frame_layout",
    "gathered_places",
    "gradient_trees",
    "image_pooling_geometry",
    "in_form_of",
    "initial_rows",
    "is_legacy",
    "is_open",
    "is_product",
    "is_sparse_product",
    "is_total",
    "is_transposed",
    "keep_tail",
    "kept_kernel",
    "kernel_cache",
    "kernels",
    "kernels_by_op",
    "label_inputs",
    "last_sequence",
    "latest_frames",
    "layout_of_root",
    "legacy_pooling_geometry",
    "log_softmax",
    "longest_axes",
    "longest_sequence",
    "make_plan",
    "makes_axis_by_values",
    "math_of",
    "meetings_of",
    "native_function",
    "paired",
    "path_of",
    "phone_path",
    "pooling_geometry",
    "product_matrices",
    "product_results",
    "quantized_product",
    "reader_slots",
    "reconciled_rows",
    "rename_symbols",
    "run_forward",
    "run_gradient",
    "same_sequences",
    "samples",
    "sequence_layout",
    "sequence_rows",
    "sequences_of",
    "settle_statistics",
    "sharing_of",
    "shift_of",
    "skips_of",
    "slice_ranges",
    "sparse_inputs",
    "sparse_matrix",
    "split_weights",
    "stages_of",
    "statistics_used",
    "stream_key",
    "stream_of",
    "symbol",
    "symbols_in_order",
    "transposed_axes",
    "unbroadcast",
    "unpaired",
    "update_share",
    "whole_sequences",
    "with_lengths",
]
