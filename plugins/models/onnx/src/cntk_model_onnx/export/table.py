"""Which function writes which operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cntk_core.api import Node
from cntk_model_onnx.export.scope import Scope, Value

Write = Callable[[Scope, Node, Sequence[Value]], "str | Value"]
"""Write a node, whose inputs are given; return the tensor of its value."""

WRITERS: dict[str, Write] = {}
"""By the name of the operation."""

TAKES_INDEX: set[str] = set()
"""Operations whose second input may be the number of an element in place of one-hot samples."""

ALIASES = {"Pass", "StopGradient", "Dropout", "Trace"}
"""Operations that change nothing where nobody trains."""

REFUSED: dict[str, tuple[str, str]] = {
    "RandomSample": ("ONNX draws classes with replacement only", "Sample outside of the network."),
    "Assign": ("a file of ONNX keeps no state", "Remove the node: cntk edit."),
    "DynamicAxis": ("it is no value", ""),
    "CustomProxyOp": ("it stands for a function that is not there", "Write the node with other operations."),
    "LabelsToGraph": ("it belongs to training", ""),
    "ForwardBackward": ("it belongs to training", ""),
}
"""Operations that are never written: why, and what helps."""

REFUSED |= dict.fromkeys(
    (
        "AttentionMemory",
        "AttentionProducts",
        "BatchMoments",
        "ConvolutionData",
        "MaxUnpoolingGradient",
        "PoolingGradient",
        "PoolingTangent",
    ),
    ("it is part of a gradient", "Write the network without its derivatives."),
)


def writes(*names: str, index: bool = False) -> Callable[[Write], Write]:
    """Make a function the one that writes operations."""

    def add(function: Write) -> Write:
        WRITERS.update(dict.fromkeys(names, function))
        if index:
            TAKES_INDEX.update(names)
        return function

    return add
