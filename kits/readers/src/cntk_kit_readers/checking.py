"""Looks at all chunks of a data set: what cannot be read, and what is not as its reader says."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from cntk_core.contract.reader import StreamInfo
from cntk_core.errors import CntkError, DataError, Problems
from cntk_kit_readers.source import Chunk, ChunkInfo, ChunkSource, Column

T = TypeVar("T")


def check_chunks(source: ChunkSource, streams: Sequence[StreamInfo]) -> Iterator[CntkError]:
    """Yield everything that is wrong with a data set, without stopping at the first chunk that cannot be read.

    Args:
        source: the data.
        streams: what its reader offers.
    """
    index, problems = _attempt(source.index, f"{source} cannot be read")
    yield from problems
    if index is None:
        return
    if not any(info.samples for info in index):
        yield DataError(f"{source} has no samples")
    for number, info in enumerate(index):
        place = f"chunk {number + 1} of {len(index)}"
        chunk, problems = _attempt(lambda number=number: source.load(number), f"{source}, {place} cannot be read")
        yield from problems
        if chunk is not None:
            wrong = _wrong_with(chunk, info, streams, set(source.makers))
            yield from (DataError(f"{source}, {place}: {problem}") for problem in wrong)


def _attempt(read: Callable[..., T], failure: str) -> tuple[T | None, Sequence[CntkError]]:
    """Return what a function returns, or what is wrong.

    A library that a reader uses tells of a missing column or a torn file in its own kinds of errors.
    """
    try:
        return read(), ()
    except Problems as error:
        return None, error.errors
    except CntkError as error:
        return None, (error,)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        hint = f"raised by {last.filename}:{last.lineno}"
        return None, (DataError(f"{failure}: {type(error).__name__}: {error}", hint=hint),)


def _wrong_with(chunk: Chunk, info: ChunkInfo, streams: Sequence[StreamInfo], made: set[str]) -> Iterator[str]:
    """Yield what of a chunk is not as it was declared; the columns of ``made`` streams hold numbers of rows."""
    for stream in streams:
        column = chunk.columns.get(stream.name)
        if column is None:
            yield f"the stream '{stream.name}' is missing; there are {', '.join(chunk.columns) or 'none'}"
            continue
        count = len(column.offsets) - 1 if column.offsets is not None else _rows(column)
        if count != info.sequences:
            yield f"the stream '{stream.name}' has {count} sequences, not {info.sequences} as the index says"
        shape = tuple(column.data.shape[1:])
        if stream.name not in made and math.prod(shape) != math.prod(stream.shape):
            yield f"a sample of the stream '{stream.name}' has the shape {shape}, not {stream.shape}"


def _rows(column: Column) -> int:
    return int(column.data.shape[0] if column.rows is None else len(column.rows))
