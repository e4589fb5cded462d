"""BinaryReader: sections of files as streams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    DataError,
    Location,
    ReaderContext,
    StreamInfo,
    at_least,
    collect,
    option,
    options,
    raise_problems,
    show,
)
from cntk_core.api.readers import (
    Chunk,
    ChunkedReader,
    ChunkInfo,
    ChunkSource,
    Column,
    ReaderKeys,
    Window,
    in_precision,
)
from cntk_reader_binary.sections import CATEGORY_LABELS, DATA, LABELS, Section, SectionFile

CHUNK_BYTES = 32 * 1024 * 1024


@options
class SectionKeys(ReaderKeys):
    """The keys of the reader's block."""

    file: tuple[str, ...] = option(doc="The files; all have the same number of records.")
    randomize: Literal["auto", "true", "t", "1", "none", "false", "f", "0"] = option(
        default="none", doc="none: the order of the files, as always with the original; auto: at random."
    )
    minibatch_mode: Literal["partial", "full"] = option(default="partial", doc="Accepted.")
    window_size: int = option(default=0, doc="Accepted.", validator=at_least(0))
    chunk_size_in_bytes: int = option(default=CHUNK_BYTES, doc="Bytes that are read at once.", validator=at_least(1))


@options
class SectionOptions(SectionKeys):
    """Everything that a recipe says to the reader."""

    where: Location | None = None


@attrs.frozen
class Stream:
    """A stream: how it is offered, the section with its values, and the file in which that is."""

    info: StreamInfo
    section: Section
    file: SectionFile


