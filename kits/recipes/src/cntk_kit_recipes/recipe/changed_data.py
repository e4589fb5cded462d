"""A reader whose minibatches plugins may replace (``cntk_minibatch_read``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from cntk_core.contract.events import MinibatchSource
from cntk_core.contract.reader import DataReader, EpochSpec, StreamInfo
from cntk_core.plugins.listening import passed_on
from cntk_core.records.minibatch import Minibatch
from cntk_kit_recipes.recipe.reader_around import ReaderAround


def with_changes(reader: DataReader, listeners: Sequence[Callable[..., Any]], source: MinibatchSource) -> DataReader:
    """Return a reader whose minibatches the listeners may replace; the reader itself if there are none.

    Args:
        reader: gives the minibatches.
        listeners: of ``cntk_minibatch_read``.
        source: what they are told; epoch and minibatch are filled in.
    """
    return ChangedReader(reader, listeners, source) if listeners else reader


class ChangedReader(ReaderAround):
    """Hands on what listeners make of the minibatches of a reader."""

    def __init__(self, reader: DataReader, listeners: Sequence[Callable[..., Any]], source: MinibatchSource) -> None:
        super().__init__(reader)
        self._listeners = listeners
        self._source = source

    @property
    def streams(self) -> tuple[StreamInfo, ...]:
        """The streams of the reader."""
        return self._reader.streams

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        """Yield what listeners make of the minibatches of an epoch; those that were learned before stay as they are."""
        read = 0
        for index, minibatch in enumerate(self._reader.minibatches(epoch)):
            read += minibatch.samples
            if not minibatch.streams or read <= epoch.learned_samples:
                yield minibatch
                continue
            source = attrs.evolve(self._source, epoch=epoch.epoch, minibatch=index)
            yield passed_on(self._listeners, "minibatch", source=source, minibatch=minibatch)
