"""From parsed lines to sequences: which samples belong together, and what is wrong with a sequence as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_reader_cntk_text.records import IdArray, IntArray, Parsed, RowProblem, Samples, StreamSpec


@attrs.frozen(eq=False)
class Sequences:
    """The sound sequences of a chunk.

    Attributes:
        samples: the samples of each stream.
        offsets: for each stream, where the samples of each sequence begin (and the end); None: one sample each.
        sizes: samples of each sequence, of the stream that defines the minibatch size.
        keys: id of each sequence; empty if the file has none.
        problems: bad rows and bad sequences, in the order of lines; lines count from 1 in the file.
        short: lines, from 1 in the file, with dense samples that were filled up.
    """

    samples: Sequence[Samples]
    offsets: Sequence[IntArray | None]
    sizes: IntArray
    keys: IdArray
    problems: Sequence[RowProblem]
    short: Sequence[int]


def find_sequences(
    parsed: Parsed, streams: Sequence[StreamSpec], ids: IdArray | None, main: int | None, *, first_line: int
) -> Sequences:
    """Group samples by sequence.

    Args:
        parsed: what the parser found.
        streams: the streams, as given to the parser.
        ids: the sequence id of each line; None if every line is a sequence.
        main: the stream that defines the size; None is the longest.
        first_line: number of the first line, for messages.
    """
    good = np.ones(parsed.lines, dtype=bool)
    good[[problem.line for problem in parsed.problems]] = False
    sequence, begins = _sequence_of_line(parsed.lines, ids)
    rows = np.bincount(sequence[good], minlength=len(begins))
    counts = [np.bincount(sequence[found.lines], minlength=len(begins)) for found in parsed.samples]
    bad = _bad_sequences(rows, counts, main)
    keep = (rows > 0) & ~bad
    problems = [attrs.evolve(problem, line=problem.line + first_line) for problem in parsed.problems]
    for i in np.flatnonzero(bad).tolist():
        line = int(begins[i]) + first_line
        own = [int(count[i]) for count in counts]
        text = _explain(None if ids is None else int(ids[begins[i]]), int(rows[i]), own, streams)
        problems.append(RowProblem(line, 0, text))
    problems.sort(key=lambda problem: (problem.line, problem.column))
    samples = parsed.samples if keep.all() else [_only(found, keep[sequence[found.lines]]) for found in parsed.samples]
    sizes = counts[main] if main is not None else np.max(counts, axis=0)
    return Sequences(
        samples=samples,
        offsets=[_offsets(count[keep]) for count in counts],
        sizes=sizes[keep],
        keys=np.zeros(0, dtype=np.uint64) if ids is None else ids[begins[keep]],
        problems=problems,
        short=[line + first_line for line in parsed.short],
    )


def _sequence_of_line(lines: int, ids: IdArray | None) -> tuple[IntArray, IntArray]:
    """Return the sequence of each line and the first line of each sequence."""
    if ids is None:
        return np.arange(lines), np.arange(lines)
    new = id_changes(ids)
    return np.cumsum(new) - 1, np.flatnonzero(new)


def id_changes(ids: IdArray) -> NDArray[np.bool_]:
    """Return which lines have another id than the line before them; the first one has."""
    new = np.ones(len(ids), dtype=bool)
    new[1:] = ids[1:] != ids[:-1]
    return new


def _bad_sequences(rows: IntArray, counts: Sequence[IntArray], main: int | None) -> NDArray[np.bool_]:
    """Tell which sequences with rows lack a stream, or have not just one sample in each row."""
    bad: NDArray[np.bool_] = np.min(counts, axis=0) == 0
    if main is None:
        bad |= np.max(counts, axis=0) != rows
    return bad & (rows > 0)


def _explain(key: int | None, rows: int, counts: Sequence[int], streams: Sequence[StreamSpec]) -> str:
    name = "the row" if key is None else f"sequence {key}"
    missing = [f"'{stream.name}'" for stream, count in zip(streams, counts, strict=True) if not count]
    if missing:
        return f"{name} has no sample of stream {', '.join(missing)}"
    most = max(counts)
    stream = streams[list(counts).index(most)].name
    in_rows = "" if key is None else f" in {rows} row{'s' if rows > 1 else ''}"
    if most > rows:
        return f"{name} has {most} samples of stream '{stream}'{in_rows}"
    return f"{name} has {rows} rows, but no stream has more than {most} samples"


def _ranges(first: IntArray, counts: IntArray) -> IntArray:
    """Return ``first[0], first[0] + 1, ...`` (``counts[0]`` of them), then those of ``first[1]``, and so on."""
    ends = np.cumsum(counts)
    places: IntArray = np.arange(counts.sum()) + np.repeat(first - (ends - counts), counts)
    return places


def _offsets(counts: IntArray) -> IntArray | None:
    if (counts == 1).all():
        return None
    return np.concatenate([[0], np.cumsum(counts)])


def _only(found: Samples, keep: NDArray[np.bool_]) -> Samples:
    """Return some of the samples."""
    if found.counts is None or found.indices is None:
        return Samples(found.lines[keep], found.values[keep])
    first = np.cumsum(found.counts) - found.counts
    values = _ranges(first[keep], found.counts[keep])
    return Samples(found.lines[keep], found.values[values], found.indices[values], found.counts[keep])
