"""Targets of labels: the file that ``labelToTargetMappingFile`` names, a row of zeros and ones for each state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cntk_core.api import DataError, Location
from cntk_reader_htk.scp import read_lines


def read_targets(path: Path, states: Mapping[str, int], dim: int, where: Location | None, max_line_bytes: int) -> Any:
    """Read lines of a state, a blank, and its target in zeros and ones, in the order of the state list.

    Args:
        path: the file.
        states: name to number of class.
        dim: elements of a target, ``targetDim``.
        where: the place in the recipe that names the file.
        max_line_bytes: a longer line is refused.

    Returns:
        A sparse matrix ``(states, dim)`` of zeros and ones.

    Raises:
        DataError: the file cannot be read, or does not belong to the states.
    """
    from scipy.sparse import csr_array

    names = list(states)
    rows: list[np.ndarray[Any, Any]] = []
    for number, line in read_lines(path, where, "targets of labels", max_line_bytes):
        place = Location(str(path), number)
        name, _, text = line.partition(" ")
        target = text.strip()
        expected = names[len(rows)] if len(rows) < len(names) else None
        if name != expected:
            wanted = (
                "the state list has no more states" if expected is None else f"the state list has '{expected}' here"
            )
            raise DataError(f"state '{name}', but {wanted}", where=place, hint="Both files have the same order.")
        if set(target) - {"0", "1"} or len(target) != dim:
            raise DataError(
                f"the target of state '{name}' must be {dim} zeros and ones, not '{target[:40]}'",
                where=place,
                hint="targetDim says how many; there are no blanks between them.",
            )
        rows.append(np.frombuffer(target.encode(), dtype=np.uint8) - ord("0"))
    if len(rows) < len(names):
        text = f"there are targets of {len(rows)} states, and the state list has {len(names)}"
        raise DataError(text, where=Location(str(path)))
    return csr_array(np.stack(rows))
