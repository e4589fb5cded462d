"""Images and their classes as chunks of sequences of one sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError
from cntk_core.api.readers import Chunk, ChunkInfo, ChunkSource, Column, RowMaker, class_column
from cntk_reader_image.limits import BrokenImageError
from cntk_reader_image.listing import Images
from cntk_reader_image.maker import ImageMaker, broken_image


class ImageSource(ChunkSource):
    """The images of a file. A chunk has numbers instead of pixels: see :class:`ImageMaker`.

    Args:
        images: where they are.
        maker: makes their samples.
        features, labels: names of the streams.
        label_dim: number of classes.
        views: how many views of each image there are, one after the other.
        dtype: precision of the labels.
    """

    def __init__(
        self,
        images: Images,
        maker: ImageMaker,
        *,
        features: str,
        labels: str,
        label_dim: int,
        views: int,
        dtype: np.dtype[Any],
    ) -> None:
        self._images = images
        self._maker = maker
        self._features, self._labels = features, labels
        self._label_dim = label_dim
        self._views = views
        self._dtype = dtype
        cuts = images.chunks
        count = len(images) * views
        self._starts = np.arange(count + 1) if cuts is None else cuts * views
        single = ChunkInfo(1, 1)
        sizes = np.diff(self._starts).tolist()
        self._index = [single if size == 1 else ChunkInfo(size, size) for size in sizes]

    def __str__(self) -> str:
        return self._images.file

    @property
    def numeric_keys(self) -> bool:  # type: ignore[override]
        """Whether the keys are the numbers of the lines."""
        return self._images.names is None

    @property
    def single_sequences(self) -> bool:
        """Whether each image is a chunk."""
        return self._images.chunks is None

    @property
    def reads_picks(self) -> bool:
        """Images are read one by one."""
        return True

    @property
    def makers(self) -> Mapping[str, RowMaker]:
        """What makes the samples of the images."""
        return {self._features: self._maker}

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold."""
        return self._index

    def keys(self, chunk: int) -> list[int | str]:
        """Return the keys of a chunk's images."""
        numbers = range(int(self._starts[chunk]), int(self._starts[chunk + 1]))
        return [self._images.key(number // self._views) for number in numbers]

    def load(self, chunk: int) -> Chunk:
        """Return the numbers and labels of a chunk."""
        return self._chunk(np.arange(self._starts[chunk], self._starts[chunk + 1]))

    def pick(self, chunks: NDArray[np.int64], sequences: NDArray[np.int64]) -> Chunk:
        """Return the numbers and labels of some images."""
        return self._chunk(self._starts[chunks] + sequences)

    def _chunk(self, numbers: NDArray[np.int64]) -> Chunk:
        ones = np.ones(len(numbers), dtype=np.int64)
        classes = self._images.classes[numbers // self._views]
        labels = class_column(ones, classes, ones.astype(self._dtype), self._label_dim)
        return Chunk({self._features: Column(numbers), self._labels: labels})

    def check(self) -> Iterator[DataError]:
        """Yield what is wrong with the images: decodes all of them."""
        for image in range(len(self._images)):
            try:
                self._maker.pixels(image)
            except BrokenImageError as error:
                yield broken_image(self._images, image, str(error))

    def close(self) -> None:
        """End threads and close files."""
        self._maker.close()
        self._images.close()
