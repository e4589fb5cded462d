"""What a lattice of Kaldi becomes for ``SequenceWithSoftmax``: arcs of runs of classes, between numbered nodes.

States that lead nowhere are left out, final weights become arcs to one last node, and arcs that can only follow each
other are one. The time of a node is the number of transition-ids of any way to it: all ways have the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError
from cntk_core.api.readers import lattice_rows
from cntk_reader_kaldi.lattice_file import Arc, KaldiLattice
from cntk_reader_kaldi.transition_model import TransitionModel

_LEAST = -150.0
"""A smaller score is spread over arcs without frames: the criterion takes very small ones for words without any."""

_MOST = 1e5
"""An arc that costs more would be thousands of arcs, and is a mistake of whoever wrote it."""

_END = -1


@attrs.frozen
class Scales:
    """How the score of an arc is made of its costs: ``-(graph * of graph + sound * of sound)``."""

    graph: float = 1.0
    sound: float = 0.0


@attrs.frozen(eq=False)
class Counting:
    """Which frames count as correct.

    Attributes:
        phones: those of the same phone (``mpfe``), not of the same class (``smbr``).
        silence: the phones that are silence.
        one_class: two frames of silence are the same; else silence is never correct.
    """

    phones: bool
    silence: NDArray[np.int32]
    one_class: bool

    def correct(self, model: TransitionModel, ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which transition-ids count as correct where others are wanted."""
        silent = np.isin(model.phones[ids], self.silence)
        names = model.phones if self.phones else model.pdfs
        same: NDArray[np.bool_] = names[ids] == names[wanted]
        if self.one_class:
            return same | (silent & np.isin(model.phones[wanted], self.silence))
        return same & ~silent


@attrs.frozen(eq=False)
class Paths:
    """A lattice whose states are numbered from the first to the last, each before those that come after it.

    Attributes:
        arcs: source and target are such numbers.
        times: frame of each node.
    """

    arcs: Sequence[Arc]
    times: Sequence[int]

    @property
    def frames(self) -> int:
        """Frames of the utterance."""
        return self.times[-1]


def find_paths(lattice: KaldiLattice) -> Paths:
    """Order a lattice.

    Raises:
        DataError: it goes round in a circle, has no way to its end, or ways of different lengths.
    """
    arcs = _joined(_useful(lattice), lattice.start)
    outgoing: dict[int, list[Arc]] = {}
    waiting: dict[int, int] = {}
    for arc in arcs:
        outgoing.setdefault(arc.source, []).append(arc)
        waiting[arc.target] = waiting.get(arc.target, 0) + 1
    times, numbers = {lattice.start: 0}, dict[int, int]()
    ready = [] if lattice.start in waiting else [lattice.start]
    while ready:
        state = ready.pop()
        if state != _END:
            numbers[state] = len(numbers)
        for arc in outgoing.get(state, ()):
            time = times[state] + len(arc.ids)
            if times.setdefault(arc.target, time) != time:
                text = f"two ways of the lattice to the same state have {times[arc.target]} and {time} frames"
                raise DataError(text, hint="Make the lattice again; lattice-copy tells whether it is one.")
            waiting[arc.target] -= 1
            if not waiting[arc.target]:
                ready.append(arc.target)
    if any(waiting.values()):
        raise DataError("the lattice goes round in a circle", hint="Lattices of utterances have no circles.")
    numbers[_END] = len(numbers)
    found = [Arc(numbers[one.source], numbers[one.target], one.graph, one.sound, one.ids) for one in arcs]
    return Paths(found, [times[state] for state in numbers])


def _useful(lattice: KaldiLattice) -> list[Arc]:
    """Return the arcs of ways from the first state to the end."""
    ahead = _reached(lattice.start, [(arc.source, arc.target) for arc in lattice.arcs])
    behind = _reached(_END, [(arc.target, arc.source) for arc in lattice.arcs])
    found = [arc for arc in lattice.arcs if arc.source in ahead and arc.target in behind]
    if lattice.start < 0 or not found:
        raise DataError("the lattice has no way to its end", hint="Leave the utterance out of the table.")
    return found


