"""The door for plugins: the contract, and what every author needs. Its version is ``API_VERSION``.

Authors of one kind find more in a kit of their own, each with a version of its own: :mod:`cntk_core.api.readers`,
:mod:`cntk_core.api.engines`, :mod:`cntk_core.api.builders` and :mod:`cntk_core.api.parallel`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cntk_core.config import Config, Schedule, Value, at_least, option, options
from cntk_core.contract.action import Action, ActionContext, RunLog
from cntk_core.contract.builder import BuildContext, NetworkBuilder
from cntk_core.contract.cache import Cache, CacheState
from cntk_core.contract.component import API_VERSION, Available, Component, NoOptions, Unavailable
from cntk_core.contract.engine import ExecutionEngine
from cntk_core.contract.events import (
    EpochStart,
    EpochSummary,
    EvaluationResult,
    Job,
    JobOutcome,
    MinibatchResult,
    MinibatchSource,
    UpdateStep,
)
from cntk_core.contract.initializer import InitializerSettings, ParameterInitializer
from cntk_core.contract.learner import Learner, Slot, UpdateContext, UpdateRule
from cntk_core.contract.model_format import ModelFormat
from cntk_core.contract.parallel import Communicator, GradientAggregation, Parallelizer
from cntk_core.contract.reader import DataReader, EpochSpec, ReaderContext, StreamInfo
from cntk_core.contract.store import ParameterStore
from cntk_core.contract.writer import DataWriter, SequenceOutput, SparseRows, WriterContext
from cntk_core.errors import (
    BuildError,
    CheckpointError,
    CntkError,
    ConfigError,
    DataError,
    Location,
    MissingKeyError,
    MissingPluginError,
    ModelFormatError,
    NetworkError,
    OptionError,
    PluginError,
    PluginUnavailableError,
    Problems,
    RankGone,
    RankMissing,
    ShapeError,
    TrainingError,
    UnsupportedError,
    UsageError,
    collect,
    did_you_mean,
    nearest,
    raise_problems,
)
from cntk_core.network.inference import is_delay
from cntk_core.network.initializers import Initializer
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.kernel import Kernel, kernel
from cntk_core.ops.language.define import define_op, elementwise_op
from cntk_core.ops.language.expression import ArrayMath
from cntk_core.ops.language.op import Accumulator, Elementwise, NoAttributes, Op, OpContext
from cntk_core.ops.language.random import random_stream
from cntk_core.ops.language.shapes import Shape, elements, from_cntk, show, to_cntk
from cntk_core.ops.language.traits import BY_ROWS, MatrixProduct, Traits
from cntk_core.ops.table import FindOp, core_ops
from cntk_core.plugins.markers import hookimpl
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_core.trust import RefusedError, ask_to_load, ask_to_run, ask_to_write

if TYPE_CHECKING:  # as _LATER says
    from cntk_core.contract.dataset import Dataset, DatasetProgress
    from cntk_core.contract.local_rank import local_rank
    from cntk_core.contract.schedule import EpochSchedule
    from cntk_core.contract.user_learner import ParameterUpdate, UserLearner
    from cntk_core.contract.verb import Verb
    from cntk_core.model import Model
    from cntk_core.ops.families.outputs import define_outputs
    from cntk_core.plan.plan import Plan
    from cntk_core.plugins.addresses import deliver, local_path, with_addresses
    from cntk_core.plugins.registering import register, unregister
    from cntk_core.plugins.registry import Registry

__all__ = [
    "API_VERSION",
    "BY_ROWS",
    "Accumulator",
    "Action",
    "ActionContext",
    "ArrayMath",
    "Available",
    "BuildContext",
    "BuildError",
    "Cache",
    "CacheState",
    "CheckpointError",
    "CntkError",
    "Communicator",
    "Component",
    "Config",
    "ConfigError",
    "DataError",
    "DataReader",
    "DataWriter",
    "Dataset",
    "DatasetProgress",
    "Elementwise",
    "EpochSchedule",
    "EpochSpec",
    "EpochStart",
    "EpochSummary",
    "EvaluationResult",
    "ExecutionEngine",
    "FindOp",
    "GradientAggregation",
    "Initializer",
    "InitializerSettings",
    "Input",
    "Job",
    "JobOutcome",
    "Kernel",
    "Learner",
    "Location",
    "MatrixProduct",
    "Minibatch",
    "MinibatchResult",
    "MinibatchSource",
    "MissingKeyError",
    "MissingPluginError",
    "Model",
    "ModelFormat",
    "ModelFormatError",
    "Network",
    "NetworkBuilder",
    "NetworkError",
    "NoAttributes",
    "NoOptions",
    "Node",
    "Op",
    "OpContext",
    "OptionError",
    "Parallelizer",
    "Parameter",
    "ParameterInitializer",
    "ParameterStore",
    "ParameterUpdate",
    "Plan",
    "PluginError",
    "PluginUnavailableError",
    "Problems",
    "RankGone",
    "RankMissing",
    "ReaderContext",
    "RefusedError",
    "Registry",
    "RunLog",
    "Schedule",
    "SequenceLayout",
    "SequenceOutput",
    "Shape",
    "ShapeError",
    "Slot",
    "SparseRows",
    "StreamData",
    "StreamInfo",
    "TrainingError",
    "Traits",
    "Unavailable",
    "UnsupportedError",
    "UpdateContext",
    "UpdateRule",
    "UpdateStep",
    "UsageError",
    "UserLearner",
    "Value",
    "Verb",
    "WriterContext",
    "ask_to_load",
    "ask_to_run",
    "ask_to_write",
    "at_least",
    "collect",
    "core_ops",
    "define_op",
    "define_outputs",
    "deliver",
    "did_you_mean",
    "elements",
    "elementwise_op",
    "from_cntk",
    "hookimpl",
    "is_delay",
    "kernel",
    "local_path",
    "local_rank",
    "nearest",
    "option",
    "options",
    "raise_problems",
    "random_stream",
    "register",
    "show",
    "to_cntk",
    "unregister",
    "with_addresses",
]

_LATER = {
    "Dataset": "cntk_core.contract.dataset",
    "DatasetProgress": "cntk_core.contract.dataset",
    "EpochSchedule": "cntk_core.contract.schedule",
    "Model": "cntk_core.model",
    "ParameterUpdate": "cntk_core.contract.user_learner",
    "Plan": "cntk_core.plan.plan",
    "Registry": "cntk_core.plugins.registry",
    "UserLearner": "cntk_core.contract.user_learner",
    "Verb": "cntk_core.contract.verb",
    "define_outputs": "cntk_core.ops.families.outputs",
    "deliver": "cntk_core.plugins.addresses",
    "local_path": "cntk_core.plugins.addresses",
    "local_rank": "cntk_core.contract.local_rank",
    "register": "cntk_core.plugins.registering",
    "unregister": "cntk_core.plugins.registering",
    "with_addresses": "cntk_core.plugins.addresses",
}
"""Names that are imported when somebody asks for them: a plugin needs them seldom, or for types alone."""

if not TYPE_CHECKING:  # a type checker shall find a name that is not here

    def __getattr__(name: str) -> Any:
        """Return a name that is imported late; or one that stood here once, with a warning.

        Raises:
            AttributeError: there is no such name.
        """
        if name in _LATER:
            globals()[name] = getattr(import_module(_LATER[name]), name)
            return globals()[name]
        from cntk_core.api.retired import retired

        return retired(__name__, name)
