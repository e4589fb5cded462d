"""Reading a file: our own as the network that it was made of, another's node by node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from cntk_core.api import CntkError, FindOp, ModelFormatError, Network, UnsupportedError
from cntk_core.api.builders import unsound
from cntk_model_onnx.own import network_of
from cntk_model_onnx.read.importer import Importer, Trial
from cntk_model_onnx.read.values import WHOLE
from cntk_model_onnx.wire import Read, damaged, read_model

_TRIALS = (Trial(0), Trial(1), Trial(WHOLE))

_SENSELESS = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, DecodeError)
"""What a graph that makes no sense makes Python say; texts of a message that are no text, for example, are bytes."""


def load(path: Path, find_op: FindOp, dtype: Any = None) -> Network:
    """Read a network.

    Raises:
        ModelFormatError: the file is damaged, or cannot be read.
        UnsupportedError: names all operations or nodes that cannot be read.
    """
    read = read_model(path)
    if not read.model.graph.output:
        raise damaged(path, "its graph has no outputs")
    try:
        return network_of(path, read, find_op, dtype) or _of_graph(path, read, find_op, dtype)
    except _SENSELESS:
        raise damaged(path, "its graph makes no sense") from None


def _of_graph(path: Path, read: Read, find_op: FindOp, dtype: Any) -> Network:
    refused: UnsupportedError | None = None
    for trial in _TRIALS:
        try:
            network = Importer(path, read, find_op, dtype, trial).run()
            network.infer()
            return network
        except UnsupportedError as error:
            refused = refused or error
        except ModelFormatError:
            raise
        except CntkError as error:
            raise unsound(path, error) from None
    assert refused is not None
    raise refused