class SectionSource(ChunkSource):
    """Records of several sections, in chunks.

    Args:
        files: all of them, to be closed.
        streams: with the same number of records.
        chunk_bytes: about how many bytes a chunk has.
        dtype: precision of the values.
    """

    def __init__(
        self, files: Sequence[SectionFile], streams: Sequence[Stream], chunk_bytes: int, dtype: np.dtype[Any]
    ) -> None:
        self._files = files
        self._streams = streams
        self._dtype = dtype
        self._width = sum(math.prod(stream.info.shape) for stream in streams) * dtype.itemsize
        self._rows = max(chunk_bytes // max(self._width, 1), 1)

    def __str__(self) -> str:
        return self._files[0].name

    def read_in_order(self, chunk_bytes: int) -> None:
        """Make smaller chunks."""
        self._rows = min(self._rows, max(chunk_bytes // max(self._width, 1), 1))

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold; the headers say it."""
        count = self._streams[0].section.records
        sizes = [min(self._rows, count - first) for first in range(0, count, self._rows)]
        return [ChunkInfo(size, size) for size in sizes]

    def load(self, chunk: int) -> Chunk:
        """Read a chunk. Raises DataError if it is damaged."""
        first = chunk * self._rows
        last = min(first + self._rows, self._streams[0].section.records)
        return Chunk({stream.info.name: Column(self._rows_of(stream, first, last)) for stream in self._streams})

    def _rows_of(self, stream: Stream, first: int, last: int) -> NDArray[Any]:
        section = stream.section
        values = stream.file.records(section, first, last)
        if section.classes:
            return self._one_hot(stream, values, first).reshape(-1, *stream.info.shape)
        try:
            found = in_precision(values, self._dtype)
        except OverflowError as error:
            raise stream.file.wrong(section.begin, f"section '{section.name}': {error}", None) from None
        return found.astype(self._dtype, copy=False).reshape(-1, *stream.info.shape)

    def _one_hot(self, stream: Stream, values: NDArray[Any], first: int) -> NDArray[Any]:
        section = stream.section
        bad = np.flatnonzero(values[:, 0] >= section.classes)
        if len(bad):
            at = section.begin + (first + int(bad[0])) * section.width
            label = int(values[bad[0], 0])
            text = f"label {label} of section '{section.name}' is not below its {section.classes} classes"
            raise stream.file.wrong(at, text)
        found = np.zeros((len(values), section.classes), dtype=self._dtype)
        found[np.arange(len(values)), values[:, 0]] = 1
        return found

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


class BinaryReader(ChunkedReader):
    """Reads the binary caches of CNTK's older readers: sections of numbers and of labels."""

    options: ClassVar[type] = SectionOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: SectionOptions, context: ReaderContext) -> None:
        with ExitStack() as stack:
            files: list[SectionFile] = []
            for path in options.file:
                files.append(SectionFile(Path(path), options.where))
                stack.callback(files[-1].close)
            streams = _choose(files, options, context)
            stack.pop_all()
        source = SectionSource(files, streams, options.chunk_size_in_bytes, context.dtype)
        infos = tuple(stream.info for stream in streams)
        super().__init__(options, context, source=source, streams=infos, window=Window())

    @classmethod
    def configure(cls, block: Config, what: str) -> SectionOptions:
        """Read the reader's block; blocks in it, such as those of a writer, are not looked at. Raises all errors."""
        errors: list[CntkError] = []
        keys = collect(lambda: block.bind(SectionKeys, ignore=block.block_names(), what=what), errors)
        if keys is not None and not keys.file:
            errors.append(ConfigError(f"{what} has no file", where=block.location("file")))
        raise_problems(errors)
        assert keys is not None
        return SectionOptions(**attrs.asdict(keys, recurse=False), where=block.location("file"))


def _choose(files: Sequence[SectionFile], options: SectionOptions, context: ReaderContext) -> list[Stream]:
    """Return the streams: sections that the network has an input for, or all with data.

    Raises:
        ConfigError, DataError, Problems: there are none, they do not fit, or have different numbers of records.
    """
    found = [(section, file) for file in files for section in file.sections if _has_data(section)]
    needed = {name.lower() for name in context.inputs}
    wanted = [(section, file) for section, file in found if section.name.lower() in needed] or found
    errors: list[CntkError] = []
    streams: list[Stream] = []
    for section, file in wanted:
        if any(section.name.lower() == stream.info.name.lower() for stream in streams):
            errors.append(file.wrong(section.begin, f"there are two sections '{section.name}'", None))
            continue
        stream = collect(lambda s=section, f=file: _stream(s, f, options, context), errors)
        streams += [] if stream is None else [stream]
    if not found:
        errors.append(DataError("the file has no section with data", where=Location(files[0].name)))
    for stream in streams[1:]:
        if stream.section.records != streams[0].section.records:
            text = f"section '{stream.info.name}' has {stream.section.records} records, '{streams[0].info.name}' "
            errors.append(stream.file.wrong(stream.section.begin, f"{text}{streams[0].section.records}", None))
    raise_problems(errors)
    return streams


def _has_data(section: Section) -> bool:
    return section.kind in (DATA, LABELS)


def _stream(section: Section, file: SectionFile, options: SectionOptions, context: ReaderContext) -> Stream:
    """Return how a section is offered: labels by the section in them that has a one in each record, if there is one.

    Raises:
        ConfigError, DataError: its values are no numbers, or do not fit the network.
    """
    inside = (one for one in section.inside if one.kind == CATEGORY_LABELS)
    values = next(inside, section) if section.kind == LABELS else section
    if values.stored is None or (values.stored.kind == "u" and (not values.classes or values.dim != 1)):
        text = f"section '{section.name}' has values of kind {values.values} with {values.width} bytes, no numbers"
        raise file.wrong(section.begin, text, None)
    dim = values.classes or values.dim
    name, shape = ChunkedReader.find_input(context, section.name)
    if shape is not None and math.prod(shape) != dim:
        text = (
            f"section '{section.name}' of '{file.name}' has records of {dim} values, but the network's input '{name}'"
        )
        raise ConfigError(f"{text} is {show(shape)}", where=options.where, hint="Change the input of the network.")
    return Stream(StreamInfo(name, shape or (dim,)), values, file)
