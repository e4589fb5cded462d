"""What the parsers are told and what they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
IntArray = NDArray[np.int64]
IdArray = NDArray[np.uint64]
"""Sequence ids: all that 64 bits can hold."""


@attrs.frozen
class StreamSpec:
    """One stream to be read.

    Attributes:
        name: the network input.
        alias: its name in the file.
        dim: values of a sample.
        sparse: whether samples are ``index:value`` pairs.
        shape: shape of a sample in minibatches.
    """

    name: str
    alias: bytes
    dim: int
    sparse: bool = False
    shape: tuple[int, ...] = attrs.field()

    @shape.default
    def _flat(self) -> tuple[int, ...]:
        return (self.dim,)


@attrs.frozen
class RowProblem:
    """What is wrong in one row.

    Attributes:
        line: from 0 in the parsed text.
        column: from 1, in bytes; 0 is the whole row.
        message: what is wrong.
    """

    line: int
    column: int
    message: str


@attrs.frozen(eq=False)
class Samples:
    """The samples of one stream in some lines of text.

    Attributes:
        lines: the line of each sample, from 0, not decreasing.
        values: dense: ``(samples, dim)``; sparse: ``(values,)``.
        indices: sparse: the index of each value.
        counts: sparse: number of values of each sample.
    """

    lines: IntArray
    values: NDArray[Any]
    indices: NDArray[np.int32] | None = None
    counts: IntArray | None = None


@attrs.frozen(eq=False)
class Parsed:
    """The samples of some lines of text.

    Attributes:
        lines: number of lines.
        samples: one entry for each stream.
        problems: rows that could not be read, in order; nothing of them is in ``samples``.
        short: lines with a dense sample that was filled up with zeros.
    """

    lines: int
    samples: Sequence[Samples]
    problems: Sequence[RowProblem] = ()
    short: Sequence[int] = ()


def join(parts: Sequence[Parsed], streams: Sequence[StreamSpec], dtype: np.dtype[Any]) -> Parsed:
    """Return consecutive texts as one."""
    if len(parts) == 1:
        return parts[0]
    first = np.concatenate([[0], np.cumsum([part.lines for part in parts])]).astype(np.int64).tolist()
    samples = []
    for i, stream in enumerate(streams):
        own = [part.samples[i] for part in parts]
        lines = _concatenate([piece.lines + start for piece, start in zip(own, first, strict=False)], np.int64)
        if stream.sparse:
            values = _concatenate([piece.values for piece in own], dtype)
            indices = _concatenate([piece.indices for piece in own if piece.indices is not None], np.int32)
            counts = _concatenate([piece.counts for piece in own if piece.counts is not None], np.int64)
            samples.append(Samples(lines, values, indices, counts))
        else:
            dense = [piece.values for piece in own]
            samples.append(Samples(lines, np.concatenate(dense) if dense else np.zeros((0, stream.dim), dtype)))
    problems = [
        attrs.evolve(problem, line=problem.line + start)
        for part, start in zip(parts, first, strict=False)
        for problem in part.problems
    ]
    short = [line + start for part, start in zip(parts, first, strict=False) for line in part.short]
    return Parsed(first[-1], samples, problems, short)


def _concatenate(arrays: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=dtype)
