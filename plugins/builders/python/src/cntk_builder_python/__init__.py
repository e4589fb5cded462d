"""Network builder for networks that a Python function describes with composable layers."""

from cntk_builder_python import sequence
from cntk_builder_python.attention import Attention
from cntk_builder_python.builder import PythonNetworkBuilder
from cntk_builder_python.cells import GRU, LSTM, Cell, RNNStep, RNNUnit
from cntk_builder_python.functions import (
    absolute,
    classification_error,
    cross_entropy_with_softmax,
    element_select,
    exp,
    hardmax,
    log,
    log_softmax,
    relu,
    sigmoid,
    softmax,
    splice,
    sqrt,
    squared_error,
    stop_gradient,
    tanh,
)
from cntk_builder_python.graph import Feedback, Graph, Term
from cntk_builder_python.layers import Dense, Dropout, Embedding, For, Layer, Sequential, Stabilizer
from cntk_builder_python.recurrence import (
    BiRecurrence,
    Delay,
    Fold,
    Recurrence,
    RecurrenceFrom,
    RecurrentLSTMLayer,
    RecurrentLSTMLayerStack,
)

__all__ = [
    "GRU",
    "LSTM",
    "Attention",
    "BiRecurrence",
    "Cell",
    "Delay",
    "Dense",
    "Dropout",
    "Embedding",
    "Feedback",
    "Fold",
    "For",
    "Graph",
    "Layer",
    "PythonNetworkBuilder",
    "RNNStep",
    "RNNUnit",
    "Recurrence",
    "RecurrenceFrom",
    "RecurrentLSTMLayer",
    "RecurrentLSTMLayerStack",
    "Sequential",
    "Stabilizer",
    "Term",
    "absolute",
    "classification_error",
    "cross_entropy_with_softmax",
    "element_select",
    "exp",
    "hardmax",
    "log",
    "log_softmax",
    "relu",
    "sequence",
    "sigmoid",
    "softmax",
    "splice",
    "sqrt",
    "squared_error",
    "stop_gradient",
    "tanh",
]
