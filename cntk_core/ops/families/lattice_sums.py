"""Sums over all paths of lattices: best alignments inside segments, forward and backward over arcs.

V. Valtchev et al., "MMIE training of large vocabulary recognition systems", Speech Communication 22, 1997, for the sums
over arcs; D. Povey, "Discriminative training for large vocabulary speech recognition", Cambridge 2003, section 6.3.1
(equations 6.9 to 6.14), for the mean number of correct frames of all paths and of those through an arc; D. Povey et
al., "Boosted MMI for model and feature-space discriminative training", ICASSP 2008, for boosting. As in the original
the frames of a segment have the states of its best path, not of all. All in the log domain, over all utterances of a
minibatch at once.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.families.lattices import LOG_ZERO, Lattices
from cntk_core.records.layout import IntArray

Numbers = NDArray[np.float64]

_NOTHING = LOG_ZERO / 2
"""What is below counts as the logarithm of nothing."""

_NO_SCORE = -200.0
"""Scores of a language model below are those of words that have none, such as a sentence's begin: they count as 0."""


Sweep = tuple[Numbers, Numbers, Numbers, Numbers]


@attrs.frozen
class Sums:
    """What computes best paths and sums over arcs: NumPy, or what an engine has compiled.

    Attributes:
        best_paths, sweep: as the functions of these names below.
    """

    best_paths: Callable[[Lattices, Numbers], tuple[Numbers, IntArray]]
    sweep: Callable[[Lattices, Numbers, Numbers], Sweep]


@attrs.frozen(eq=False)
class Aligned:
    """The best path inside each segment.

    Attributes:
        scores: log likelihood of each segment. Shape ``(segments,)``.
        rows: rows of the minibatch of the frames of all segments, one segment after the other.
        classes: the state's class at each of these.
        segments: the segment of each.
    """

    scores: Numbers
    rows: IntArray
    classes: IntArray
    segments: IntArray


def align_segments(lattices: Lattices, logs: Numbers, sums: Sums) -> Aligned:
    """Find the best path of states inside each segment.

    Args:
        lattices: the segments.
        logs: log likelihoods, ``(rows, classes)``.
        sums: what computes it.
    """
    scores, classes = sums.best_paths(lattices, logs)
    segments = np.repeat(np.arange(len(lattices.lengths)), lattices.lengths)
    return Aligned(np.maximum(scores, LOG_ZERO), lattices.frames, classes, segments)


def best_paths(lattices: Lattices, logs: Numbers) -> tuple[Numbers, IntArray]:
    """Return the best score of each segment, and the classes of its frames, with Viterbi's algorithm over all together.

    Args:
        lattices: the segments.
        logs: log likelihoods, ``(rows, classes)``.
    """
    order = np.argsort(-lattices.lengths, kind="stable")
    lengths = lattices.lengths[order]
    states = lattices.states[order]
    offsets = (np.cumsum(lattices.lengths) - lattices.lengths)[order]
    absent = states < 0
    inner, leave = lattices.inner[order], np.where(absent, LOG_ZERO, lattices.leave[order])
    best = np.where(absent, LOG_ZERO, lattices.enter[order])
    steps = int(lengths[0]) if len(lengths) else 0
    alive = [int(np.searchsorted(-lengths, -step, side="left")) for step in range(steps)]
    came: list[IntArray] = []
    for step, count in enumerate(alive):
        if step:
            ways = best[:count, :, None] + inner[:count]
            came.append(ways.argmax(axis=1))
            best[:count] = ways.max(axis=1)
        rows = lattices.frames[offsets[:count] + step]
        seen = logs[rows[:, None], states[:count]]
        best[:count] = np.maximum(np.where(absent[:count], LOG_ZERO, best[:count] + seen), LOG_ZERO)
    out = best + leave
    scores = np.empty_like(lattices.skip)
    scores[order] = np.where(lengths > 0, out.max(axis=1, initial=LOG_ZERO), lattices.skip[order])
    place = out.argmax(axis=1) if len(out) else np.zeros(0, np.int64)
    classes = np.empty_like(lattices.frames)
    for step in range(steps - 1, -1, -1):
        own = np.arange(alive[step])
        if step + 1 < steps:
            later = np.arange(alive[step + 1])
            place[later] = came[step][later, place[later]]
        classes[offsets[own] + step] = states[own, place[own]]
    return scores, classes


