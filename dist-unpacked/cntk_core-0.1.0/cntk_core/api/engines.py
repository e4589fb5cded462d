"""The kit of authors of execution engines: plans, stages, streams, expression trees, geometry."""

from __future__ import annotations

from cntk_core.contract.engine import Program, ProgramState
from cntk_core.network.inference import shift_of
from cntk_core.ops.families.convolution import convolution_geometry, sharing_of
from cntk_core.ops.families.criteria import SMALLEST_DIVISOR
from cntk_core.ops.families.ctc import LOG_ZERO, PhonePath, latest_frames, phone_path, sequences_of, skips_of
from cntk_core.ops.families.delay_rows import delay_rows
from cntk_core.ops.families.delays import TAIL, fill_outside, initial_rows, keep_tail, last_sequence
from cntk_core.ops.families.distances import cosine_gradients, cosines, negative_partners
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
from cntk_core.plan.arrays import looked_along
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
from cntk_kit_engines import door
from cntk_kit_engines.door import *  # noqa: F403 - the kit says what it offers

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
    "Buffer",
    "Expr",
    "Geometry",
    "GradientStep",
    "Loop",
    "LoopGradient",
    "PhonePath",
    "Program",
    "ProgramState",
    "StackWeights",
    "Statistics",
    "Step",
    "Target",
    "TraceMath",
    "Tree",
    "align",
    "best_columns",
    "blend_share",
    "broadcast",
    "check_statistics",
    "check_word_classes",
    "clipped_log",
    "convolution_geometry",
    "core_op",
    "cosine_gradients",
    "cosines",
    "delay_rows",
    "derive_layout",
    "derived_nodes",
    "dropout_rate",
    "fill_outside",
    "frame_layout",
    "gathered_places",
    "image_pooling_geometry",
    "initial_rows",
    "is_legacy",
    "is_open",
    "is_sparse_product",
    "keep_tail",
    "kernels",
    "last_sequence",
    "latest_frames",
    "layout_of_root",
    "legacy_pooling_geometry",
    "log_softmax",
    "longest_axes",
    "longest_sequence",
    "looked_along",
    "make_plan",
    "makes_axis_by_values",
    "math_of",
    "negative_partners",
    "paired",
    "phone_path",
    "pooling_geometry",
    "quantized_product",
    "reader_slots",
    "reconciled_rows",
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
    "split_weights",
    "statistics_used",
    "stream_key",
    "symbol",
    "transposed_axes",
    "unbroadcast",
    "unpaired",
    "update_share",
    "whole_sequences",
    "with_lengths",
]
__all__ += door.__all__
