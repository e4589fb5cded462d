"""Kaldi's lattices as its archives have them: ``Lattice`` and ``CompactLattice``, in binary and in text form.

In binary form a lattice is a file of OpenFst (``vector``) without the zero byte and ``B`` of other objects: a head
with the kind of its arcs (``lattice4``, ``compactlattice44``; 8 in double precision), and for each state its final
weight and its arcs. A weight is two costs, of the graph and of the sound; in a compact lattice transition-ids stand
behind them. In text form an object begins with an empty line and ends with one, and has a line for each arc and each
final state. What costs infinitely much is no way, and left out.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import attrs

MAGIC = b"\xd6\xfd\xb2\x7e"
"""How a lattice in binary form begins."""

_HEAD = struct.Struct("<iiQqqq")
_KINDS = {
    b"lattice4": (struct.Struct("<ff"), False),
    b"lattice8": (struct.Struct("<dd"), False),
    b"compactlattice44": (struct.Struct("<ff"), True),
    b"compactlattice84": (struct.Struct("<dd"), True),
}
_COUNT = struct.Struct("<q")
_LABELS = struct.Struct("<ii")
_TARGET = struct.Struct("<i")
_SYMBOLS = 3
_BLOCK = 1 << 16
_NUMBER = re.compile(r"[0-9]{1,9}")
_COST = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:Infinity|inf|BadNumber|nan)")

ReadBytes = Callable[[int, int], bytes]
"""``(offset, count) -> bytes``, fewer at the end of the file."""


class NoLattice(Exception):
    """Bytes that are no lattice: where, and what is wrong."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(text)
        self.at = at
        self.text = text


@attrs.frozen
class Arc:
    """An arc from a state to a state; ``target`` is -1 of a final weight, which is an arc to the end.

    Attributes:
        source, target: the states.
        graph, sound: its costs.
        ids: its transition-ids, without those that have no frame.
    """

    source: int
    target: int
    graph: float
    sound: float
    ids: tuple[int, ...]


@attrs.frozen
class KaldiLattice:
    """A lattice of a file: its first state, and its arcs with the final weights among them."""

    start: int
    states: int
    arcs: Sequence[Arc]


def read_lattice(read: ReadBytes, at: int, size: int) -> tuple[KaldiLattice, int]:
    """Read the lattice at an offset, and return it with the offset after it.

    Args:
        read: reads bytes of the file.
        at: where it begins.
        size: bytes of the file.

    Raises:
        NoLattice: there is something else.
    """
    if read(at, 4) == MAGIC:
        return _Binary(read, at, size).read()
    return _read_text(read, at, size)


class _Binary:
    """Reads a lattice from its beginning to its end, through a window of bytes."""

    def __init__(self, read: ReadBytes, at: int, size: int) -> None:
        self._read = read
        self._size = size
        self._base = self._at = at
        self._window = b""

    def read(self) -> tuple[KaldiLattice, int]:
        begin = self._at
        self._take(4)
        form, kind = self._word(), self._word()
        if form != b"vector" or kind not in _KINDS:
            shown = f"{form.decode('ascii', 'replace')} of {kind.decode('ascii', 'replace')}"
            raise NoLattice(begin, f"'{shown}' is no lattice: arcs are {', '.join(one.decode() for one in _KINDS)}")
        _, flags, _, start, states, _ = self._unpack(_HEAD)
        if flags & _SYMBOLS:
            raise NoLattice(begin, "the lattice has tables of symbols, which Kaldi's do not")
        if not 0 <= states <= self._size or not -1 <= start < states:
            raise NoLattice(begin, f"a lattice of {states} states cannot begin in state {start}")
        cost, compact = _KINDS[kind]
        arcs: list[Arc] = []
        for state in range(states):
            self._state(state, states, cost, compact, arcs)
        return KaldiLattice(start, states, arcs), self._at

    def _state(self, state: int, states: int, cost: struct.Struct, compact: bool, arcs: list[Arc]) -> None:
        final = self._weight(cost, compact)
        _keep(Arc(state, -1, *final), arcs)
        (count,) = self._unpack(_COUNT)
        if not 0 <= count <= self._size:
            raise NoLattice(self._at, f"state {state} cannot have {count} arcs")
        for _ in range(count):
            place = self._at
            label, _ = self._unpack(_LABELS)
            graph, sound, ids = self._weight(cost, compact)
            (target,) = self._unpack(_TARGET)
            if not 0 <= target < states:
                raise NoLattice(place, f"an arc leads to state {target} of {states}")
            _keep(Arc(state, target, graph, sound, ids if compact else (label,) if label else ()), arcs)

    def _weight(self, cost: struct.Struct, compact: bool) -> tuple[float, float, tuple[int, ...]]:
        graph, sound = self._unpack(cost)
        if not compact:
            return graph, sound, ()
        (count,) = self._unpack(_TARGET)
        if not 0 <= count <= self._size:
            raise NoLattice(self._at, f"an arc cannot have {count} transition-ids")
        return graph, sound, struct.unpack(f"<{count}i", self._take(4 * count))

    def _word(self) -> bytes:
        (count,) = self._unpack(_TARGET)
        return self._take(count) if 0 <= count < 100 else b""

    def _unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self._take(form.size))

    def _take(self, count: int) -> bytes:
        place = self._at - self._base
        if place + count > len(self._window):
            self._window = self._read(self._at, max(count, _BLOCK))
            self._base, place = self._at, 0
            if len(self._window) < count:
                raise NoLattice(self._at, "the file ends inside a lattice")
        self._at += count
        return self._window[place : place + count]


