"""The reader JsonLines: ``{"features": [0.5, 1], "label": 2}`` to a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cntk_core.api import CntkError, DataError, Location, ReaderContext, StreamInfo, at_least, option, options
from cntk_core.api.readers import Chunk, ChunkedReader, ChunkInfo, ChunkSource, Column, Window

LINES = 100
"""Lines of a chunk."""


@options
class JsonLinesOptions:
    """The block of the reader."""

    file: Path = option(doc="the file")
    dim: int = option(doc="numbers of a sample", validator=at_least(1))
    classes: int = option(doc="how many classes there are; they count from 0", validator=at_least(1))
    randomize: bool = option(default=True, doc="another order in each sweep")


class JsonLines(ChunkedReader):
    """Gives ``features`` and one-hot ``labels``, a chunk of lines at a time."""

    options = JsonLinesOptions
    requires_api = "1.0"

    def __init__(self, options: JsonLinesOptions, context: ReaderContext) -> None:
        streams = (StreamInfo("features", (options.dim,)), StreamInfo("labels", (options.classes,)))
        self.lines = Lines(options, context.dtype)
        super().__init__(
            options, context, source=self.lines, streams=streams, window=Window() if options.randomize else None
        )

    def check(self) -> Iterator[CntkError]:
        """Look at every line."""
        yield from self.lines.problems()


class Lines(ChunkSource):
    """Knows where each chunk of lines begins in the file."""

    def __init__(self, options: JsonLinesOptions, dtype: Any) -> None:
        self.options = options
        self.dtype = dtype
        self.texts = self.read()

    def __str__(self) -> str:
        return str(self.options.file)

    def read(self) -> list[tuple[int, str]]:
        try:
            lines = self.options.file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise DataError(f"'{self.options.file}' cannot be read: {error.strerror}") from error
        return [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]

    def index(self) -> Sequence[ChunkInfo]:
        counts = [len(self.texts[begin : begin + LINES]) for begin in range(0, len(self.texts), LINES)]
        return [ChunkInfo(count, count) for count in counts]

    def load(self, chunk: int) -> Chunk:
        samples = [self.sample(*line) for line in self.texts[chunk * LINES : (chunk + 1) * LINES]]
        features = np.array([features for features, _ in samples], self.dtype)
        labels = np.eye(self.options.classes, dtype=self.dtype)[[label for _, label in samples]]
        return Chunk({"features": Column(features), "labels": Column(labels)})

    def problems(self) -> Iterator[DataError]:
        for line in self.texts:
            try:
                self.sample(*line)
            except DataError as error:
                yield error

    def close(self) -> None:
        self.texts = []

    def sample(self, number: int, line: str) -> tuple[list[float], int]:
        where = Location(str(self.options.file), number)
        try:
            found = json.loads(line)
            features, label = [float(value) for value in found["features"]], int(found["label"])
        except (ValueError, KeyError, TypeError):
            raise DataError("this is no sample", where=where, hint=line.strip()) from None
        if len(features) != self.options.dim or not 0 <= label < self.options.classes:
            raise DataError(f"{len(features)} numbers of class {label} do not fit dim and classes", where=where)
        return features, label