def _reached(start: int, steps: Sequence[tuple[int, int]]) -> set[int]:
    following: dict[int, list[int]] = {}
    for source, target in steps:
        following.setdefault(source, []).append(target)
    found, waiting = {start}, [start]
    while waiting:
        for target in following.get(waiting.pop(), ()):
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def _joined(arcs: Sequence[Arc], start: int) -> list[Arc]:
    """Join arcs between which there is no choice: those of ``Lattice`` have one frame each."""
    into: dict[int, int] = {}
    outgoing: dict[int, list[Arc]] = {}
    for arc in arcs:
        into[arc.target] = into.get(arc.target, 0) + 1
        outgoing.setdefault(arc.source, []).append(arc)
    inner = {state for state, own in outgoing.items() if len(own) == 1 and into.get(state) == 1 and state != start}
    found = []
    for arc in arcs:
        if arc.source in inner:
            continue
        if arc.target not in inner:
            found.append(arc)
            continue
        chain = [arc]
        while chain[-1].target in inner:
            chain.append(outgoing[chain[-1].target][0])
        ids = tuple(one for part in chain for one in part.ids)
        graph, sound = sum(part.graph for part in chain), sum(part.sound for part in chain)
        found.append(Arc(arc.source, chain[-1].target, graph, sound, ids))
    return found


def lattice_rows_of(
    paths: Paths,
    model: TransitionModel,
    scales: Scales,
    counting: Counting | None = None,
    wanted: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return the rows of a lattice.

    Args:
        paths: the lattice.
        model: what its transition-ids stand for.
        scales: of its costs.
        counting: which frames count as correct; None: those that have their label.
        wanted: transition-ids of the utterance, for ``counting``.

    Raises:
        DataError: it has transition-ids that the model has not, or costs that cannot be, or the alignment has another
            length.
    """
    ids = np.array([one for arc in paths.arcs for one in arc.ids], np.int64)
    wrong = model.unknown(ids)
    if wrong is not None:
        raise model.says(wrong)
    lengths = np.array([len(arc.ids) for arc in paths.arcs], np.int64)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    begins, ends = (np.array([getattr(arc, name) for arc in paths.arcs], np.int64) for name in ("source", "target"))
    firsts = np.array(paths.times, np.int64)[begins]
    pdfs = model.pdfs[ids].astype(np.int64)
    heads = np.flatnonzero(np.append(True, (np.diff(pdfs) != 0) | (np.diff(owners) != 0))[: len(pdfs)])
    runs = np.diff(np.append(heads, len(pdfs)))
    classes, kinds = np.unique(pdfs[heads], return_inverse=True)
    models = [lattice_rows.run_of(int(one)) for one in classes]
    counts = np.bincount(owners[heads], minlength=len(lengths))
    scores = np.array([-(scales.graph * arc.graph + scales.sound * arc.sound) for arc in paths.arcs])
    begins, extra = _spread(begins, firsts, scores, len(paths.times))
    rows = lattice_rows.lattice_segments(
        begins, ends, firsts, np.maximum(scores, _LEAST), counts, models, kinds.reshape(-1), runs
    )
    if counting is not None and wanted is not None:
        within = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        right = counting.correct(model, ids, _checked(wanted, model, paths.frames)[firsts[owners] + within])
        totals = np.bincount(owners[right], minlength=len(lengths)) + 1.0
        rows[:, 6] = np.repeat(totals, np.maximum(counts, 1))
    return np.concatenate([rows, extra])


def _checked(wanted: NDArray[np.int64], model: TransitionModel, frames: int) -> NDArray[np.int64]:
    """Return an alignment. Raises DataError if it does not fit the lattice or the model."""
    if len(wanted) != frames:
        text = f"the alignment has {len(wanted)} frames, and the lattice {frames}"
        raise DataError(text, hint="Both have to be made of the same features.")
    wrong = model.unknown(wanted)
    if wrong is not None:
        raise model.says(wrong)
    return wanted


def _spread(
    begins: NDArray[np.int64], firsts: NDArray[np.int64], scores: NDArray[np.float64], nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Put arcs without frames before those whose score is too small, and return where these begin, and the rows."""
    if scores.min(initial=0.0) < -_MOST:
        text = f"an arc of the lattice costs {-scores.min():g}"
        raise DataError(
            text, hint=f"Costs are negative logarithms, below {_MOST:g}; lmScale and oldAcousticScale count."
        )
    begins, extra = begins.copy(), lattice_rows.LatticeRows()
    for arc in np.flatnonzero(scores < _LEAST).tolist():
        rest = float(scores[arc]) - _LEAST
        while rest < 0.0:
            extra.add_arc(int(begins[arc]), nodes, int(firsts[arc]), (), max(rest, _LEAST))
            rest, begins[arc], nodes = rest - _LEAST, nodes, nodes + 1
    return begins, extra.array()
