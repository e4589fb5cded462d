"""The size of a minibatch as CNTK counts it for momentum, clipping and regularisation: its columns, gaps included.

CNTK pads: a minibatch is a matrix of parallel rows as long as its longest sequence, and shorter sequences fill rows end
to end where they fit. Recipes were tuned with these numbers, so we count them although nothing is padded here.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

import numpy as np

from cntk_core.interfaces.layout import SequenceLayout
from cntk_core.interfaces.reader import Minibatch

_COLUMNS: WeakKeyDictionary[SequenceLayout, int] = WeakKeyDictionary()


def minibatch_columns(minibatch: Minibatch, features: Iterable[str]) -> int:
    """Return the columns of the widest feature stream, the number of samples if there is none."""
    names = {name.lower() for name in features}
    layouts = {data.layout: None for name, data in minibatch.streams.items() if name.lower() in names}
    return max((columns(layout) for layout in layouts), default=minibatch.samples)


def columns(layout: SequenceLayout) -> int:
    """Return how many columns CNTK's matrix of a layout has."""
    if layout.is_frames:
        return layout.frames
    found = _COLUMNS.get(layout)
    if found is None:
        found = _COLUMNS[layout] = _first_fit(layout)
    return found


def _first_fit(layout: SequenceLayout) -> int:
    """Put each sequence, in the reader's order, at the end of the first row that has room for it."""
    if len(layout.begins) != np.count_nonzero(layout.lengths) or layout.begins[:, 1].any() or layout.continues:
        return layout.slots * layout.steps  # slots of sequences end to end are such rows already
    rows: list[int] = []
    for length in layout.lengths[np.argsort(layout.order, kind="stable")].tolist():
        row = next((index for index, used in enumerate(rows) if used + length <= layout.steps), None)
        if row is None:
            rows.append(length)
        else:
            rows[row] += length
    return len(rows) * layout.steps
