"""Progress, graphs and how much is told."""

from __future__ import annotations

from enum import Enum, unique
from typing import Any

from cntk._inherited import inherit
from cntk.logging.graph import (
    depth_first_search,
    find_all_with_name,
    find_by_name,
    find_by_uid,
    get_node_outputs,
    plot,
)
from cntk.logging.progress_print import (
    ProgressPrinter,
    TensorBoardProgressWriter,
    TrainingSummaryProgressCallback,
    log_number_of_parameters,
)
from cntk.logging.writers import ProgressWriter

__all__ = [
    "ProgressPrinter",
    "ProgressWriter",
    "TensorBoardProgressWriter",
    "TraceLevel",
    "TrainingSummaryProgressCallback",
    "depth_first_search",
    "find_all_with_name",
    "find_by_name",
    "find_by_uid",
    "get_node_outputs",
    "get_trace_level",
    "log_number_of_parameters",
    "plot",
    "set_trace_level",
]


@unique
class TraceLevel(Enum):
    """How much is told."""

    Error = 0
    Warning = 1
    Info = 2

    def __eq__(self, other: object) -> bool:
        return self is other if isinstance(other, TraceLevel) else self.value == other

    def __hash__(self) -> int:
        return hash(self.value)


_level = [TraceLevel.Warning.value]


def set_trace_level(value: Any) -> None:
    """Say how much is told: a :class:`TraceLevel` or its number."""
    _level[0] = value.value if isinstance(value, TraceLevel) else int(value)


def get_trace_level() -> int:
    """Return how much is told, as a number."""
    return _level[0]


inherit(__name__)
