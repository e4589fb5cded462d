"""Kernels of sequence training over lattices, in double precision. Compiled by :func:`.compiler.compile_file`.

Segments, arcs and nodes are those of all utterances of a minibatch, as ``cntk_core.ops.families.lattices`` has them.
"""

from __future__ import annotations

import math
from typing import Any

from cntk_engine_cpu.functions import logaddexp, maximum, minimum

LOG_ZERO = -1e30
"""Logarithm of nothing."""

NOTHING = -5e29
"""What is below counts as the logarithm of nothing."""


def best_paths(
    logs: Any,
    frames: Any,
    lengths: Any,
    states: Any,
    enter: Any,
    inner: Any,
    leave: Any,
    best: Any,
    came: Any,
    scores: Any,
    classes: Any,
) -> None:
    """Find the best path of states inside each segment.

    Args:
        logs: log likelihoods ``(rows, classes)``.
        frames: rows of the segments' frames, one segment after the other.
        lengths, states, enter, inner, leave: of each segment; ``inner`` is ``(segments, 9)``.
        best: room for two scores of three states.
        came: room for a state of each frame and each of three states.
        scores: of the segments; is left alone where they have no frames.
        classes: of the frames.
    """
    first = 0
    for segment in range(lengths.shape[0]):
        last = first + lengths[segment]
        for frame in range(first, last):
            for state in range(3):
                if states[segment, state] < 0:
                    best[1, state] = LOG_ZERO
                elif frame == first:
                    best[1, state] = maximum(
                        enter[segment, state] + logs[frames[frame], states[segment, state]], LOG_ZERO
                    )
                else:
                    way = best[0, 0] + inner[segment, state]
                    came[frame, state] = 0
                    for before in range(1, 3):
                        other = best[0, before] + inner[segment, 3 * before + state]
                        if other > way:
                            way = other
                            came[frame, state] = before
                    best[1, state] = maximum(way + logs[frames[frame], states[segment, state]], LOG_ZERO)
            for state in range(3):
                best[0, state] = best[1, state]
        if last > first:
            place = 0
            score = LOG_ZERO + LOG_ZERO + LOG_ZERO
            for state in range(3):
                if states[segment, state] >= 0:
                    out = best[0, state] + leave[segment, state]
                    if out > score:
                        score = out
                        place = state
            scores[segment] = maximum(score, LOG_ZERO)
            for back in range(last - first):
                frame = last - 1 - back
                classes[frame] = states[segment, place]
                if frame > first:
                    place = came[frame, place]
        first = last


def sum_ahead(order: Any, begins: Any, ends: Any, scores: Any, sums: Any) -> None:
    """Add up the ways to each node; ``sums`` are those of the first nodes, and nothing elsewhere."""
    for place in range(order.shape[0]):
        arc = order[place]
        way = maximum(sums[begins[arc]] + scores[arc], LOG_ZERO)
        sums[ends[arc]] = logaddexp(sums[ends[arc]], way)


def mean_ahead(order: Any, begins: Any, ends: Any, scores: Any, sums: Any, matches: Any, means: Any) -> None:
    """Add up the mean number of correct frames of all ways to each node, by their log sums."""
    for place in range(order.shape[0]):
        arc = order[place]
        begin, end = begins[arc], ends[arc]
        if sums[end] >= NOTHING and scores[arc] >= NOTHING:
            share = math.exp(minimum(sums[begin] + scores[arc] - sums[end], 0.0))
            means[end] += (means[begin] + matches[arc]) * share
