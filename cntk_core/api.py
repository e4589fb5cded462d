"""The one module that a plugin imports. What is here is the plugin interface; its version is ``API_VERSION``."""

from cntk_core.config import (
    COMMAND_LINE,
    Config,
    Content,
    EvaluatedEntry,
    Schedule,
    SourceText,
    Value,
    option,
    options,
    parse_text,
    read_source,
)
from cntk_core.data.chunked import ChunkedReader
from cntk_core.data.composite import CompositeSource, FrameSource, Part
from cntk_core.data.makers import PendingRows, RowMaker
from cntk_core.data.randomize import Block, RandomOrder, SweepOrder, Window, chunk_windows
from cntk_core.data.slots import Piece, SlotPlan
from cntk_core.data.source import CACHE_BYTES, Chunk, ChunkInfo, ChunkSource, Column
from cntk_core.data.truncation import Truncation
from cntk_core.data.utterance_reader import UtteranceReader
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
    Problems,
    ShapeError,
    TrainingError,
    UnsupportedError,
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
from cntk_core.interfaces.reader import DataReader, EpochSpec, Minibatch, ReaderContext, StreamData, StreamInfo
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
from cntk_core.ops.convolution import convolution_geometry
from cntk_core.ops.define import define_op, elementwise_op
from cntk_core.ops.delays import fill_outside, keep_tail, shift_of
from cntk_core.ops.expression import ArrayMath, Expr, TraceMath, symbol
from cntk_core.ops.frame_moves import same_sequences
from cntk_core.ops.framing import align, run_forward, run_gradient, unbroadcast
from cntk_core.ops.geometry import Geometry, is_legacy
from cntk_core.ops.layouts import frame_layout, sequence_layout, slot_layout
from cntk_core.ops.normalization import Statistics, settle_statistics, statistics_used
from cntk_core.ops.op import Accumulator, Elementwise, NoAttributes, Op, OpContext
from cntk_core.ops.pooling import pooling_geometry
from cntk_core.ops.random import random_stream
from cntk_core.ops.rows import delay_rows, longest_sequence
from cntk_core.ops.shapes import Shape, broadcast, elements, from_cntk, longest_axes, show, to_cntk, with_lengths
from cntk_core.ops.sparse_rows import best_columns
from cntk_core.ops.table import OpTable, core_ops
from cntk_core.plan.explain import explain
from cntk_core.plan.lengths import check_lengths
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import (
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
from cntk_core.plan.sparse import is_sparse_product, label_inputs, sparse_inputs
from cntk_core.plugins.events import EpochStart, EpochSummary, Job, JobOutcome, MinibatchResult
from cntk_core.plugins.markers import hookimpl
from cntk_core.plugins.registry import Registry
from cntk_core.training.store import ParameterStore

ICNBuilder = NetworkBuilder
IDataReader = DataReader
IExecutionEngine = ExecutionEngine
ILearner = Learner

__all__ = [
    "API_VERSION",
    "CACHE_BYTES",
    "COMMAND_LINE",
    "PARAMETER_USES",
    "Accumulator",
    "ArrayMath",
    "Available",
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
    "Job",
    "JobOutcome",
    "Launcher",
    "Learner",
    "Location",
    "Loop",
    "LoopGradient",
    "Message",
    "Minibatch",
    "MinibatchResult",
    "MissingKeyError",
    "NamePattern",
    "Network",
    "NetworkBuilder",
    "NetworkError",
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
    "Piece",
    "Plan",
    "Problems",
    "Program",
    "ProgramState",
    "Random",
    "RandomOrder",
    "ReaderContext",
    "Registry",
    "RowMaker",
    "Schedule",
    "SeedNumbers",
    "SequenceLayout",
    "SequenceOutput",
    "Shape",
    "ShapeError",
    "Slot",
    "SlotPlan",
    "SourceText",
    "SparseRows",
    "Statistics",
    "Step",
    "StepCounts",
    "StreamData",
    "StreamInfo",
    "SweepOrder",
    "Target",
    "TraceMath",
    "TrainingError",
    "Truncation",
    "Unavailable",
    "UnsupportedError",
    "UpdateContext",
    "UpdateRule",
    "UtteranceReader",
    "Value",
    "Watch",
    "Window",
    "WriterContext",
    "align",
    "best_columns",
    "broadcast",
    "check_lengths",
    "check_links",
    "chunk_windows",
    "class_column",
    "clone_nodes",
    "complete_network",
    "convolution_geometry",
    "copy_inputs",
    "copy_nodes",
    "copy_sub_tree",
    "core_ops",
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
    "frame_layout",
    "freeze_statistics",
    "from_cntk",
    "hookimpl",
    "initialize_parameters",
    "initializer",
    "is_delay",
    "is_legacy",
    "is_open",
    "is_sparse_product",
    "keep_tail",
    "label_inputs",
    "layout_of_root",
    "longest_axes",
    "longest_sequence",
    "make_plan",
    "makes_axis_by_values",
    "nearest",
    "nodes_to_clone",
    "numbered",
    "option",
    "options",
    "paired_names",
    "parse_text",
    "pooling_geometry",
    "raise_problems",
    "random_stream",
    "read_source",
    "read_windows",
    "remove_nodes",
    "rename_nodes",
    "replace_node",
    "revise_parameter",
    "run_forward",
    "run_gradient",
    "same_sequences",
    "sequence_layout",
    "set_input",
    "set_inputs",
    "set_learning_rate",
    "set_needs_gradient",
    "set_role",
    "settle_statistics",
    "shift_of",
    "show",
    "slot_layout",
    "sparse_inputs",
    "statistics_used",
    "sub_tree",
    "symbol",
    "to_cntk",
    "unbroadcast",
    "users_of",
    "with_lengths",
    "write_dump",
]
