"""Archives of lattices as the original's tools write them, and the files of a small recogniser."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

PHONES = ("a", "b", "sil", "sp")
NO_PHONE = 0x7FFFFFFF


@attrs.frozen
class Arc:
    """An arc: its nodes, its score, and phones with their frames."""

    begin: int
    end: int
    score: float
    phones: tuple[tuple[str, int], ...] = ()


@attrs.frozen
class Lattice:
    """A lattice: the frame of each node, and arcs in the order of their ends."""

    times: tuple[int, ...]
    arcs: tuple[Arc, ...]


def packed(unit: int, frames: int, last: bool = False) -> bytes:
    return struct.pack("<I", unit | frames << 19 | last << 31)


def second_version(lattice: Lattice, *, acoustic: bool = False) -> bytes:
    """As of today: equal alignments once, the short pause at an arc's end left out."""
    tokens, known, arcs = b"", {}, []
    for arc in lattice.arcs:
        phones = list(arc.phones)
        implied = len(phones) > 1 and phones[-1][0] == "sp"
        phones = phones[:-1] if implied else phones
        key = (arc.phones, arc.score)
        if key not in known:
            tokens += struct.pack("<f", -123.5) if acoustic else b""
            tokens += struct.pack("<f", arc.score)
            known[key] = len(tokens) // 4
            for place, (name, frames) in enumerate(phones):
                tokens += packed(PHONES.index(name), frames, place == len(phones) - 1)
        arcs.append(arc.begin | arc.end << 20 | implied << 39 | known[key] << 40)
    nodes = struct.pack(f"<{len(lattice.times)}H", *lattice.times)
    return (
        head(2, lattice, PHONES.index("sp"), acoustic)
        + vector(b"NODS", nodes, 2)
        + vector(b"EDGS", struct.pack(f"<{len(arcs)}Q", *arcs), 8)
        + vector(b"ALNS", tokens, 4)
        + b"END "
    )


def first_version(lattice: Lattice) -> bytes:
    """As long ago: scores within the arcs, all phones written out."""
    tokens, arcs = b"", b""
    for arc in lattice.arcs:
        arcs += struct.pack("<Qff", arc.begin | arc.end << 20 | len(tokens) // 4 << 40, -123.5, arc.score)
        tokens += b"".join(packed(PHONES.index(name), frames) for name, frames in arc.phones)
    nodes = struct.pack(f"<{len(lattice.times)}H", *lattice.times)
    return (
        head(1, lattice, NO_PHONE, True)
        + vector(b"NODE", nodes, 2)
        + vector(b"EDGE", arcs, 16)
        + vector(b"ALIG", tokens, 4)
        + b"END "
    )


def head(version: int, lattice: Lattice, pause: int, acoustic: bool) -> bytes:
    rest = lattice.times[-1] | pause << 32 | acoustic << 63
    sizes = struct.pack("<IIffdQ", len(lattice.times), len(lattice.arcs), 12.0, 0.0, 0.01, rest)
    return b"LAT " + struct.pack("<i", version) + sizes


def vector(tag: bytes, data: bytes, size: int) -> bytes:
    return tag + struct.pack("<i", len(data) // size) + data


def write_archive(folder: Path, name: str, lattices: Mapping[str, bytes], phones: Sequence[str] = PHONES) -> None:
    """Write an archive, its table of contents and its list of phones."""
    data, lines = b"", []
    for key, one in lattices.items():
        lines.append(f"{key}={name if not data else ''}[{len(data)}]\n")
        data += one
    (folder / name).write_bytes(data)
    (folder / f"{name}.toc").write_text("".join(lines))
    (folder / f"{name}.symlist").write_text("".join(f"{phone}\n" for phone in phones))


def write_recogniser(folder: Path) -> None:
    """Phones of one to three states, over six states."""
    (folder / "states.list").write_text("a[2]\na[3]\nb[2]\nsil[2]\nsil[3]\nsil[4]\n")
    (folder / "phones.tying").write_text(
        "a two a[2] a[3]\nb one b[2]\nsil three sil[2] sil[3] sil[4]\nsp pause sil[3]\n"
    )
    (folder / "phones.transitions").write_text(
        "one 1 1 0 0.75 0.25\n"
        "two 2 1 0 0 0.5 0.5 0 0 0.75 0.25\n"
        "three 3 1 0 0 0 0.5 0.5 0 0 0 0.5 0.5 0 0 0 0.5 0.5\n"
        "pause 1 0.5 0.5 0.5 0.5\n"
    )
