"""The one module that a plugin imports. What is here is the plugin interface; its version is ``API_VERSION``."""

from cntk_core.config import (
    COMMAND_LINE,
    Config,
    Content,
    EvaluatedEntry,
    Schedule,
    SourceText,
    UtteranceKeys,
    UtterancePartKeys,
    Value,
    at_least,
    context_window,
    option,
    options,
    parse_text,
    read_source,
    read_utterance_block,
    read_utterance_part,
)
from cntk_core.data.chunked import ChunkedReader
from cntk_core.data.composite import CompositeSource, FrameSource, Part
from cntk_core.data.makers import PendingRows, RowMaker
from cntk_core.data.randomize import Block, RandomOrder, SweepOrder, Window, chunk_windows
from cntk_core.data.reader_keys import ReaderKeys
from cntk_core.data.slots import Piece, SlotPlan
from cntk_core.data.source import Chunk, ChunkInfo, ChunkSource, Column
from cntk_core.data.truncation import Truncation
from cntk_core.data.utterance_reader import UtteranceReader, window_of
from cntk_core.data.utterances import class_column, cut_chunks, read_windows
from cntk_core.errors import (
    BuildError,
    CntkError,
    ConfigError,
    DataError,
    Location,
    MissingKeyError,
    NetworkError,
    OptionError,
    PluginUnavailableError,
    Problems,
    RankGone,
    RankMissing,
    ShapeError,
    TrainingError,
    UnsupportedError,
    collect,
    did_you_mean,
    nearest,
    raise_problems,
)
from cntk_core.interfaces.builder import BuildContext, Document, NetworkBuilder, SeedNumbers
from cntk_core.interfaces.component import API_VERSION, Available, Component, NoOptions, Unavailable
from cntk_core.interfaces.engine import ExecutionEngine, Program, ProgramState
from cntk_core.interfaces.layout import SequenceLayout
from cntk_core.interfaces.learner import Learner, Slot, UpdateContext, UpdateRule
from cntk_core.interfaces.parallel import (
    Communicator,
    GradientAggregation,
    Launcher,
    Message,
    Parallelizer,
    Pending,
    StepCounts,
    Watch,
)
from cntk_core.interfaces.reader import (
    CACHE_BYTES,
    DataReader,
    EpochSpec,
    Minibatch,
    ReaderContext,
    StreamData,
    StreamInfo,
)
from cntk_core.interfaces.simulation import (
    NetworkModel,
    SimulatedRank,
    Simulation,
    SimulationPlan,
    TimeSpent,
    Traffic,
    WireSize,
)
from cntk_core.interfaces.writer import DataWriter, SequenceOutput, SparseRows, WriterContext
from cntk_core.network.clone import PARAMETER_USES, clone_nodes, duplicate, nodes_to_clone
from cntk_core.network.dump import write_dump
from cntk_core.network.edit import (
    check_links,
    complete_network,
    copy_inputs,
    copy_nodes,
    copy_sub_tree,
    freeze_statistics,
    remove_nodes,
    rename_nodes,
    replace_node,
    revise_parameter,
    set_input,
    set_inputs,
    set_learning_rate,
    set_needs_gradient,
    set_role,
    sub_tree,
    users_of,
)
from cntk_core.network.inference import is_delay
from cntk_core.network.initializers import (
    FixedValue,
    FromFile,
    FromLiteral,
    Initializer,
    Random,
    initialize_parameters,
    initializer,
    numbered,
)
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.network.patterns import NamePattern, find_nodes, paired_names
from cntk_core.ops.convolution import convolution_geometry, sharing_of
from cntk_core.ops.criteria import SMALLEST_DIVISOR
from cntk_core.ops.ctc import LOG_ZERO, PhonePath, latest_frames, phone_path, sequences_of, skips_of
from cntk_core.ops.define import define_op, elementwise_op
from cntk_core.ops.delays import TAIL, fill_outside, initial_rows, keep_tail, last_sequence, shift_of
from cntk_core.ops.distances import cosine_gradients, cosines
from cntk_core.ops.dropout import RATE as DROPOUT_RATE
from cntk_core.ops.expression import ArrayMath, Expr, TraceMath, symbol
from cntk_core.ops.frame_moves import reconciled_rows, same_sequences
from cntk_core.ops.framing import align, math_of, paired, run_forward, run_gradient, samples, unbroadcast, unpaired
from cntk_core.ops.geometry import Geometry, is_legacy
from cntk_core.ops.layouts import frame_layout, sequence_layout, slot_layout
from cntk_core.ops.normalization import (
    Statistics,
    blend_share,
    check_statistics,
    settle_statistics,
    statistics_used,
    update_share,
)
from cntk_core.ops.op import Accumulator, Elementwise, NoAttributes, Op, OpContext
from cntk_core.ops.pooling import image_pooling_geometry, legacy_pooling_geometry, pooling_geometry
from cntk_core.ops.quantized import quantized_product
from cntk_core.ops.random import random_stream
from cntk_core.ops.recurrent_cells import Weights as StackWeights
from cntk_core.ops.recurrent_stack import split_weights, whole_sequences
from cntk_core.ops.reshaping import transposed_axes
from cntk_core.ops.rows import delay_rows, longest_sequence, reader_slots, sequence_rows
from cntk_core.ops.sequences import gathered_places
from cntk_core.ops.shapes import Shape, broadcast, elements, from_cntk, longest_axes, show, to_cntk, with_lengths
from cntk_core.ops.slicing import slice_ranges
from cntk_core.ops.softmax import log_softmax
from cntk_core.ops.sparse_rows import best_columns
from cntk_core.ops.table import OpTable, core_ops
from cntk_core.ops.unary import clipped_log
from cntk_core.ops.vocabulary import TRAINS, UNNORMALIZED, check_word_classes
from cntk_core.plan.axes import Axes, stream_of
from cntk_core.plan.backflow import flow_back
from cntk_core.plan.explain import explain
from cntk_core.plan.interpreter import Interpreter
from cntk_core.plan.lengths import check_lengths
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import (
    AnyStep,
    Buffer,
    GradientStep,
    Loop,
    LoopGradient,
    Plan,
    Step,
    Target,
    derive_layout,
    derived_nodes,
    is_open,
    layout_of_root,
    makes_axis_by_values,
)
from cntk_core.plan.products import matrices as product_matrices
from cntk_core.plan.products import results as product_results
from cntk_core.plan.program import PlanProgram, is_total
from cntk_core.plan.sparse import is_sparse_product, label_inputs, sparse_inputs
from cntk_core.plan.stages import Meeting, Stage, check_axes, meetings_of, stages_of
from cntk_core.plan.streams import check_size, sparse_matrix
from cntk_core.plan.trees import Names, Tree, forward_trees, gradient_trees, path_of, rename_symbols, symbols_in_order
from cntk_core.plugins.events import EpochStart, EpochSummary, Job, JobOutcome, MinibatchResult
from cntk_core.plugins.markers import hookimpl
from cntk_core.plugins.registry import Registry
from cntk_core.training.background import BackgroundWorker, sum_by_rank
from cntk_core.training.mesh import Mesh
from cntk_core.training.mesh_communicator import MeshCommunicator
from cntk_core.training.mesh_meeting import Rendezvous, local_rank
from cntk_core.training.store import ParameterStore
from cntk_core.training.whereabouts import Whereabouts