@attrs.frozen
class Weights:
    """How scores are put together: ``(acoustic + lmf * language + wp) / amf``, less ``boost`` for a correct frame."""

    amf: float = 14.0
    lmf: float = 14.0
    word_penalty: float = 0.0
    boost: float = 0.0


@attrs.frozen(eq=False)
class PathSums:
    """Sums over all paths of each lattice.

    Attributes:
        totals: log sum of all paths of each utterance, ``LOG_ZERO`` where there is none. Shape ``(utterances,)``.
        chances: of each arc, given the utterance. Shape ``(arcs,)``.
        correct: mean number of correct frames of all paths. Shape ``(utterances,)``.
        through: that of the paths through each arc. Shape ``(arcs,)``.
    """

    totals: Numbers
    chances: Numbers
    correct: Numbers
    through: Numbers


def sum_paths(lattices: Lattices, acoustic: Numbers, matches: Numbers, weights: Weights, sums: Sums) -> PathSums:
    """Sum over all paths.

    Args:
        lattices: the arcs.
        acoustic: log likelihood of each arc.
        matches: correct frames of each arc.
        weights: of the scores.
        sums: what computes it.
    """
    language = np.where(lattices.language < _NO_SCORE, 0.0, lattices.language)
    scores = (acoustic + weights.lmf * language + weights.word_penalty) / weights.amf - weights.boost * matches
    scores = np.where(acoustic < _NOTHING, LOG_ZERO, scores)
    ahead, behind, before, after = sums.sweep(lattices, scores, matches)
    totals = ahead[lattices.lasts]
    shares = ahead[lattices.begins] + scores + behind[lattices.ends] - totals[lattices.owners]
    alive = (totals > _NOTHING)[lattices.owners] & (scores > _NOTHING)
    chances = np.where(alive, np.exp(np.minimum(shares, 0.0)), 0.0)
    through = before[lattices.begins] + matches + after[lattices.ends]
    return PathSums(totals, chances, before[lattices.lasts], through)


def sweep(lattices: Lattices, scores: Numbers, matches: Numbers) -> Sweep:
    """Go forward and backward over the arcs.

    Args:
        lattices: the arcs.
        scores: of each arc.
        matches: correct frames of each arc.

    Returns:
        For each node: log sum of all ways from the first node, and to the last one; mean number of correct frames of
        the ways from the first, and to the last.
    """
    ahead = np.full(lattices.nodes, LOG_ZERO)
    ahead[lattices.firsts] = 0.0
    for arcs in lattices.steps:
        ways = ahead[lattices.begins[arcs]] + scores[arcs]
        np.logaddexp.at(ahead, lattices.ends[arcs], np.maximum(ways, LOG_ZERO))
    behind = np.full(lattices.nodes, LOG_ZERO)
    behind[lattices.lasts] = 0.0
    for arcs in reversed(lattices.steps):
        ways = behind[lattices.ends[arcs]] + scores[arcs]
        np.logaddexp.at(behind, lattices.begins[arcs], np.maximum(ways, LOG_ZERO))
    before = _means(lattices.steps, lattices.begins, lattices.ends, scores, ahead, matches)
    after = _means(lattices.steps[::-1], lattices.ends, lattices.begins, scores, behind, matches)
    return ahead, behind, before, after


def _means(
    steps: tuple[IntArray, ...], source: IntArray, target: IntArray, scores: Numbers, sums: Numbers, matches: Numbers
) -> Numbers:
    """Return the mean number of correct frames of all ways to each node, by their log sums."""
    means = np.zeros_like(sums)
    for arcs in steps:
        share = np.exp(np.minimum(sums[source[arcs]] + scores[arcs] - sums[target[arcs]], 0.0))
        dead = (sums[target[arcs]] < _NOTHING) | (scores[arcs] < _NOTHING)
        gain = (means[source[arcs]] + matches[arcs]) * np.where(dead, 0.0, share)
        np.add.at(means, target[arcs], gain)
    return means


BY_NUMPY = Sums(best_paths, sweep)
