"""Sums over all paths of lattices: best alignments inside segments, forward and backward over arcs.

V. Valtchev et al., "MMIE training of large vocabulary recognition systems", Speech Communication 22, 1997, for the sums
over arcs; D. Povey, "Discriminative training for large vocabulary speech recognition", Cambridge 2003, section 6.3.1
(equations 6.9 to 6.14), for the mean number of correct frames of all paths and of those through an arc; D. Povey et
al., "Boosted MMI for model and feature-space discriminative training", ICASSP 2008, for boosting. As in the original
the frames of a segment have the states of its best path, not of all. All in the log domain, over all utterances of a
minibatch at once.
"""

from __future__ import annotations

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


@attrs.frozen(eq=False)
class Aligned:
    """The best path inside each segment.

    Attributes:
        scores: log likelihood of each segment. Shape ``(segments,)``.
        rows: rows of the minibatch of the frames of all segments, in an order of their own.
        classes: the state's class at each of these.
        segments: the segment of each.
    """

    scores: Numbers
    rows: IntArray
    classes: IntArray
    segments: IntArray


def align_segments(lattices: Lattices, logs: Numbers) -> Aligned:
    """Find the best path of states inside each segment, with Viterbi's algorithm over all segments together.

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
    scores = np.where(lengths > 0, out.max(axis=1, initial=LOG_ZERO), lattices.skip[order])
    place = out.argmax(axis=1) if len(out) else np.zeros(0, np.int64)
    numbers: list[list[IntArray]] = [[], [], []]
    for step in range(steps - 1, -1, -1):
        own = np.arange(alive[step])
        if step + 1 < steps:
            later = np.arange(alive[step + 1])
            place[later] = came[step][later, place[later]]
        for found, new in zip(
            numbers, (lattices.frames[offsets[own] + step], states[own, place[own]], order[own]), strict=True
        ):
            found.append(new)
    by_segment = np.empty_like(scores)
    by_segment[order] = np.maximum(scores, LOG_ZERO)
    rows, classes, segments = (np.concatenate([np.zeros(0, np.int64), *found]) for found in numbers)
    return Aligned(by_segment, rows, classes, segments)


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


def sum_paths(lattices: Lattices, acoustic: Numbers, matches: Numbers, weights: Weights) -> PathSums:
    """Sum over all paths.

    Args:
        lattices: the arcs.
        acoustic: log likelihood of each arc.
        matches: correct frames of each arc.
        weights: of the scores.
    """
    language = np.where(lattices.language < _NO_SCORE, 0.0, lattices.language)
    scores = (acoustic + weights.lmf * language + weights.word_penalty) / weights.amf - weights.boost * matches
    scores = np.where(acoustic < _NOTHING, LOG_ZERO, scores)
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
    totals = ahead[lattices.lasts]
    sums = ahead[lattices.begins] + scores + behind[lattices.ends] - totals[lattices.owners]
    alive = (totals > _NOTHING)[lattices.owners] & (scores > _NOTHING)
    chances = np.where(alive, np.exp(np.minimum(sums, 0.0)), 0.0)
    before = _means(lattices.steps, lattices.begins, lattices.ends, scores, ahead, matches)
    after = _means(lattices.steps[::-1], lattices.ends, lattices.begins, scores, behind, matches)
    through = before[lattices.begins] + matches + after[lattices.ends]
    return PathSums(totals, chances, before[lattices.lasts], through)


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