ICNBuilder = NetworkBuilder
IDataReader = DataReader
IExecutionEngine = ExecutionEngine
ILearner = Learner

__all__ = [
    "API_VERSION",
    "CACHE_BYTES",
    "COMMAND_LINE",
    "DROPOUT_RATE",
    "LOG_ZERO",
    "PARAMETER_USES",
    "SMALLEST_DIVISOR",
    "TAIL",
    "TRAINS",
    "UNNORMALIZED",
    "Accumulator",
    "AnyStep",
    "ArrayMath",
    "Available",
    "Axes",
    "BackgroundWorker",
    "Block",
    "Buffer",
    "BuildContext",
    "BuildError",
    "Chunk",
    "ChunkInfo",
    "ChunkSource",
    "ChunkedReader",
    "CntkError",
    "Column",
    "Communicator",
    "Component",
    "CompositeSource",
    "Config",
    "ConfigError",
    "Content",
    "DataError",
    "DataReader",
    "DataWriter",
    "Document",
    "Elementwise",
    "EpochSpec",
    "EpochStart",
    "EpochSummary",
    "EvaluatedEntry",
    "ExecutionEngine",
    "Expr",
    "FixedValue",
    "FrameSource",
    "FromFile",
    "FromLiteral",
    "Geometry",
    "GradientAggregation",
    "GradientStep",
    "ICNBuilder",
    "IDataReader",
    "IExecutionEngine",
    "ILearner",
    "Initializer",
    "Input",
    "Interpreter",
    "Job",
    "JobOutcome",
    "Launcher",
    "Learner",
    "Location",
    "Loop",
    "LoopGradient",
    "Meeting",
    "Mesh",
    "MeshCommunicator",
    "Message",
    "Minibatch",
    "MinibatchResult",
    "MissingKeyError",
    "NamePattern",
    "Names",
    "Network",
    "NetworkBuilder",
    "NetworkError",
    "NetworkModel",
    "NoAttributes",
    "NoOptions",
    "Node",
    "Op",
    "OpContext",
    "OpTable",
    "OptionError",
    "Parallelizer",
    "Parameter",
    "ParameterStore",
    "Part",
    "Pending",
    "PendingRows",
    "PhonePath",
    "Piece",
    "Plan",
    "PlanProgram",
    "PluginUnavailableError",
    "Problems",
    "Program",
    "ProgramState",
    "Random",
    "RandomOrder",
    "RankGone",
    "RankMissing",
    "ReaderContext",
    "ReaderKeys",
    "Registry",
    "Rendezvous",
    "RowMaker",
    "Schedule",
    "SeedNumbers",
    "SequenceLayout",
    "SequenceOutput",
    "Shape",
    "ShapeError",
    "SimulatedRank",
    "Simulation",
    "SimulationPlan",
    "Slot",
    "SlotPlan",
    "SourceText",
    "SparseRows",
    "StackWeights",
    "Stage",
    "Statistics",
    "Step",
    "StepCounts",
    "StreamData",
    "StreamInfo",
    "SweepOrder",
    "Target",
    "TimeSpent",
    "TraceMath",
    "Traffic",
    "TrainingError",
    "Tree",
    "Truncation",
    "Unavailable",
    "UnsupportedError",
    "UpdateContext",
    "UpdateRule",
    "UtteranceKeys",
    "UtterancePartKeys",
    "UtteranceReader",
    "Value",
    "Watch",
    "Whereabouts",
    "Window",
    "WireSize",
    "WriterContext",
    "align",
    "at_least",
    "best_columns",
    "blend_share",
    "broadcast",
    "check_axes",
    "check_lengths",
    "check_links",
    "check_size",
    "check_statistics",
    "check_word_classes",
    "chunk_windows",
    "class_column",
    "clipped_log",
    "clone_nodes",
    "collect",
    "complete_network",
    "context_window",
    "convolution_geometry",
    "copy_inputs",
    "copy_nodes",
    "copy_sub_tree",
    "core_ops",
    "cosine_gradients",
    "cosines",
    "cut_chunks",
    "define_op",
    "delay_rows",
    "derive_layout",
    "derived_nodes",
    "did_you_mean",
    "duplicate",
    "elements",
    "elementwise_op",
    "explain",
    "fill_outside",
    "find_nodes",
    "flow_back",
    "forward_trees",
    "frame_layout",
    "freeze_statistics",
    "from_cntk",
    "gathered_places",
    "gradient_trees",
    "hookimpl",
    "image_pooling_geometry",
    "initial_rows",
    "initialize_parameters",
    "initializer",
    "is_delay",
    "is_legacy",
    "is_open",
    "is_sparse_product",
    "is_total",
    "keep_tail",
    "label_inputs",
    "last_sequence",
    "latest_frames",
    "layout_of_root",
    "legacy_pooling_geometry",
    "local_rank",
    "log_softmax",
    "longest_axes",
    "longest_sequence",
    "make_plan",
    "makes_axis_by_values",
    "math_of",
    "meetings_of",
    "nearest",
    "nodes_to_clone",
    "numbered",
    "option",
    "options",
    "paired",
    "paired_names",
    "parse_text",
    "path_of",
    "phone_path",
    "pooling_geometry",
    "product_matrices",
    "product_results",
    "quantized_product",
    "raise_problems",
    "random_stream",
    "read_source",
    "read_utterance_block",
    "read_utterance_part",
    "read_windows",
    "reader_slots",
    "reconciled_rows",
    "remove_nodes",
    "rename_nodes",
    "rename_symbols",
    "replace_node",
    "revise_parameter",
    "run_forward",
    "run_gradient",
    "same_sequences",
    "samples",
    "sequence_layout",
    "sequence_rows",
    "sequences_of",
    "set_input",
    "set_inputs",
    "set_learning_rate",
    "set_needs_gradient",
    "set_role",
    "settle_statistics",
    "sharing_of",
    "shift_of",
    "show",
    "skips_of",
    "slice_ranges",
    "slot_layout",
    "sparse_inputs",
    "sparse_matrix",
    "split_weights",
    "stages_of",
    "statistics_used",
    "stream_of",
    "sub_tree",
    "sum_by_rank",
    "symbol",
    "symbols_in_order",
    "to_cntk",
    "transposed_axes",
    "unbroadcast",
    "unpaired",
    "update_share",
    "users_of",
    "whole_sequences",
    "window_of",
    "with_lengths",
    "write_dump",
]
