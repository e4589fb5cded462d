"""Sequences as lines of CNTK's text format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def sequence_to_cntk_text_format(seq_idx: int, alias_tensor_map: Mapping[str, Any]) -> str:
    """Return the lines of a sequence in CNTK's text format.

    Args:
        seq_idx: its number, in front of each line.
        alias_tensor_map: for each stream an array ``(frames, ...)``, or a list with a dictionary ``{index: value}`` for
            each frame. Streams may have different lengths.

    Raises:
        ValueError: something else is given for a stream.
    """
    length = max(len(tensor) for tensor in alias_tensor_map.values())
    lines = []
    for frame in range(length):
        cells = [
            f"{alias} {_frame_text(tensor, frame)}"
            for alias, tensor in sorted(alias_tensor_map.items())
            if frame < len(tensor)
        ]
        lines.append(f"{seq_idx}\t|" + " |".join(cells))
    return "\n".join(lines)


def _frame_text(tensor: Any, frame: int) -> str:
    if _is_tensor(tensor):
        return " ".join(np.asarray(tensor[frame]).ravel().astype(str))
    if isinstance(tensor, list) and isinstance(tensor[0], dict):
        return " ".join(f"{index}:{value}" for index, value in sorted(tensor[frame].items()))
    raise ValueError(f"a stream is an array, or a list with a dictionary for each frame, not {type(tensor)}")


def _is_tensor(data: Any) -> bool:
    """Whether data are an array, or lists of lists of numbers."""
    if isinstance(data, np.ndarray):
        return True
    if not isinstance(data, list):
        return False
    while data:
        first = data[0]
        if isinstance(first, list):
            data = first
            continue
        return isinstance(first, int | float | np.number)
    return True
