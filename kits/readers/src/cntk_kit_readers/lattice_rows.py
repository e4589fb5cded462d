"""Rows of a lattice: what readers of lattices give ``SequenceWithSoftmax``.

The columns are described in :mod:`cntk_core.ops.families.lattices`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.families.lattices import HIDDEN_INPUT, LOG_ZERO
from cntk_core.ops.families.lattices import LATTICE_COLUMNS as LATTICE_COLUMNS
from cntk_core.ops.families.lattices import STATES as STATES


@attrs.frozen(eq=False)
class HiddenMarkovModel:
    """States of a phone, and how it goes from one to the next.

    Attributes:
        states: classes, at most three.
        logs: log probabilities ``(states + 1, states + 1)``: from the begin and from each state (rows) to each state
            and to the end (columns).
        silence: whether it is silence.
    """

    states: tuple[int, ...]
    logs: NDArray[np.float64]
    silence: bool = False

    def row(self) -> NDArray[np.float64]:
        """Return columns 7 to 25 of a segment with it."""
        count = len(self.states)
        found = np.full(LATTICE_COLUMNS - 7, LOG_ZERO)
        found[:STATES] = -1
        found[:count] = self.states
        found[3 : 3 + count] = self.logs[0, :count]
        found[6:15].reshape(STATES, STATES)[:count, :count] = self.logs[1:, :count]
        found[15 : 15 + count] = self.logs[1:, count]
        found[18] = self.logs[0, count]
        return found


_ONE_STATE = np.zeros((2, 2))


def run_of(state: int) -> HiddenMarkovModel:
    """Return the model of a run of frames that are all in one state."""
    return HiddenMarkovModel((state,), _ONE_STATE)


def lattice_segments(
    begins: NDArray[Any],
    ends: NDArray[Any],
    firsts: NDArray[Any],
    scores: NDArray[Any],
    counts: NDArray[Any],
    models: Sequence[HiddenMarkovModel],
    kinds: NDArray[Any],
    frames: NDArray[Any],
) -> NDArray[np.float64]:
    """Return the rows of a lattice.

    Args:
        begins, ends: nodes of each arc, the first one 0; a negative begin is the reference. Shape ``(arcs,)``.
        firsts: frame at which each arc begins.
        scores: of the language model, for each arc.
        counts: segments of each arc.
        models: all that segments have.
        kinds: which of them each segment has, arc by arc.
        frames: of the segments.

    Returns:
        ``(rows, 26)``; an arc without segments has one row.
    """
    used = np.maximum(counts, 1)
    arcs = np.repeat(np.arange(len(begins)), used)
    heads = np.cumsum(used) - used
    real = np.repeat(counts > 0, used)
    rows = np.full((len(arcs), LATTICE_COLUMNS), LOG_ZERO)
    rows[:, :7] = 0.0
    rows[:, 0], rows[:, 1], rows[:, 4] = begins[arcs], ends[arcs], scores[arcs]
    rows[heads, 5] = 1.0
    rows[real, 3] = frames
    passed = np.cumsum(rows[:, 3]) - rows[:, 3]
    rows[:, 2] = firsts[arcs] + passed - passed[heads][arcs]
    rows[~real, 7:10], rows[~real, -1] = -1.0, 0.0
    if len(kinds):
        used_kinds, places = np.unique(kinds, return_inverse=True)
        chosen = [models[kind] for kind in used_kinds.tolist()]
        rows[real, 7:] = np.stack([model.row() for model in chosen])[places]
        spoken = np.zeros(len(arcs))
        spoken[real] = np.array([not model.silence for model in chosen])[places]
        silent = (counts > 0) & (np.bincount(arcs, spoken, len(begins)) == 0)
        rows[:, 6] = silent[arcs]
    return rows


def lattice_input(inputs: Mapping[str, tuple[int, ...]], name: str) -> str | None:
    """Return the network's input that a stream of lattices feeds: that of its name, or else the hidden one.

    None if the network needs no lattices.
    """
    for wanted in (name, HIDDEN_INPUT):
        for known in inputs:
            if known.lower() == wanted.lower():
                return known
    return None


@attrs.frozen(eq=False)
class Segment:
    """A phone and its frames."""

    model: HiddenMarkovModel
    frames: int


class LatticeRows:
    """Gathers the rows of a lattice.

    Attributes:
        rows: so far.
    """

    def __init__(self) -> None:
        self.rows: list[NDArray[np.float64]] = []

    def add_arc(self, begin: int, end: int, first: int, segments: Sequence[Segment], score: float = 0.0) -> None:
        """Add an arc.

        Args:
            begin, end: its nodes; the first node of the lattice is 0. A negative begin is the reference.
            first: frame at which it begins.
            segments: its phones, one after the other; nothing for an arc without frames.
            score: of the language model.
        """
        one = np.ones(1)
        frames = np.array([segment.frames for segment in segments], np.float64)
        models = [segment.model for segment in segments]
        count = np.array([len(segments)])
        heads = (begin * one, end * one, first * one, score * one)
        self.rows.append(lattice_segments(*heads, count, models, np.arange(len(models)), frames))

    def array(self) -> NDArray[np.float64]:
        """Return the rows, ``(rows, 26)``."""
        return np.concatenate(self.rows) if self.rows else np.zeros((0, LATTICE_COLUMNS))
