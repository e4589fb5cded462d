"""Alignments of a label sequence with frames, by the forward-backward recursion of CTC.

A. Graves et al., "Connectionist temporal classification", ICML 2006, equations 6 to 16: the labels with a blank before,
between and after them make a path; a frame stays at its place of the path, goes one on, or skips a blank between two
different labels. All is in the log domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.language.op import Array, OpContext

Rows = NDArray[np.int64]
Numbers = NDArray[np.float64]

LOG_ZERO = -1e11
"""Logarithm of a chance of nothing."""

BOUNDARY = 2.0
"""Value of a one-hot label at the first frame of a phone; inside it is 1."""


def sequences_of(context: OpContext) -> list[Rows]:
    """Return the rows of each sequence of a minibatch, in the order of time; without layout all rows are one."""
    layout = context.layout
    if layout is None:
        return [np.arange(context.frames)]
    found = []
    for slot in range(layout.slots):
        length = int(layout.lengths[slot])
        starts = [
            0,
            *sorted(int(step) for at, step in layout.begins.reshape(-1, 2).tolist() if at == slot and step),
            length,
        ]
        rows = layout.start[:length] + slot
        found += [rows[begin:end] for begin, end in pairwise(starts) if end > begin]
    return found


@attrs.frozen(eq=False)
class PhonePath:
    """Labels with blanks.

    Attributes:
        tokens: classes along the path: blank, label, blank, ..., label, blank.
        bounds: for each place, the frame at which its phone begins (a blank's: the next phone); the last is the end.
        blank: the class of the blank.
    """

    tokens: Rows
    bounds: Rows
    blank: int


def phone_path(labels: Array, blank: int) -> PhonePath:
    """Read the path from labels ``(frames, classes)`` with a 2 at the first frame of each phone."""
    begins = np.flatnonzero(labels.max(axis=1) == BOUNDARY) if labels.size else np.zeros(0, np.int64)
    tokens = np.full(2 * len(begins) + 1, blank, np.int64)
    tokens[1::2] = np.argmax(labels[begins], axis=1) if len(begins) else 0
    bounds = np.full(len(tokens), len(labels), np.int64)
    bounds[0:-1:2] = bounds[1::2] = begins
    return PhonePath(tokens, bounds, blank)


@attrs.frozen(eq=False)
class Alignment:
    """Log of the chance of the labels over all alignments, and the chance of each class at each frame given them."""

    log_chance: float
    posterior: Numbers


def align_path(logs: Numbers, path: PhonePath, delay: int) -> Alignment:
    """Sum over all alignments of a path.

    Args:
        logs: log chances ``(frames, classes)``.
        path: the labels.
        delay: how many frames after the begin of the next phone a phone may still stand; -1 is without limit.
    """
    return align_paths([logs], [path], delay)[0]


def align_paths(logs: Sequence[Numbers], paths: Sequence[PhonePath], delay: int) -> list[Alignment]:
    """Do what :func:`align_path` does for several sequences, in one recursion over time."""
    emitted = [one[:, path.tokens] for one, path in zip(logs, paths, strict=True)]
    barred = [_barred(path, len(one), delay) for one, path in zip(logs, paths, strict=True)]
    skips = [skips_of(path) for path in paths]
    forward = _recursions(emitted, skips, barred)
    # Backwards the path is read from its end; a place is skipped to if it may skip forward.
    backward = _recursions(
        [one[::-1, ::-1] for one in emitted], [_reversed(one) for one in skips], [one[::-1, ::-1] for one in barred]
    )
    return [
        _alignment(one, path, seen, before, after[::-1, ::-1])
        for one, path, seen, before, after in zip(logs, paths, emitted, forward, backward, strict=True)
    ]


def _alignment(logs: Numbers, path: PhonePath, emitted: Numbers, forward: Numbers, backward: Numbers) -> Alignment:
    log_chance = float(np.logaddexp.reduce(backward[0, :2]))
    occupation = np.exp(np.minimum(forward + backward - emitted - log_chance, 0.0))
    if log_chance <= LOG_ZERO / 2:
        # More labels than frames: nothing is learned from such a sequence.
        return Alignment(log_chance, np.exp(logs))
    posterior = occupation @ np.eye(logs.shape[1])[path.tokens]
    total = posterior.sum(axis=1, keepdims=True)
    return Alignment(log_chance, np.divide(posterior, total, out=posterior, where=total > 0.0))


def skips_of(path: PhonePath) -> NDArray[np.bool_]:
    """Return which places of a path may be skipped to, ``(places,)``: those of a label other than the one before."""
    result = np.zeros(len(path.tokens), bool)
    result[3::2] = path.tokens[3::2] != path.tokens[1:-2:2]
    return result


def _reversed(skips: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which places may be skipped to when the path is read backwards: those from which a skip goes."""
    result = np.zeros_like(skips)
    result[:-2] = skips[2:]
    return result[::-1]


def latest_frames(path: PhonePath, frames: int, delay: int) -> Rows:
    """Return the last frame at which an alignment may be at each place of a path.

    The first and last frame are free in their recursion, whatever this says.

    Args:
        path: the labels.
        frames: of the sequence.
        delay: as for :func:`align_path`.
    """
    if delay < 0:
        return np.full(len(path.tokens), frames - 1)
    # Two places on stands what comes after the phone; after the last phone that is the end. CNTK allows the blank at
    # the end of the path only within the delay of the begin, and in the last frame, where the recursion begins.
    after = np.full(len(path.tokens), frames, np.int64)
    after[:-2] = path.bounds[2:]
    after[-1] = 0
    latest: Rows = after + delay - (path.tokens == path.blank)
    return latest


def _barred(path: PhonePath, frames: int, delay: int) -> NDArray[np.bool_]:
    """Which places no alignment may have at which frame; the first and last frame are free in their recursion."""
    return np.asarray(np.arange(frames)[:, None] > latest_frames(path, frames, delay))


def _recursions(
    emitted: Sequence[Numbers], skips: Sequence[NDArray[np.bool_]], barred: Sequence[NDArray[np.bool_]]
) -> list[Numbers]:
    """Log chances of all ways from the begin to each place at each frame, ``(frames, places)`` for each sequence."""
    if not emitted:
        return []
    frames, places = (max(one.shape[axis] for one in emitted) for axis in (0, 1))
    # All together, shorter ones filled up at their ends, which nothing before depends on.
    seen = np.full((frames, len(emitted), places), LOG_ZERO)
    never = np.ones(seen.shape, bool)
    may_skip = np.zeros(seen.shape[1:], bool)
    for number, (one, skip, bar) in enumerate(zip(emitted, skips, barred, strict=True)):
        seen[: len(one), number, : one.shape[1]] = one
        never[: len(one), number, : one.shape[1]] = bar
        may_skip[number, : len(skip)] = skip
    result = np.full_like(seen, LOG_ZERO)
    result[:1, :, :2] = seen[:1, :, :2]
    for frame in range(1, frames):
        before = result[frame - 1]
        ways = before.copy()
        ways[:, 1:] = np.logaddexp(ways[:, 1:], before[:, :-1])
        ways[:, 2:] = np.where(may_skip[:, 2:], np.logaddexp(ways[:, 2:], before[:, :-2]), ways[:, 2:])
        result[frame] = np.where(never[frame], LOG_ZERO, np.maximum(ways + seen[frame], LOG_ZERO))
    return [result[: len(one), number, : one.shape[1]] for number, one in enumerate(emitted)]
