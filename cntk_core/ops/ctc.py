"""Alignments of a label sequence with frames, by the forward-backward recursion of CTC.

A. Graves et al., "Connectionist temporal classification", ICML 2006, equations 6 to 16: the labels with a blank before,
between and after them make a path; a frame stays at its place of the path, goes one on, or skips a blank between two
different labels. All is in the log domain.
"""

from __future__ import annotations

from itertools import pairwise

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.op import Array, OpContext

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
    emitted = logs[:, path.tokens]
    barred = _barred(path, len(logs), delay)
    skips = np.zeros(len(path.tokens), bool)
    skips[3::2] = path.tokens[3::2] != path.tokens[1:-2:2]
    forward = _recursion(emitted, skips, barred)
    # Backwards the path is read from its end; a place is skipped to if it may skip forward.
    backward = _recursion(emitted[::-1, ::-1], _reversed(skips), barred[::-1, ::-1])[::-1, ::-1]
    log_chance = float(np.logaddexp.reduce(backward[0, :2]))
    occupation = np.exp(np.minimum(forward + backward - emitted - log_chance, 0.0))
    if log_chance <= LOG_ZERO / 2:
        # More labels than frames: nothing is learned from such a sequence.
        return Alignment(log_chance, np.exp(logs))
    posterior = occupation @ np.eye(logs.shape[1])[path.tokens]
    total = posterior.sum(axis=1, keepdims=True)
    return Alignment(log_chance, np.divide(posterior, total, out=posterior, where=total > 0.0))


def _reversed(skips: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which places may be skipped to when the path is read backwards: those from which a skip goes."""
    result = np.zeros_like(skips)
    result[:-2] = skips[2:]
    return result[::-1]


def _barred(path: PhonePath, frames: int, delay: int) -> NDArray[np.bool_]:
    """Which places no alignment may have at which frame; the first and last frame are free in their recursion."""
    count = len(path.tokens)
    if delay < 0:
        return np.zeros((frames, count), bool)
    # Two places on stands what comes after the phone; after the last phone that is the end. CNTK allows the blank at
    # the end of the path only within the delay of the begin, and in the last frame, where the recursion begins.
    after = np.full(count, frames, np.int64)
    after[:-2] = path.bounds[2:]
    after[-1] = 0
    latest = after + delay - (path.tokens == path.blank)
    return np.asarray(np.arange(frames)[:, None] > latest)


def _recursion(emitted: Numbers, skips: NDArray[np.bool_], barred: NDArray[np.bool_]) -> Numbers:
    """Log chances of all ways from the begin to each place at each frame: ``(frames, places)``."""
    result = np.full_like(emitted, LOG_ZERO)
    result[0, :2] = emitted[0, :2]
    for frame in range(1, len(emitted)):
        before = result[frame - 1]
        ways = before.copy()
        ways[1:] = np.logaddexp(ways[1:], before[:-1])
        ways[2:] = np.where(skips[2:], np.logaddexp(ways[2:], before[:-2]), ways[2:])
        result[frame] = np.where(barred[frame], LOG_ZERO, np.maximum(ways + emitted[frame], LOG_ZERO))
    return result
