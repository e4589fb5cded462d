"""Nodes as text: what the action dumpNodes and the model editing language write.

The original puts a blank in front of each piece of text that it writes, line ends included; tools read these files, so
ours have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.network.files import write_file
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.shapes import show, to_cntk
from cntk_kit_builders.dump_geometry import geometry_pieces

_RULE = "#" * 68


def dump(nodes: Iterable[Node], *, values: bool = True, metadata: bool = True) -> Iterator[str]:
    """Yield the text of nodes, piece by piece."""
    for node in nodes:
        yield from (f" {piece}" for piece in _pieces(node, values, metadata))


def _pieces(node: Node, values: bool, metadata: bool) -> Iterator[str]:
    if metadata:
        yield f"\n{node.name}={node.op.name}"
        yield from _metadata(node)
    yield from geometry_pieces(node, metadata)
    if values and (isinstance(node, Parameter) or (node.op.role == "precompute" and node.value is not None)):
        if metadata:
            yield "\n"
        assert node.value is not None, f"{node.name} has no value"
        yield from _matrix(as_matrix(node.value))
        if metadata:
            yield _RULE


def _metadata(node: Node) -> Iterator[str]:
    shape = node.known_shape
    if isinstance(node, Input):
        yield "["
        yield " x ".join(str(dim) for dim in to_cntk(shape))
        yield "]"
        return
    if isinstance(node, Parameter):
        rows, columns = as_matrix(np.empty(shape, np.bool_)).shape
        yield f"[{rows},{columns}]  "
        rate = node.learning_rate_multiplier if node.needs_gradient else 0.0
        yield f"learningRateMultiplier={rate:f}  NeedsGradient={'true' if rate > 0 else 'false'}"
        return
    yield "("
    for index, child in enumerate(node.inputs):
        if index:
            yield ","
        yield child.name
    yield ")"
    if node.op.role == "precompute":
        yield f"{show(shape)}  "
        yield f"HasComputed={'true' if node.value is not None else 'false'}"


def as_matrix(value: NDArray[Any]) -> NDArray[Any]:
    """Return a value as the original shows it: CNTK's first dimension down, all others across."""
    return value.reshape(-1, value.shape[-1]).T if value.ndim else value.reshape(1, 1)


def _matrix(matrix: NDArray[Any]) -> Iterator[str]:
    digits = "%.9g" if matrix.dtype == np.float32 else "%.17g"
    row_format = " ".join([digits] * matrix.shape[1])
    for row in matrix:
        yield row_format % tuple(row.tolist())
        yield "\n"


def write_dump(nodes: Iterable[Node], path: Path, *, values: bool = True, metadata: bool = True) -> None:
    """Write the text of nodes to a file in one step.

    Raises:
        OSError: the file cannot be written; an old one is untouched.
    """
    write_file(path, (piece.encode() for piece in dump(nodes, values=values, metadata=metadata)))
