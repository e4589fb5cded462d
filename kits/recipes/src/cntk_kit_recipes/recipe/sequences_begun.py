"""The sequences of a minibatch as they are written."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from cntk_core.ops.language.reader_order import slot_rows
from cntk_core.records.layout import SequenceLayout


def unpack_sequences(data: NDArray[Any], layout: SequenceLayout) -> list[NDArray[Any]]:
    """Return the frames of each sequence that begins in the minibatch, in the order of ``layout.begins``."""
    rows = [slot_rows(layout, slot) for slot in range(layout.slots)]
    begins = [(slot, step) for slot, step in layout.begins.tolist()]
    found = []
    for (slot, step), (next_slot, next_step) in zip(begins, [*begins[1:], (-1, 0)], strict=False):
        found.append(data[rows[slot][step : next_step if next_slot == slot else None]])
    return found
