"""Lattices as a stream of a minibatch: a sequence of rows for each utterance, on a dynamic axis of its own.

A lattice has nodes, from the first to the last of which each path is a way of saying the utterance, and arcs between
them. An arc is a row of *segments*: phones with their times, or runs of frames with one state. A segment is a hidden
Markov model of at most three states which fills its frames; a row of the stream is one segment:

========  ==================================================================================================
columns   what
========  ==================================================================================================
0, 1      nodes at which the arc begins and ends; a negative begin: a segment of the reference, not of an arc
2, 3      first frame and number of frames; none for a segment that is passed over
4         score of the language model for the arc (in its first row)
5         1 in the first row of an arc, 0 in its others
6         1 + n where n frames of the arc count as correct, whatever the labels are: 1 where the arc is silence
7 to 9    the states' classes, -1 for one that is not there
10 to 12  log probabilities to enter each state
13 to 21  log probabilities from each state (row) to each state
22 to 24  log probabilities to leave from each state
25        log probability to pass over the segment without a frame
========  ==================================================================================================

The first node is 0; the last is the one from which no arc goes. Whole numbers are small enough for single precision.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import DataError
from cntk_core.ops.families.frame_moves import need_whole
from cntk_core.ops.language.rows import SequenceTable, sequence_rows, sequence_table
from cntk_core.records.layout import IntArray, SequenceLayout

Numbers = NDArray[np.float64]

LATTICE_COLUMNS = 26
"""Numbers of a row."""

STATES = 3
"""Most states of a segment."""

HIDDEN_INPUT = "lattices"
"""Name of the network's input for lattices, where a recipe names none."""

LOG_ZERO = -1e30
"""Logarithm of nothing."""

_ENTER, _INNER, _LEAVE, _PASS = slice(10, 13), slice(13, 22), slice(22, 25), 25


@attrs.frozen(eq=False)
class Lattices:
    """All lattices of a minibatch, segment by segment and arc by arc.

    Attributes:
        frames: rows of the minibatch for the frames of the segments, those of each in the order of time.
        lengths: frames of each segment. Shape ``(segments,)``.
        states: classes, ``(segments, 3)``; -1 where there is none.
        enter, inner, leave, skip: log probabilities, ``(segments, 3)``, ``(segments, 3, 3)``, ``(segments, 3)`` and
            ``(segments,)``.
        arcs: the arc of each segment; -1 of the reference.
        begins, ends: nodes of each arc, numbered over all lattices. Shape ``(arcs,)``.
        language: scores of the language model. Shape ``(arcs,)``.
        correct: 1 + the frames of an arc that count as correct; 0: those that have their label. Shape ``(arcs,)``.
        owners: the utterance of each arc, a place in the table of sequences.
        firsts, lasts: the first and last node of each utterance. Shape ``(utterances,)``.
        nodes: how many there are in all.
        steps: arcs in an order in which each comes after those that end where it begins: those of each step of the
            recursion. All arcs out of a node are in one step, next to each other.
    """

    frames: IntArray
    lengths: IntArray
    states: IntArray
    enter: Numbers
    inner: Numbers
    leave: Numbers
    skip: Numbers
    arcs: IntArray
    begins: IntArray
    ends: IntArray
    language: Numbers
    correct: Numbers
    owners: IntArray
    firsts: IntArray
    lasts: IntArray
    nodes: int
    steps: tuple[IntArray, ...]


def read_lattices(values: Numbers, lattices: SequenceLayout, layout: SequenceLayout, who: str) -> Lattices:
    """Return the lattices of a minibatch.

    Args:
        values: rows as above, ``(rows, 26)``.
        lattices: their sequences.
        layout: the sequences of the frames.
        who: the operation, for messages.

    Raises:
        DataError: sequences are cut; one has no lattice, or one of another length, or one that is none.
    """
    for each in (layout, lattices):
        need_whole(each, who)
    own, table = sequence_rows(lattices), sequence_table(layout)
    order = np.lexsort((own.step, own.number))
    rows, places = values[order], table.find(own.number[order])
    known = places >= 0
    rows, places = rows[known], places[known]
    _check_lengths(rows, places, table, who)
    begins = (rows[:, 5] > 0) & (rows[:, 0] >= 0)
    arcs = np.where(rows[:, 0] >= 0, np.cumsum(begins) - 1, -1)
    heads, owners = rows[begins], places[begins]
    offsets, nodes = _offsets(heads, owners, len(table.number))
    ends, starts = (heads[:, column].astype(np.int64) + offsets[owners] for column in (1, 0))
    lengths = rows[:, 3].astype(np.int64)
    return Lattices(
        frames=_frame_rows(rows[:, 2].astype(np.int64), lengths, places, table, layout),
        lengths=lengths,
        states=rows[:, 7:10].astype(np.int64),
        enter=rows[:, _ENTER],
        inner=rows[:, _INNER].reshape(-1, STATES, STATES),
        leave=rows[:, _LEAVE],
        skip=rows[:, _PASS],
        arcs=arcs,
        begins=starts,
        ends=ends,
        language=heads[:, 4],
        correct=heads[:, 6],
        owners=owners,
        firsts=offsets,
        lasts=_last_nodes(starts, ends, owners, table, who),
        nodes=nodes,
        steps=_steps(starts, ends, nodes, who),
    )