def _keep(arc: Arc, arcs: list[Arc]) -> None:
    if math.isfinite(arc.graph) and math.isfinite(arc.sound):
        arcs.append(arc)


def _read_text(read: ReadBytes, at: int, size: int) -> tuple[KaldiLattice, int]:
    """Read lines up to an empty one."""
    text, begin = bytearray(), at
    while at < size and b"\n\n" not in text[1:]:
        block = read(at, _BLOCK)
        text += block
        at += len(block)
    blank = re.match(rb"[ \t]*\r?\n", text)
    if blank is None:
        raise NoLattice(begin, "a lattice begins with a number of OpenFst, or with an empty line")
    ending = re.compile(rb"\r?\n[ \t]*\r?\n").search(text, blank.end() - 1)
    end = len(text) if ending is None else ending.end()
    lines = bytes(text[blank.end() : end]).decode("ascii", "replace").splitlines()
    arcs: list[Arc] = []
    start = -1
    for number, line in enumerate(lines, 1):
        words = line.split()
        if words:
            arc = _text_arc(words)
            if arc is None:
                raise NoLattice(begin, f"line {number} of the lattice, '{line[:60]}', is no arc and no final state")
            start = arc.source if start < 0 else start
            _keep(arc, arcs)
    states = 1 + max((max(arc.source, arc.target) for arc in arcs), default=-1)
    return KaldiLattice(start, states, arcs), begin + end


def _text_arc(words: Sequence[str]) -> Arc | None:
    """Return an arc or a final weight of a line; None if it is neither.

    An acceptor (a compact lattice) has ``from to word weight``, else it is ``from to id word weight``; a weight that
    costs nothing may be left out. A weight has commas, which tells the two from each other.
    """
    weighted = "," in words[-1]
    numbers, weight = (words[:-1], words[-1]) if weighted else (words, "0,0")
    cost = _text_weight(weight)
    if cost is None or not all(map(_NUMBER.fullmatch, numbers)) or len(numbers) not in (1, 3, 4):
        return None
    graph, sound, ids = cost
    source, *rest = map(int, numbers)
    if not rest:
        return Arc(source, -1, graph, sound, ids)
    target, label = rest[:2]
    if len(rest) == 3:
        if ids:
            return None
        ids = (label,) if label else ()
    return Arc(source, target, graph, sound, ids)


def _text_weight(word: str) -> tuple[float, float, tuple[int, ...]] | None:
    parts = word.split(",")
    if len(parts) not in (2, 3) or not all(map(_COST.fullmatch, parts[:2])):
        return None
    ids = parts[2].split("_") if len(parts) == 3 and parts[2] else []
    if not all(map(_NUMBER.fullmatch, ids)):
        return None
    return float(parts[0]), float(parts[1]), tuple(map(int, ids))
