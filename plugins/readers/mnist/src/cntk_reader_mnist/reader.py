"""The reader: IDX files to chunks of images and labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, Config, ConfigError, DataError, Location, ReaderContext, StreamInfo, show
from cntk_core.api.readers import Chunk, ChunkedReader, ChunkInfo, ChunkSource, Column, Window
from cntk_reader_mnist.idx import IdxFile
from cntk_reader_mnist.options import ImageOptions, LabelOptions, MNISTReaderOptions, read_options

CHUNK_BYTES = 64 * 1024 * 1024
"""Pixels of a chunk; all of MNIST is one."""


@attrs.frozen(eq=False)
class Stream:
    """One stream: its name in the network, what the recipe says, its file, the shape of a sample."""

    name: str
    options: ImageOptions | LabelOptions
    file: IdxFile
    shape: tuple[int, ...]


class MNISTReader(ChunkedReader):
    """Reads images and labels out of IDX files, the format of the MNIST digits."""

    options: ClassVar[type] = MNISTReaderOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: MNISTReaderOptions, context: ReaderContext) -> None:
        streams: list[Stream] = []
        for given in options.streams:
            file = IdxFile(given.file, 1 if isinstance(given, LabelOptions) else 3, given.where)
            name, shape = self.find_input(context, given.name)
            streams.append(Stream(name, given, file, _shape(given, file, name, shape)))
        self._idx = IdxSource(streams, context.dtype)
        super().__init__(
            options,
            context,
            source=self._idx,
            streams=tuple(StreamInfo(stream.name, stream.shape) for stream in streams),
            window=options.window_within(Window()),
        )

    @classmethod
    def configure(cls, block: Config, what: str) -> MNISTReaderOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        return read_options(block, what)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the files."""
        return self._idx.check()


def _shape(
    stream: ImageOptions | LabelOptions, file: IdxFile, name: str, shape: tuple[int, ...] | None
) -> tuple[int, ...]:
    """Return the shape of a stream's samples: the network's, if it has an input of that name."""
    if isinstance(stream, LabelOptions):
        dim, source = stream.label_dim, f"labelDim={stream.label_dim}"
    else:
        dim = math.prod(file.shape[1:])
        source = f"{file.shape[1]} x {file.shape[2]} pixels"
        if stream.dim not in (None, dim):
            text = f"stream '{stream.name}' has dim={stream.dim}, but the images have {source} = {dim}"
            raise ConfigError(text, where=stream.where, hint=f"Set dim={dim}, or leave it out.")
    if shape is None:
        return (dim,)
    if math.prod(shape) != dim:
        text = f"stream '{stream.name}' has {source}, but the network's input '{name}' is {show(shape)}"
        raise ConfigError(text, where=stream.where)
    return shape


class IdxSource(ChunkSource):
    """Images and labels of the same samples, in chunks."""

    def __init__(self, streams: Sequence[Stream], dtype: np.dtype[Any]) -> None:
        self._streams = streams
        self._dtype = dtype
        self._bytes = max(math.prod(stream.file.shape[1:]) for stream in streams)
        self._step = max(CHUNK_BYTES // self._bytes, 1)

    def __str__(self) -> str:
        return self._streams[0].file.name

    def read_in_order(self, chunk_bytes: int) -> None:
        """Make smaller chunks."""
        self._step = min(self._step, max(chunk_bytes // self._bytes, 1))

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold. Raises the first error of the files."""
        for error in self.check():
            raise error
        samples = self._streams[0].file.shape[0]
        sizes = [min(self._step, samples - first) for first in range(0, samples, self._step)]
        return [ChunkInfo(size, size) for size in sizes]

    def load(self, chunk: int) -> Chunk:
        """Make a chunk's images and one-hot labels."""
        part = slice(chunk * self._step, (chunk + 1) * self._step)
        return Chunk({stream.name: Column(self._read(stream, part)) for stream in self._streams})

    def _read(self, stream: Stream, part: slice) -> NDArray[Any]:
        values = stream.file.values()[part]
        if isinstance(stream.options, LabelOptions):
            found = np.zeros((len(values), stream.options.label_dim), dtype=self._dtype)
            found[np.arange(len(values)), values] = 1
        else:
            found = values.astype(self._dtype)
            if stream.options.scale != 1:
                found *= stream.options.scale
        return found.reshape(len(values), *stream.shape)

    def check(self) -> Iterator[DataError]:
        """Yield everything that is wrong with the files."""
        first = self._streams[0].file
        for stream in self._streams:
            file, options = stream.file, stream.options
            if file.shape[0] != first.shape[0]:
                text = f"{file.shape[0]} samples, but '{first.name}' has {first.shape[0]}"
                yield DataError(text, where=Location(file.name))
            try:
                values = file.values()
            except DataError as error:
                yield error
                continue
            if isinstance(options, LabelOptions):
                for sample in np.flatnonzero(values >= options.label_dim).tolist():
                    text = f"label {values[sample]} of sample {sample} is not below labelDim={options.label_dim}"
                    yield DataError(text, where=Location(file.name))

    def close(self) -> None:
        """Forget the values."""
        for stream in self._streams:
            stream.file.close()
