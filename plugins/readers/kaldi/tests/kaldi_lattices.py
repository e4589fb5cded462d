"""Lattices and transition models as Kaldi writes them, put together from the description of its formats."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

INFINITE = (math.inf, math.inf, ())


class Edge(NamedTuple):
    """An arc: states, word, costs of graph and sound, transition-ids (one or none where arcs are not compact)."""

    source: int
    target: int
    word: int
    graph: float
    sound: float
    ids: tuple[int, ...] = ()


class Fst(NamedTuple):
    """States are counted from 0; ``finals`` are costs and transition-ids by state."""

    states: int
    edges: Sequence[Edge]
    finals: Mapping[int, tuple[float, float, tuple[int, ...]]]
    start: int = 0

    def ways(self) -> Iterator[tuple[tuple[int, ...], float, float]]:
        """Yield all ways: transition-ids, and costs of graph and sound."""
        yield from self._from(self.start)

    def _from(self, state: int) -> Iterator[tuple[tuple[int, ...], float, float]]:
        if state in self.finals:
            graph, sound, ids = self.finals[state]
            yield ids, graph, sound
        for edge in self.edges:
            if edge.source == state:
                for ids, graph, sound in self._from(edge.target):
                    yield edge.ids + ids, edge.graph + graph, edge.sound + sound


def word(text: bytes) -> bytes:
    return struct.pack("<i", len(text)) + text


def binary(fst: Fst, *, compact: bool, double: bool = False) -> bytes:
    """Return a lattice in binary form: what OpenFst writes, without Kaldi's own head."""
    size = 8 if double else 4
    form = "<dd" if double else "<ff"
    kind = f"compactlattice{size}4" if compact else f"lattice{size}"
    head = struct.pack("<iiQqqq", 2, 0, 0x69954203, fst.start, fst.states, 0)
    data = b"\xd6\xfd\xb2\x7e" + word(b"vector") + word(kind.encode()) + head

    def weight(graph: float, sound: float, ids: tuple[int, ...]) -> bytes:
        found = struct.pack(form, graph, sound)
        return found + struct.pack(f"<i{len(ids)}i", len(ids), *ids) if compact else found

    for state in range(fst.states):
        data += weight(*fst.finals.get(state, INFINITE))
        edges = [edge for edge in fst.edges if edge.source == state]
        data += struct.pack("<q", len(edges))
        for edge in edges:
            label = edge.word if compact else edge.ids[0] if edge.ids else 0
            data += struct.pack("<ii", label, edge.word) + weight(edge.graph, edge.sound, edge.ids)
            data += struct.pack("<i", edge.target)
    return data


def text(fst: Fst, *, compact: bool) -> bytes:
    """Return a lattice in text form; the lines of the first state stand before all others."""
    lines = []
    for state in sorted(range(fst.states), key=lambda one: (one != fst.start, one)):
        for edge in fst.edges:
            if edge.source == state:
                label = edge.ids[0] if edge.ids else 0
                labels = [edge.word] if compact else [label, edge.word]
                lines.append("\t".join(map(str, (state, edge.target, *labels))) + _cost(edge[3:], compact))
        if state in fst.finals:
            lines.append(f"{state}{_cost(fst.finals[state], compact)}")
    return ("\n" + "\n".join(lines) + "\n\n").encode()


def _cost(weight: tuple[float, float, tuple[int, ...]], compact: bool) -> str:
    graph, sound, ids = weight
    if not graph and not sound and not (ids and compact):
        return ""
    return f"\t{graph:.9g},{sound:.9g}" + (f",{'_'.join(map(str, ids))}" if compact else "")


class Model(NamedTuple):
    """Kinds of phones (each a list of states, each a list of targets), the kind of each phone, and the tuples."""

    kinds: Sequence[Sequence[Sequence[int]]]
    phones: Mapping[int, int]
    tuples: Sequence[tuple[int, int, int, int]]
    apart: bool = False

    def transitions(self) -> list[tuple[int, int]]:
        """Return phone and pdf of each transition-id, from 1 on."""
        found = [(-1, -1)]
        for phone, state, forward, looped in self.tuples:
            for target in self.kinds[self.phones[phone]][state]:
                found.append((phone, looped if target == state else forward))
        return found


SILENCE_AND_WORDS = Model(
    [[[0, 1, 2], [1, 2], []], [[0, 1], []]],
    {1: 0, 2: 1, 3: 1},
    [(1, 0, 0, 0), (1, 1, 3, 3), (2, 0, 1, 1), (3, 0, 2, 2)],
)
"""Phone 1 is silence of two states with pdfs 0 and 3 (ids 1 to 5); 2 and 3 have pdf 1 (6, 7) and 2 (8, 9)."""

CHAIN = Model([[[0, 1], []]], {1: 0, 2: 0}, [(1, 0, 0, 1), (2, 0, 2, 3)], apart=True)
"""As chain models have: the transition to the same state has a pdf of its own."""


def _number(value: int) -> bytes:
    return b"\4" + struct.pack("<i", value)


def _numbers(values: Sequence[int]) -> bytes:
    return _number(len(values)) + struct.pack(f"<{len(values)}i", *values)


def binary_model(model: Model, behind: bytes = b"<DIMENSION> and so on") -> bytes:
    """Return a transition model in binary form, with something behind it."""
    kinds = [-1] * (max(model.phones) + 1)
    for phone, kind in model.phones.items():
        kinds[phone] = kind
    data = b"\0B<TransitionModel> <Topology> " + _numbers(sorted(model.phones)) + _numbers(kinds)
    data += (_number(-1) if model.apart else b"") + _number(len(model.kinds))
    for states in model.kinds:
        data += _number(len(states))
        for number, targets in enumerate(states):
            pdf = _number(number if targets else -1)
            data += pdf * (2 if model.apart else 1) + _number(len(targets))
            data += b"".join(_number(one) + b"\4" + struct.pack("<f", 1 / len(targets)) for one in targets)
    name = b"Tuples" if model.apart else b"Triples"
    data += b"</Topology> <" + name + b"> " + _number(len(model.tuples))
    data += b"".join(_number(one) for row in model.tuples for one in row[: 4 if model.apart else 3])
    logs = np.full(len(model.transitions()), -0.7, "<f4")
    data += b"</" + name + b"> <LogProbs> FV " + _number(len(logs)) + logs.tobytes()
    return data + b"</LogProbs> </TransitionModel> " + behind


def text_model(model: Model) -> bytes:
    """Return a transition model in text form."""
    lines = ["<TransitionModel> ", "<Topology> "]
    for kind, states in enumerate(model.kinds):
        own = [str(phone) for phone, one in model.phones.items() if one == kind]
        lines += ["<TopologyEntry> ", "<ForPhones> ", " ".join(own), "</ForPhones> "]
        for number, targets in enumerate(states):
            pdfs = f"<ForwardPdfClass> {number} <SelfLoopPdfClass> 1 " if model.apart else f"<PdfClass> {number} "
            moves = "".join(f"<Transition> {one} {1 / len(targets):g} " for one in targets)
            lines.append(f"<State> {number} {pdfs if targets else ''}{moves}</State> ")
        lines.append("</TopologyEntry> ")
    name = "Tuples" if model.apart else "Triples"
    lines += ["</Topology> ", f"<{name}> {len(model.tuples)} "]
    lines += [" ".join(map(str, row[: 4 if model.apart else 3])) + " " for row in model.tuples]
    lines += [f"</{name}> ", "<LogProbs> ", " [ 0 -0.7 -0.7 ]", "</LogProbs> ", "</TransitionModel> "]
    return "\n".join(lines).encode() + b"\n"