def _check_lengths(rows: Numbers, places: IntArray, table: SequenceTable, who: str) -> None:
    """Raise where an utterance has no lattice, or one that ends at another frame."""
    arcs = rows[:, 0] >= 0
    ends = np.zeros(len(table.number), np.int64)
    np.maximum.at(ends, places[arcs], (rows[:, 2] + rows[:, 3]).astype(np.int64)[arcs])
    counts = np.bincount(places[arcs], minlength=len(table.number))
    missing = np.flatnonzero(counts == 0)
    if len(missing):
        raise DataError(f"{who}: sequence {int(table.number[missing[0]])} of the minibatch has no lattice")
    wrong = np.flatnonzero(ends != table.length)
    if len(wrong):
        place = int(wrong[0])
        raise DataError(
            f"{who}: a sequence has {int(table.length[place])} frames, and its lattice {int(ends[place])}",
            hint="The lattices have to be made of the same features, with the same frame shift.",
        )


def _offsets(heads: Numbers, owners: IntArray, count: int) -> tuple[IntArray, int]:
    """Return the number of the first node of each utterance over all of them, and how many nodes there are."""
    sizes = np.zeros(count, np.int64)
    np.maximum.at(sizes, owners, heads[:, :2].max(axis=1, initial=-1).astype(np.int64) + 1)
    ends = np.cumsum(sizes)
    return ends - sizes, int(ends[-1]) if count else 0


def _frame_rows(
    firsts: IntArray, lengths: IntArray, places: IntArray, table: SequenceTable, layout: SequenceLayout
) -> IntArray:
    """Return the row of the minibatch for each frame of each segment."""
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return table.rows(layout, np.repeat(places, lengths), np.repeat(firsts, lengths) + within)


def _last_nodes(begins: IntArray, ends: IntArray, owners: IntArray, table: SequenceTable, who: str) -> IntArray:
    """Return the node of each utterance from which no arc goes."""
    final = np.setdiff1d(ends, begins)
    by_node = dict(zip(ends.tolist(), owners.tolist(), strict=True))
    found = np.full(len(table.number), -1, np.int64)
    for node in final.tolist():
        place = by_node[node]
        if found[place] >= 0:
            raise DataError(f"{who}: a lattice ends in more than one node")
        found[place] = node
    if len(found) and found.min() < 0:
        raise DataError(f"{who}: a lattice goes round in a circle")
    return found


def _steps(begins: IntArray, ends: IntArray, nodes: int, who: str) -> tuple[IntArray, ...]:
    """Order the arcs as :class:`Lattices` says: nodes come when all arcs to them have (Kahn's algorithm)."""
    order = np.argsort(begins, kind="stable")
    counts = np.bincount(begins, minlength=nodes)
    starts = np.cumsum(counts) - counts
    waiting = np.bincount(ends, minlength=nodes)
    ready = np.flatnonzero((waiting == 0) & (counts > 0))
    steps: list[IntArray] = []
    while len(ready):
        sizes = counts[ready]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        steps.append(order[np.repeat(starts[ready], sizes) + within])
        reached = ends[steps[-1]]
        np.subtract.at(waiting, reached, 1)
        reached = np.unique(reached)
        ready = reached[(waiting[reached] == 0) & (counts[reached] > 0)]
    if sum(map(len, steps)) < len(begins):
        raise DataError(f"{who}: a lattice goes round in a circle")
    return tuple(steps)
