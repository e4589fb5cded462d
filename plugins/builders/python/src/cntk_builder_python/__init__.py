"""Network builder for networks that a Python function describes with composable layers."""

from cntk_builder_python.builder import PythonNetworkBuilder
from cntk_builder_python.graph import Graph, Term
from cntk_builder_python.layers import (
    Dense,
    Dropout,
    Embedding,
    Layer,
    Sequential,
    absolute,
    classification_error,
    cross_entropy_with_softmax,
    exp,
    log,
    log_softmax,
    relu,
    sigmoid,
    softmax,
    sqrt,
    squared_error,
    tanh,
)

__all__ = [
    "Dense",
    "Dropout",
    "Embedding",
    "Graph",
    "Layer",
    "PythonNetworkBuilder",
    "Sequential",
    "Term",
    "absolute",
    "classification_error",
    "cross_entropy_with_softmax",
    "exp",
    "log",
    "log_softmax",
    "relu",
    "sigmoid",
    "softmax",
    "sqrt",
    "squared_error",
    "tanh",
]
