"""DataReader: minibatches out of files, and the records that describe them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import attrs
import numpy as np

from cntk_core.config import Config
from cntk_core.contract.component import Component
from cntk_core.errors import CntkError, Location
from cntk_core.records.minibatch import Minibatch

SWEEP = 0
"""``epoch_size`` that means one sweep over the data."""

CACHE_BYTES = 512 * 1024 * 1024
"""Parsed data that a reader keeps, if its window has less."""


@attrs.frozen
class StreamInfo:
    """One stream that a reader offers: the name of the network input it feeds and its sample shape (memory order)."""

    name: str
    shape: tuple[int, ...]
    sparse: bool = False
    sequence: bool = False


@attrs.frozen
class EpochSpec:
    """Which part of the endless randomized timeline to read, and in what pieces.

    Attributes:
        epoch: index of the epoch, from 0. It starts at sample ``epoch * epoch_size`` of the timeline.
        epoch_size: samples; 0 is one sweep. Counted on the stream that defines the minibatch size.
        minibatch_size: samples of a minibatch over all ranks.
        max_samples: stop after this many samples although the epoch is longer (rate search); 0 is no limit.
        skip_samples: leave out this many samples at the start (resume inside an epoch).
        learned_samples: this rank's first so many samples were learned before: a reader may give minibatches within
            them without streams, so that it need not make these, but it gives them all.
        rank, ranks: this worker and how many there are; each reads its share.
    """

    epoch: int = 0
    epoch_size: int = SWEEP
    minibatch_size: int = 256
    max_samples: int = 0
    skip_samples: int = 0
    learned_samples: int = 0
    rank: int = 0
    ranks: int = 1


@attrs.frozen
class ReaderContext:
    """What a reader is told beside its options.

    Attributes:
        dtype: precision of the values (float32 or float64).
        inputs: network input name to sample shape in memory order. Empty when there is no network (data checks).
        for_writing: the write action wants file order.
        trace: function for information and warnings, one line each.
        general: what the reader's base class has read of the block for itself: see :meth:`DataReader.general_from`.
    """

    dtype: np.dtype[Any] = attrs.field(factory=lambda: np.dtype(np.float32))
    inputs: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    for_writing: bool = False
    trace: Any = None
    general: Any = None


class DataReader(Component):
    """Reads minibatches. Made as ``Reader(options, context)``; its ``settings`` are an instance of ``cls.options``."""

    core_keys: ClassVar[tuple[str, ...]] = ("readerType", "type", "module")
    general_keys: ClassVar[tuple[str, ...]] = ("randomize", "precision", "traceLevel", "verbosity")

    @classmethod
    def general_from(cls, block: Any, what: str) -> Any:
        """Read those of the ``general_keys`` that a base class of readers obeys itself; ``context.general`` has it.

        Args:
            block: the reader's block, a ``Config``.
            what: names the reader in errors.

        Raises:
            CntkError: one of the keys has a wrong value.
        """
        return None

    def __init__(self, options: Any, context: ReaderContext) -> None:
        self.settings = options
        self.context = context

    @classmethod
    def composed(cls, find: FindReader, name_of: ReaderName) -> type[DataReader]:
        """Return the class to configure where a recipe composes this reader of others; by default itself.

        Args:
            find: finds the class of another reader.
            name_of: says which reader a block asks for.
        """
        return cls

    @property
    @abstractmethod
    def streams(self) -> tuple[StreamInfo, ...]:
        """The streams that this reader offers, known without reading all data."""

    @abstractmethod
    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        """Yield the minibatches of an epoch. The same spec gives the same minibatches, whatever was read before."""

    def minibatch_factor(self, epoch: int) -> int:
        """Return how many times larger than ``minibatchSize`` a minibatch of an epoch is.

        In the original's old way of truncated training ``minibatchSize`` is the length of a piece, and the reader has
        several side by side; rates and momentum per minibatch belong to all of them.
        """
        return 1

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the data, without stopping at the first."""
        return iter(())

    def close(self) -> None:
        """Close files and end threads. May be called more than once."""


FindReader = Callable[[str, Location], type[DataReader]]
"""Finds a reader's class by its name in the recipe, and the place of the name."""

ReaderName = Callable[[Config], tuple[str, Location]]
"""Returns the name of the reader that a block asks for, and where it stands."""
