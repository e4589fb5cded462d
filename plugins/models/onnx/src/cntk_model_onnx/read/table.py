"""Which function reads which operation of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onnx import NodeProto

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer
    from cntk_model_onnx.read.values import Value

Read = Callable[["Importer", NodeProto, "Sequence[Value | None]"], "Value | Sequence[Value]"]
"""Read a node, whose inputs are given (None is one that is left out); return the value of its first output, or all."""

READERS: dict[str, Read] = {}


def reads(*names: str) -> Callable[[Read], Read]:
    """Make a function the one that reads operations."""

    def add(function: Read) -> Read:
        READERS.update(dict.fromkeys(names, function))
        return function

    return add
