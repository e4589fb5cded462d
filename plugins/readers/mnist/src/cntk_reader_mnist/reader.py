"""The reader: IDX files to chunks of images and labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import (
    Chunk,
    ChunkedReader,
    ChunkInfo,
    ChunkSource,
    CntkError,
    Column,
    Config,
    ConfigError,
    DataError,
    Location,
    ReaderContext,
    StreamInfo,
    Window,
    show,
)
from cntk_reader_mnist.idx import IdxFile
from cntk_reader_mnist.options import ImageOptions, LabelOptions, MNISTReaderOptions, read_options

CHUNK_BYTES = 64 * 1024 * 1024
"""Pixels of a chunk; all of MNIST is one."""

Stream = tuple[ImageOptions | LabelOptions, IdxFile, tuple[int, ...]]


class MNISTReader(ChunkedReader):
    """Reads images and labels out of IDX files, the format of the MNIST digits."""

    options: ClassVar[type] = MNISTReaderOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: MNISTReaderOptions, context: ReaderContext) -> None:
        streams: list[Stream] = []
        for given in options.streams:
            stream = attrs.evolve(given, name=self.find_input(context, given.name)[0])
            file = IdxFile(stream.file, 1 if isinstance(stream, LabelOptions) else 3, stream.where)
            streams.append((stream, file, _shape(stream, file, context)))
        self._idx = IdxSource(streams, context.dtype)
        super().__init__(
            options,
            context,
            source=self._idx,
            streams=tuple(StreamInfo(stream.name, shape) for stream, _, shape in streams),
            window=Window() if options.shuffled else None,
            seed=options.randomization_seed,
            prefetch=options.prefetch,
        )

    @classmethod
    def configure(cls, block: Config, what: str) -> MNISTReaderOptions:
        """Read the reader's block and its sub-blocks. Raises all errors together."""
        return read_options(block, what)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the files."""
        return self._idx.check()


def _shape(stream: ImageOptions | LabelOptions, file: IdxFile, context: ReaderContext) -> tuple[int, ...]:
    """Return the shape of a stream's samples: the network's, if it has an input of that name."""
    if isinstance(stream, LabelOptions):
        dim, source = stream.label_dim, f"labelDim={stream.label_dim}"
    else:
        dim = math.prod(file.shape[1:])
        source = f"{file.shape[1]} x {file.shape[2]} pixels"
        if stream.dim not in (None, dim):
            text = f"stream '{stream.name}' has dim={stream.dim}, but the images have {source} = {dim}"
            raise ConfigError(text, where=stream.where, hint=f"Set dim={dim}, or leave it out.")
    name, shape = ChunkedReader.find_input(context, stream.name)
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
        self._step = max(CHUNK_BYTES // max(math.prod(file.shape[1:]) for _, file, _ in streams), 1)

    def __str__(self) -> str:
        return self._streams[0][1].name

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold. Raises the first error of the files."""
        for error in self.check():
            raise error
        samples = self._streams[0][1].shape[0]
        sizes = [min(self._step, samples - first) for first in range(0, samples, self._step)]
        return [ChunkInfo(size, size) for size in sizes]

    def load(self, chunk: int) -> Chunk:
        """Make a chunk's images and one-hot labels."""
        part = slice(chunk * self._step, (chunk + 1) * self._step)
        return Chunk(
            {stream.name: Column(self._read(stream, file, shape, part)) for stream, file, shape in self._streams}
        )

    def _read(
        self, stream: ImageOptions | LabelOptions, file: IdxFile, shape: tuple[int, ...], part: slice
    ) -> NDArray[Any]:
        values = file.values()[part]
        if isinstance(stream, LabelOptions):
            found = np.zeros((len(values), stream.label_dim), dtype=self._dtype)
            found[np.arange(len(values)), values] = 1
        else:
            found = values.astype(self._dtype)
            if stream.scale != 1:
                found *= stream.scale
        return found.reshape(len(values), *shape)

    def check(self) -> Iterator[DataError]:
        """Yield everything that is wrong with the files."""
        first = self._streams[0][1]
        for stream, file, _ in self._streams:
            if file.shape[0] != first.shape[0]:
                text = f"{file.shape[0]} samples, but '{first.name}' has {first.shape[0]}"
                yield DataError(text, where=Location(file.name))
            try:
                values = file.values()
            except DataError as error:
                yield error
                continue
            if isinstance(stream, LabelOptions):
                for sample in np.flatnonzero(values >= stream.label_dim).tolist():
                    text = f"label {values[sample]} of sample {sample} is not below labelDim={stream.label_dim}"
                    yield DataError(text, where=Location(file.name))

    def close(self) -> None:
        """Forget the values."""
        for _, file, _ in self._streams:
            file.close()
