"""Names of the core that our own wheels' tests look at and that no door offers.

They stand here alone, so that a room of the core can change without a change in a wheel. Nothing of it is promised:
tests of wheels elsewhere use the doors of ``cntk_core.api`` and the suites of ``cntk_testing``.
"""

from __future__ import annotations

from cntk_core.model import Model
from cntk_core.network import model_file
from cntk_core.network.model_file import ModelInfo, load_model, read_model_info, save_model
from cntk_core.ops.families.alignment import EditDistanceAttributes, ForwardBackwardAttributes
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.cropping import CropAttributes
from cntk_core.ops.families.distances import NegativeSamplesAttributes
from cntk_core.ops.families.dropout import DropoutAttributes
from cntk_core.ops.families.lattice_sums import BY_NUMPY
from cntk_core.ops.families.lattices import read_lattices
from cntk_core.ops.families.leaves import EnvironmentInputAttributes
from cntk_core.ops.families.monitoring import TraceAttributes
from cntk_core.ops.families.normalization import BatchNormalizationAttributes
from cntk_core.ops.families.pooling import LegacyPoolingAttributes, PoolingAttributes, ROIPoolingAttributes
from cntk_core.ops.families.products import TIMES, TimesAttributes
from cntk_core.ops.families.quantized import QuantizedTimesAttributes
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.families.recurrent_stack import RNNStackAttributes
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.reshaping import LegacyReshapeAttributes, ReshapeAttributes, TransposeAttributes
from cntk_core.ops.families.sampling import RandomSampleAttributes
from cntk_core.ops.families.sequence_training import SEQUENCE_WITH_SOFTMAX, SequenceTrainingAttributes
from cntk_core.ops.families.sequences import ToSequenceAttributes, UnpackAttributes, WhereAttributes
from cntk_core.ops.families.shifting import ShiftAttributes
from cntk_core.ops.families.slicing import RepeatAttributes, SliceAttributes, StackAttributes
from cntk_core.ops.families.vocabulary import NoiseContrastiveAttributes
from cntk_core.ops.language.reader_order import pack, unpack
from cntk_core.plugins import addresses
from cntk_core.plugins.faults import fault_error
from cntk_core.plugins.registering import registrations_kept
from cntk_core.trust import trusting_nothing
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.sequences_begun import unpack_sequences
from cntk_kit_recipes.session.saving import Saver


def forget_addresses() -> None:
    """Be like a new process, which has not been told an address."""
    addresses._provider.cache_clear()
    addresses._used.clear()


__all__ = [
    "BY_NUMPY",
    "SEQUENCE_WITH_SOFTMAX",
    "TIMES",
    "ActionContext",
    "BatchNormalizationAttributes",
    "ConvolutionAttributes",
    "CropAttributes",
    "DelayAttributes",
    "DropoutAttributes",
    "EditDistanceAttributes",
    "EnvironmentInputAttributes",
    "ForwardBackwardAttributes",
    "LegacyPoolingAttributes",
    "LegacyReshapeAttributes",
    "Model",
    "ModelInfo",
    "NegativeSamplesAttributes",
    "NoiseContrastiveAttributes",
    "PoolingAttributes",
    "QuantizedTimesAttributes",
    "RNNStackAttributes",
    "ROIPoolingAttributes",
    "RandomSampleAttributes",
    "ReduceAttributes",
    "RepeatAttributes",
    "ReshapeAttributes",
    "Saver",
    "SequenceTrainingAttributes",
    "ShiftAttributes",
    "SliceAttributes",
    "StackAttributes",
    "TimesAttributes",
    "ToSequenceAttributes",
    "TraceAttributes",
    "TransposeAttributes",
    "UnpackAttributes",
    "WhereAttributes",
    "fault_error",
    "forget_addresses",
    "load_model",
    "model_file",
    "pack",
    "read_lattices",
    "read_model_info",
    "registrations_kept",
    "save_model",
    "trusting_nothing",
    "unpack",
    "unpack_sequences",
]
