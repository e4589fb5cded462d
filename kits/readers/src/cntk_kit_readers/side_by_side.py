"""Several readers side by side, the older way of composing: ``readers=a:b ; a=[...] ; b=[...]``.

The sequences belong together by their place in the data. Readers of chunks share one order, that of the first; others
are read in step, each in its own order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from typing import Any, ClassVar

import attrs

from cntk_core.config import Config, option, options
from cntk_core.contract.reader import DataReader, EpochSpec, FindReader, ReaderContext, ReaderName, StreamInfo
from cntk_core.errors import CntkError, ConfigError, DataError, Location, WrongResult, raise_problems, shown
from cntk_core.records.minibatch import Minibatch
from cntk_kit_readers.chunked import ChunkedReader
from cntk_kit_readers.composite import Part
from cntk_kit_readers.composite_reader import PartOptions
from cntk_kit_readers.numbered import ParallelSource


@options
class SeveralKeys:
    """The keys of the block around the readers' own."""

    readers: tuple[str, ...] = option(doc="Names of the sub-blocks, one for each reader.")


@options
class SeveralOptions:
    """Everything that a recipe says: one entry for each reader."""

    parts: tuple[PartOptions, ...] = attrs.field()
    where: Location | None = None


class SeveralReaders(DataReader):
    """Reads minibatches that have the streams of all its readers."""

    options: ClassVar[type] = SeveralOptions
    requires_api: ClassVar[str] = "1.0"
    general_keys: ClassVar[tuple[str, ...]] = ()  # the readers look them up here

    def __init__(self, options: SeveralOptions, context: ReaderContext) -> None:
        super().__init__(options, context)
        with ExitStack() as stack:
            self._readers: list[DataReader] = []
            for part in options.parts:
                self._readers.append(part.open(context))
                stack.callback(self._readers[-1].close)
            _check_names(options, self._readers)
            stack.pop_all()
        self._joined = self._join()

    @classmethod
    def composed(cls, find: FindReader, name_of: ReaderName) -> type[DataReader]:
        """Return the class of readers side by side that looks its readers up with ``find``."""
        return several_class(find, name_of)

    def _join(self) -> ChunkedReader | None:
        """Return one reader for all if they are readers of chunks."""
        chunked = [reader for reader in self._readers if isinstance(reader, ChunkedReader)]
        if len(chunked) < len(self._readers):
            return None
        parts = [
            Part(reader.source, tuple(stream.name for stream in reader.streams), reader.expands) for reader in chunked
        ]
        return chunked[0].over(ParallelSource(parts, self._titles), self.streams)

    @property
    def _titles(self) -> list[str]:
        return [f"reader '{part.name}'" for part in self.settings.parts]

    @property
    def streams(self) -> tuple[StreamInfo, ...]:
        """The streams of all readers."""
        return tuple(stream for reader in self._readers for stream in reader.streams)

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        """Yield the minibatches of an epoch; the first reader counts the samples."""
        return self._in_step(epoch) if self._joined is None else self._joined.minibatches(epoch)

    def _in_step(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        whole = attrs.evolve(epoch, learned_samples=0)  # not all readers leave out the same streams
        iterators = [_begun(reader, whole) for reader in self._readers]
        for number, found in enumerate(zip_longest(*iterators), start=1):
            counts = list(map(_sequences, self._readers, found))
            for title, count in zip(self._titles[1:], counts[1:], strict=True):
                if count != counts[0]:
                    raise DataError(
                        f"minibatch {number} of the epoch has {_told(counts[0])} in {self._titles[0]}, "
                        f"but {_told(count)} in {title}",
                        where=self.settings.where,
                        hint="Readers side by side need the same sequences, in the same order and groups.",
                    )
            streams = {name: stream for one in found for name, stream in one.streams.items()}
            yield Minibatch(streams, found[0].samples)

    def minibatch_factor(self, epoch: int) -> int:
        """Return the factor of the first reader."""
        return self._readers[0].minibatch_factor(epoch)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the data of the readers, and whether they fit together."""
        sound = True
        for reader in self._readers:
            for error in reader.check():
                sound = False
                yield error
        if sound and self._joined is not None:
            try:
                self._joined.order()
            except CntkError as error:
                yield error

    def close(self) -> None:
        """Close all readers."""
        if self._joined is not None:
            self._joined.close()
        for reader in self._readers:
            reader.close()


def several_class(find: FindReader, name_of: ReaderName) -> type[SeveralReaders]:
    """Return the class of readers side by side that looks its readers up with ``find``."""

    class Several(SeveralReaders):
        """Readers side by side."""

        @classmethod
        def configure(cls, block: Config, what: str) -> SeveralOptions:
            """Read the block and those of the readers. Raises all errors together."""
            return _read_options(block, what, find, name_of)

    return Several


def _read_options(block: Config, what: str, find: FindReader, name_of: ReaderName) -> SeveralOptions:
    names = block.bind(SeveralKeys, ignore=block.keys(), what=what).readers
    errors: list[CntkError] = []
    parts: list[PartOptions] = []
    if not names:
        errors.append(ConfigError(f"{what} names no readers", where=block.location("readers"), hint="readers=a:b"))
    for name in names:
        try:
            own = block.section(name)
            kind, where = name_of(own)
            reader: Any = find(kind, where)
            parts.append(PartOptions.read(reader, own, name, f"reader '{name}'", where))
        except CntkError as error:
            errors.append(error)
    raise_problems(errors)
    return SeveralOptions(parts=tuple(parts), where=block.location("readers"))


def _check_names(given: SeveralOptions, readers: list[DataReader]) -> None:
    owners: dict[str, str] = {}
    for part, reader in zip(given.parts, readers, strict=True):
        streams: Any = reader.streams
        if not (isinstance(streams, tuple | list) and all(isinstance(one, StreamInfo) for one in streams)):
            kind = f"{type(reader).__module__}.{type(reader).__qualname__}"
            text = f"the streams of reader '{part.name}' are {shown(streams)}, not a tuple of StreamInfo"
            raise DataError(text, where=part.where, hint=f"Mend {kind}.streams.")
        for stream in streams:
            owner = owners.setdefault(stream.name.lower(), part.name)
            if owner != part.name:
                text = f"the stream '{stream.name}' of reader '{part.name}' is read by '{owner}' already"
                raise ConfigError(text, where=part.where, hint="Each stream has a name of its own.")


def _begun(reader: DataReader, epoch: EpochSpec) -> Iterable[Minibatch]:
    found: Any = reader.minibatches(epoch)
    if not isinstance(found, Iterable):
        raise WrongResult(reader.minibatches, f"returned {shown(found)}, not minibatches")
    return found


def _sequences(reader: DataReader, minibatch: Minibatch | None) -> int | None:
    """Count the sequences of a minibatch, begun or going on; None where the reader has given nothing.

    Raises:
        WrongResult: the reader has given something else.
    """
    if minibatch is None:
        return None
    try:
        return max((stream.layout.slots for stream in minibatch.streams.values()), default=0)
    except AttributeError:
        raise WrongResult(reader.minibatches, f"gave {shown(minibatch)}, not a Minibatch of StreamData") from None


def _told(count: int | None) -> str:
    return "nothing" if count is None else f"{count} sequences"
