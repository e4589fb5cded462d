"""Layers: functions with parameters, and functions of functions."""

from __future__ import annotations

from cntk._inherited import inherit
from cntk.layers import typing
from cntk.layers.blocks import (
    GRU,
    LSTM,
    BlockFunction,
    ForwardDeclaration,
    RNNStep,
    RNNUnit,
    Stabilizer,
    UntestedBranchError,
    identity,
)
from cntk.layers.convolutions import (
    AveragePooling,
    Convolution,
    Convolution1D,
    Convolution2D,
    Convolution3D,
    ConvolutionTranspose,
    ConvolutionTranspose1D,
    ConvolutionTranspose2D,
    ConvolutionTranspose3D,
    GlobalAveragePooling,
    GlobalMaxPooling,
    MaxPooling,
    MaxUnpooling,
    SequentialConvolution,
)
from cntk.layers.higher_order_layers import For, ResNetBlock, Sequential, SequentialClique
from cntk.layers.layers import (
    Activation,
    BatchNormalization,
    Dense,
    Dropout,
    Embedding,
    Label,
    LayerNormalization,
)
from cntk.layers.models import AttentionModel
from cntk.layers.sequence import Delay, Fold, PastValueWindow, Recurrence, RecurrenceFrom, UnfoldFrom
from cntk.layers.typing import (
    ParameterTensor,
    Sequence,
    SequenceOver,
    Signature,
    SparseTensor,
    Tensor,
    tensor,
)
from cntk.ops import sequence as sequence  # as there: not the module of this package
from cntk.ops.functions import Function

__all__ = [
    "GRU",
    "LSTM",
    "Activation",
    "AttentionModel",
    "AveragePooling",
    "BatchNormalization",
    "BlockFunction",
    "Convolution",
    "Convolution1D",
    "Convolution2D",
    "Convolution3D",
    "ConvolutionTranspose",
    "ConvolutionTranspose1D",
    "ConvolutionTranspose2D",
    "ConvolutionTranspose3D",
    "Delay",
    "Dense",
    "Dropout",
    "Embedding",
    "Fold",
    "For",
    "ForwardDeclaration",
    "Function",
    "GlobalAveragePooling",
    "GlobalMaxPooling",
    "Label",
    "LayerNormalization",
    "MaxPooling",
    "MaxUnpooling",
    "ParameterTensor",
    "PastValueWindow",
    "RNNStep",
    "RNNUnit",
    "Recurrence",
    "RecurrenceFrom",
    "ResNetBlock",
    "Sequence",
    "SequenceOver",
    "Sequential",
    "SequentialClique",
    "SequentialConvolution",
    "Signature",
    "SparseTensor",
    "Stabilizer",
    "Tensor",
    "UnfoldFrom",
    "UntestedBranchError",
    "identity",
    "tensor",
    "typing",
]

inherit(__name__)
