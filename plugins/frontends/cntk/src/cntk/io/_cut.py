"""Sequences cut into pieces that go on from one minibatch to the next, as truncated training wants them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from cntk._graph.errors import told
from cntk._graph.pieces import fitted
from cntk.io._data import MinibatchData
from cntk_core.api import EpochSpec, Minibatch, StreamData
from cntk_core.api.readers import ChunkedReader

if TYPE_CHECKING:
    from cntk.variables import Variable

_FAR = 1 << 62


class CutTimeline:
    """Reads pieces of sequences; there are as many side by side as fit into the first minibatch.

    Args:
        reader: that cuts them.
        sweeps: how many sweeps there are; None is no end.
        samples: how many samples the sequences that are begun have; None is no end.

    Attributes:
        position: samples before the next minibatch; may be set.
        ends_sweep: whether a sweep ended in the last minibatch.
    """

    def __init__(self, reader: ChunkedReader, *, sweeps: int | None, samples: int | None) -> None:
        self._reader, self._sweeps, self._samples = reader, sweeps, samples
        self._size = 0
        self._read = 0
        self._minibatches: Iterator[Minibatch] | None = None
        self.position = 0
        self.ends_sweep = False

    @property
    def is_endless(self) -> bool:
        """Whether there is no end."""
        return self._sweeps is None and self._samples is None

    def take(self, size: int, part: int = 0, parts: int = 1) -> Minibatch | None:
        """Return the next piece of all sequences that lie side by side; None at the end.

        Args:
            size: samples, of all parts; it counts when the first minibatch is read.
            part, parts: which of the sequences that lie side by side are read: every so many.

        Raises:
            GraphError: the data cannot be read.
        """
        with told():
            if self._minibatches is None or self._read != self.position:
                self._size = self._size or size
                self._minibatches = iter(self._reader.minibatches(self._epoch(part, parts)))
            found = next(self._minibatches, None)
        if found is not None:
            sweep, before = self._reader.order().samples, self.position
            self.position += found.samples
            self.ends_sweep = self.position // sweep > before // sweep
        self._read = self.position
        return found

    def _epoch(self, part: int, parts: int) -> EpochSpec:
        ends = [_FAR if self._samples is None else self._samples]
        ends.append(_FAR if self._sweeps is None else self._sweeps * self._reader.order().samples)
        return EpochSpec(
            epoch_size=min(ends), minibatch_size=self._size, skip_samples=self.position, rank=part, ranks=parts
        )


class CutData(MinibatchData):
    """The pieces of a stream in a minibatch.

    Args:
        packed: as the core has them: sequences may lie end to end, and go on from the minibatch before.
        shape: of a sample.
        sweep_end: a sweep over the data ends here.
    """

    def __init__(self, packed: StreamData, shape: tuple[int, ...], *, sweep_end: bool) -> None:
        layout = packed.layout
        begun = set(layout.begins[layout.begins[:, 1] == 0, 0].tolist())
        going_on = sum(1 for slot, length in enumerate(layout.lengths.tolist()) if length and slot not in begun)
        super().__init__(None, len(layout.begins) + going_on, layout.frames, sweep_end)
        self._packed, self._shape = packed, shape

    def sequences(self) -> list[Any]:
        """Return the frames that lie side by side, as the reader has them."""
        layout = self._packed.layout
        found: list[Any] = [None] * layout.slots
        for slot, place in enumerate(np.argsort(np.argsort(layout.order)).tolist()):
            found[place] = self._packed.data[layout.start[: layout.lengths[slot]] + slot]
        return found

    @property
    def is_sparse(self) -> bool:
        """Whether the data are sparse."""
        return self._packed.sparse

    def for_variable(self, variable: Variable) -> Any:
        """Return the data as a trainer takes them."""
        return StreamData(fitted(variable, self._packed.data), self._packed.layout)
