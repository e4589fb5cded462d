"""What our own files have beside the graph: the network as it was, so that it is read back without loss.

Constant tensors of the graph that have the name of a node are its values. The graph's digest tells whether somebody has
changed it since; then it is the graph that counts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from cntk_core.api import CntkError, FindOp, ModelFormatError, Network
from cntk_core.api.builders import network_content, network_of_content
from cntk_model_onnx.export.exporter import Exported
from cntk_model_onnx.wire import Read

Array = NDArray[Any]

PREFIX = "cntk."
_DIGEST, _OTHERS = f"{PREFIX}graph", f"{PREFIX}others"
_MOST_OTHERS = 1 << 28
"""So many bytes of values that the graph does not have are kept; a network with more is read back as its graph."""


def describe(exported: Exported, network: Network) -> None:
    """Add to a file what it takes to read the network back."""
    arrays, metadata = network_content(network)
    others = {name: array for name, array in arrays.items() if exported.tensors.get(name) is not array}
    if sum(array.nbytes for array in others.values()) > _MOST_OTHERS:
        return
    entries = {f"{PREFIX}{key}": value for key, value in metadata.items()}
    entries[_OTHERS] = json.dumps({name: _encoded(array) for name, array in others.items()})
    entries[_DIGEST] = digest(exported.model)
    for key, value in entries.items():
        exported.model.metadata_props.add(key=key, value=value)


def digest(model: ModelProto) -> str:
    """Return what tells the nodes, inputs and outputs of a graph from others."""
    graph = model.graph
    found = hashlib.sha256()
    for part in (*graph.node, *graph.input, *graph.output):
        found.update(part.SerializeToString(deterministic=True))
    return found.hexdigest()


def _encoded(array: Array) -> list[Any]:
    return [array.dtype.str, list(array.shape), base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()]


def _decoded(entry: Any) -> Array:
    kind, shape, content = entry
    if kind not in ("<f4", "<f8"):
        raise ValueError(kind)
    return np.frombuffer(base64.b64decode(content), kind).reshape(shape).copy()


def network_of(path: Path, read: Read, find_op: FindOp, dtype: Any) -> Network | None:
    """Return the network that a file of ours was made of; None if it is none of ours, or was changed.

    Raises:
        ModelFormatError: what it says of the network makes no sense.
    """
    given = {entry.key: entry.value for entry in read.model.metadata_props if entry.key.startswith(PREFIX)}
    if given.get(_DIGEST) != digest(read.model):
        return None
    metadata = {key.removeprefix(PREFIX): value for key, value in given.items() if key not in (_DIGEST, _OTHERS)}
    try:
        arrays: Mapping[str, Array] = {
            **{name: array for name, array in read.tensors.items() if array.dtype.kind == "f"},
            **{name: _decoded(entry) for name, entry in json.loads(given[_OTHERS]).items()},
        }
        return network_of_content(path, arrays, metadata, find_op, dtype)
    except CntkError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ModelFormatError(f"'{path}' is damaged: what it says of its network makes no sense") from None
