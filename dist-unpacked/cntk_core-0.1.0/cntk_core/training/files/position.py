"""Where inside an epoch training is: what a checkpoint between two minibatches has beside that of a whole epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.engine import ProgramState
from cntk_core.errors import CheckpointError

ARRAY, TUPLE = "array", "tuple"


@attrs.frozen(eq=False)
class Position:
    """A place between two minibatches of an epoch.

    Attributes:
        minibatches: of the epoch, learned.
        passes: computations of the program in them (parts of minibatches are several); they key its random streams.
        samples: that the criteria count in them.
        read: that the reader of this rank counts in them.
        read_by_all: that the readers of all ranks count; of those that learn as one, where ranks learn apart.
        rate: learning rate per sample of the epoch.
        minibatch_size: of the epoch.
        may_fail: whether a criterion that is not a number is rolled back.
        sums: of the criteria, by name, as far as they were fetched from the program.
        shown: sums and samples of the criteria at the last log line, by name.
        shown_at: minibatches at the last log line.
        seconds: that the epoch has taken.
        program: what the program takes along.
    """

    minibatches: int
    passes: int
    samples: int
    read: int
    read_by_all: int
    rate: float
    minibatch_size: int
    may_fail: bool
    sums: Mapping[str, float]
    shown: Mapping[str, tuple[float, int]]
    shown_at: int
    seconds: float
    program: ProgramState

    @classmethod
    def of_steps(cls, minibatches: int, passes: int, read: int, program: ProgramState) -> Position:
        """Return the place after so many minibatches that a program has brought; the rest it keeps by itself."""
        return cls(minibatches, passes, 0, read, read, 0.0, 0, False, {}, {}, 0, 0.0, program)

    def entries(self) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        """Return it as numbers and texts for a file, and the arrays that these refer to by their number."""
        arrays: list[NDArray[Any]] = []
        found = {field.name: getattr(self, field.name) for field in attrs.fields(Position) if field.name != "program"}
        found["totals"] = dict(self.program.totals)
        found["carried"] = {
            node: {name: _encode(value, arrays) for name, value in kept.items()}
            for node, kept in self.program.carried.items()
        }
        return found, arrays

    @classmethod
    def of(cls, entries: Mapping[str, Any], arrays: Mapping[int, NDArray[Any]]) -> Position:
        """Make it of :meth:`entries`.

        Raises:
            CheckpointError: an entry is missing or makes no sense.
        """
        try:
            carried = {
                str(node): {str(name): _decode(value, arrays) for name, value in kept.items()}
                for node, kept in entries["carried"].items()
            }
            return cls(
                minibatches=int(entries["minibatches"]),
                passes=int(entries["passes"]),
                samples=int(entries["samples"]),
                read=int(entries["read"]),
                read_by_all=int(entries.get("read_by_all", entries["read"])),
                rate=float(entries["rate"]),
                minibatch_size=int(entries["minibatch_size"]),
                may_fail=bool(entries["may_fail"]),
                sums=_numbers(entries["sums"]),
                shown={str(name): (float(total), int(count)) for name, (total, count) in entries["shown"].items()},
                shown_at=int(entries["shown_at"]),
                seconds=float(entries["seconds"]),
                program=ProgramState(carried, _numbers(entries["totals"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise CheckpointError("the checkpoint is damaged: its place in the epoch makes no sense") from None


def _numbers(entries: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in entries.items()}


def _encode(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {TUPLE: [_encode(part, arrays) for part in value]}
    found = np.asarray(value)
    if found.dtype == np.object_:
        raise CheckpointError(f"a value of {type(value).__name__} that a node keeps cannot be saved")
    arrays.append(np.ascontiguousarray(found).reshape(found.shape or (1,)))
    return {ARRAY: len(arrays) - 1, "shape": list(found.shape)}


def _decode(entry: Any, arrays: Mapping[int, NDArray[Any]]) -> Any:
    if not isinstance(entry, dict):
        return entry
    if TUPLE in entry:
        return tuple(_decode(part, arrays) for part in entry[TUPLE])
    return np.array(arrays[int(entry[ARRAY])]).reshape([int(size) for size in entry["shape"]])
