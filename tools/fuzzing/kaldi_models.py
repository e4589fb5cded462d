"""Kaldi's lattices, transition models and networks of nnet1: what is read has to agree with itself.

The first byte of an input says which it is. The arcs of a lattice fit the times of its nodes, a transition model has a
pdf and a phone for each transition, and a network that is written is read back as the same.
"""

from __future__ import annotations

import random
import struct

import numpy as np
from cntk_reader_kaldi.lattice_file import NoLattice, read_lattice
from cntk_reader_kaldi.lattice_paths import Scales, find_paths, lattice_rows_of
from cntk_reader_kaldi.nnet1_format import Nnet1Format
from cntk_reader_kaldi.transition_model import TransitionModel, read_transition_model

from cntk_core.api import CntkError, DataError, Location, NetworkError, core_ops
from fuzzing.engine import Finding, mutated, same
from fuzzing.files import folder, plain, write

_IDS = 9
_WHERE = Location("fuzzed")


def make(pick: random.Random) -> bytes:
    kind = pick.randrange(3)
    data = (_lattice, _model, _network)[kind](pick)
    return bytes([kind]) + (mutated(data, pick) if pick.random() < 0.6 else data)


def check(data: bytes) -> None:
    (_check_lattice, _check_model, _check_network)[(data[0] if data else 0) % 3](data[1:])


# -- lattices ---------------------------------------------------------------------------------------------


def _lattice(pick: random.Random) -> bytes:
    """A chain of states with several arcs between them, which have equally many frames."""
    states, compact = pick.choice((2, 3, 4)), pick.random() < 0.7
    arcs = []
    for state in range(states - 1):
        frames = pick.choice((1, 2)) if compact else 1
        for _ in range(pick.choice((1, 2, 3))):
            ids = [pick.randrange(1, _IDS + 1) for _ in range(frames)]
            arcs.append((state, state + 1, pick.choice((0.0, 1.5, 400.0)), ids))
    return _lattice_text(states, arcs, compact) if pick.random() < 0.5 else _lattice_binary(states, arcs, compact)


def _lattice_text(states: int, arcs: list[tuple[int, int, float, list[int]]], compact: bool) -> bytes:
    lines = []
    for source, target, cost, ids in arcs:
        weight = f"{cost},1," + "_".join(map(str, ids)) if compact else f"{cost},1"
        lines.append(f"{source} {target} " + ("7 " if compact else f"{ids[0]} 7 ") + weight)
    return ("\n" + "\n".join([*lines, str(states - 1)]) + "\n\n").encode()


def _lattice_binary(states: int, arcs: list[tuple[int, int, float, list[int]]], compact: bool) -> bytes:
    kind = b"compactlattice44" if compact else b"lattice4"
    data = b"\xd6\xfd\xb2\x7e\6\0\0\0vector" + struct.pack("<i", len(kind)) + kind
    data += struct.pack("<iiQqqq", 2, 0, 0, 0, states, 0)
    nothing = struct.pack("<i", 0) if compact else b""
    for state in range(states):
        end = 0.0 if state == states - 1 else float("inf")
        own = [arc for arc in arcs if arc[0] == state]
        data += struct.pack("<ff", end, end) + nothing + struct.pack("<q", len(own))
        for _, target, cost, ids in own:
            data += struct.pack("<iiff", 7 if compact else ids[0], 7, cost, 1.0)
            data += struct.pack(f"<i{len(ids)}i", len(ids), *ids) if compact else b""
            data += struct.pack("<i", target)
    return data


def _check_lattice(data: bytes) -> None:
    try:
        lattice, end = read_lattice(lambda at, count: data[at : at + count], 0, len(data))
    except NoLattice as error:
        raise DataError(error.text) from None
    if not 0 < end <= len(data):
        raise Finding(f"a lattice of {len(data)} bytes ends at {end}")
    paths = find_paths(lattice)
    numbers = np.arange(-1, _IDS, dtype=np.int32)
    rows = lattice_rows_of(paths, TransitionModel(write("m", b""), numbers, numbers), Scales())
    heads = np.flatnonzero(rows[:, 5])
    lengths = np.add.reduceat(rows[:, 3], heads)
    inner = rows[heads, 1] < len(paths.times)
    times = np.array(paths.times, np.float64)[rows[heads[inner], 1].astype(int)]
    same("times", plain(rows[heads[inner], 2] + lengths[inner]), plain(times))
    if rows[:, 4].min() < -200:
        raise Finding("a score is smaller than the criterion takes")


# -- transition models ------------------------------------------------------------------------------------


def _model(pick: random.Random) -> bytes:
    states = "".join(
        f"<State> {one} <PdfClass> {one} <Transition> {one} 0.5 <Transition> {one + 1} 0.5 </State> "
        for one in range(2)
    )
    entry = f"<TopologyEntry> <ForPhones> 1 2 </ForPhones> {states}<State> 2 </State> </TopologyEntry>"
    tuples = [f"{phone} {state} {pick.randrange(4)}" for phone in (1, 2) for state in (0, 1)]
    triples = f"<Triples> {len(tuples)} {' '.join(tuples)} </Triples>"
    if pick.random() < 0.5:
        return f"<TransitionModel> <Topology> {entry} </Topology> {triples}".encode()
    word = b"\4" + struct.pack("<i", 1)
    pair = word + word[:1] + struct.pack("<i", 0) + b"\4" + struct.pack("<f", 1)
    body = b"\4" + struct.pack("<iii", 2, -1, 0) + word + word + word[:1] + struct.pack("<i", 0) + pair
    return (
        b"\0B<TransitionModel> <Topology> "
        + word
        + struct.pack("<i", 1)
        + body
        + b"</Topology> <Triples> "
        + (word + word + (b"\4" + struct.pack("<i", 0)) * 2 + b"</Triples> ")
    )


def _check_model(data: bytes) -> None:
    found = read_transition_model(write("final.mdl", data), _WHERE)
    same("sizes", len(found.pdfs), len(found.phones))
    if found.pdfs[1:].min() < 0:
        raise Finding("a transition has no pdf")


# -- networks ---------------------------------------------------------------------------------------------


def _network(pick: random.Random) -> bytes:
    size = pick.choice((1, 2))
    parts, given = [], size
    for _ in range(pick.choice((1, 2, 3))):
        kind = pick.choice(("AffineTransform", "Sigmoid", "AddShift", "Splice", "Softmax"))
        output = {"AffineTransform": 2, "Splice": 2 * given}.get(kind, given)
        values = {"AffineTransform": 2 * given, "AddShift": given}.get(kind, 0)
        text = f"<{kind}> {output} {given} "
        if values:
            text += f"<LearnRateCoef> 1 [ {' '.join(str(pick.choice((0.5, -1, 2))) for _ in range(values))} ] "
        text += {"AffineTransform": "[ 0 1 ] ", "Splice": "[ -1 0 ] "}.get(kind, "")
        parts.append(text + ("<!EndOfComponent> " if pick.random() < 0.5 else ""))
        given = output
    return ("<Nnet> " + "\n".join(parts) + "</Nnet> ").encode()


def _check_network(data: bytes) -> None:
    form = Nnet1Format()
    network = form.load(write("a.nnet", data), core_ops().find, np.float32)
    try:
        form.save(network, folder() / "b.nnet")
    except (CntkError, NetworkError) as error:
        raise Finding(f"what was read cannot be written: {error}") from None
    again = form.load(folder() / "b.nnet", core_ops().find, np.float32)
    same("values", [plain(one.value) for one in again.parameters], [plain(one.value) for one in network.parameters])
