"""The size of a minibatch, as CNTK counts it: columns for the update, labelled samples for the criteria.

CNTK pads: a minibatch is a matrix of parallel rows as long as its longest sequence, and shorter sequences fill rows end
to end where they fit. Momentum, clipping and regularisation go by the columns of that matrix, gaps included. Recipes
were tuned with these numbers, so we count them although nothing is padded here.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np

from cntk_core.network.network import Network
from cntk_core.network.node import BATCH, Node
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch

_COLUMNS: WeakKeyDictionary[SequenceLayout, int] = WeakKeyDictionary()

UNCOUNTED = (
    "Warning: no input has the default dynamic axis, where CNTK counts samples: criteria show as 0 * 0. "
    "Give the labels the default axis to see them."
)


class MinibatchSizes:
    """Counts the minibatches of a network.

    Args:
        network: its inputs and roots tell which streams count.
        say: gets a line if nothing will be counted.
        criterion: what is minimised, where it is its samples that count and not those of the default dynamic axis.
        padded: columns are those of CNTK's matrix; otherwise gaps do not count, and columns are samples.
        frames: ``(node, minibatch) -> how many frames the node has``, for a criterion whose axis no input has.
    """

    def __init__(
        self,
        network: Network,
        say: Callable[[str], None] | None = None,
        *,
        criterion: Node | None = None,
        padded: bool = True,
        frames: Callable[[Node, Minibatch], int] | None = None,
    ) -> None:
        self.padded, self._frames = padded, frames
        axes = {node.axis for node in network.inputs if node.framed}
        axis = (BATCH if "" not in axes and BATCH in axes else "") if criterion is None else _axis_of(criterion)
        nodes = [] if criterion is None or axis in axes else network.order([criterion])
        self._computed = next((node for node in nodes if node.framed and node.axis == axis), None)
        self._found: WeakKeyDictionary[Minibatch, int] = WeakKeyDictionary()
        self._features = {node.name.lower() for node in network.roots["feature"]}
        self._counted = {node.name.lower() for node in network.inputs if node.framed and node.axis == axis}
        self._counts = bool(self._counted) or not network.inputs
        if not self._counts and say is not None:
            say(UNCOUNTED)

    def columns(self, minibatch: Minibatch) -> int:
        """Return the columns of the widest feature stream, the number of samples if there is none.

        What the reader says comes first.
        """
        if not self.padded:
            return self.samples(minibatch)
        if minibatch.columns is not None:
            return minibatch.columns
        found = [columns(data.layout) for name, data in minibatch.streams.items() if name.lower() in self._features]
        return max(found, default=minibatch.samples)

    def rows(self, minibatch: Minibatch) -> int:
        """Return how many sequences lie side by side in CNTK's matrix, end to end in a row where they fit."""
        named = minibatch.streams.items()
        layouts = (data.layout for name, data in named if name.lower() in self._features)
        return max((columns(layout) // max(layout.steps, 1) for layout in layouts), default=1)

    def samples(self, minibatch: Minibatch) -> int:
        """Return how many samples the criteria count: the frames on the default dynamic axis, or the criterion's.

        Where no input has that axis, these are inputs without sequences; if there are none either, CNTK counts nothing,
        and so do we.
        """
        if self._computed is not None and self._frames is not None:
            if minibatch not in self._found:
                self._found[minibatch] = self._frames(self._computed, minibatch)
            return self._found[minibatch]
        if not self._counts:
            return 0
        rows = [data.data.shape[0] for name, data in minibatch.streams.items() if name.lower() in self._counted]
        return max(rows, default=minibatch.samples)


def _axis_of(criterion: Node) -> str:
    """The dynamic axis whose samples a criterion sums over: that of the first input on the way down that has one."""
    level = [criterion]
    while level and not any(node.framed for node in level):
        level = [child for node in level for child in node.inputs]
    return next((node.axis for node in level if node.framed), "")


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
