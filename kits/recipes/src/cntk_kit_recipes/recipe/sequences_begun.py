"""The sequences of a minibatch as they are written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.network.node import Node
from cntk_core.ops.language.reader_order import slot_rows
from cntk_core.ops.language.rows import reader_slots
from cntk_core.records.layout import SequenceLayout
from cntk_kit_recipes.recipe.formatting import SequenceValue


def sequences_of(node: Node, value: NDArray[Any], layout: SequenceLayout | None) -> list[SequenceValue]:
    """Return a node's values sequence by sequence in the reader's order, ``(frames, elements)`` each.

    Args:
        node: whose values they are.
        value: ``(frames, *shape)``, or ``shape`` of a node without dynamic axis.
        layout: of its dynamic axis; None if it has none.
    """
    if layout is None:
        columns = value.reshape(-1, value.shape[-1] if value.ndim else 1)
        return [SequenceValue(0, "", columns)]
    rows = value.reshape(len(value), -1)
    if layout.is_frames and not layout.keys:
        return [SequenceValue(index, "", rows[index : index + 1]) for index in np.argsort(layout.order).tolist()]
    found = unpack_sequences(rows, layout)
    keys = [str(key) for key in layout.keys] or [""] * len(found)
    places = reader_slots(layout)[layout.begins[:, 0]]
    order = np.lexsort((layout.begins[:, 1], places))
    return [SequenceValue(number, keys[index], found[index]) for number, index in enumerate(order.tolist())]


def unpack_sequences(data: NDArray[Any], layout: SequenceLayout) -> list[NDArray[Any]]:
    """Return the frames of each sequence that begins in the minibatch, in the order of ``layout.begins``."""
    rows = [slot_rows(layout, slot) for slot in range(layout.slots)]
    begins = [(slot, step) for slot, step in layout.begins.tolist()]
    found = []
    for (slot, step), (next_slot, next_step) in zip(begins, [*begins[1:], (-1, 0)], strict=False):
        found.append(data[rows[slot][step : next_step if next_slot == slot else None]])
    return found
