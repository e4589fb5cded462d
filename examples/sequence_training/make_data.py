"""Speech of a made-up language, and the lattices that a recogniser of it would leave: ``python make_data.py``.

Six phones of two states and silence follow each other as a bigram says. A frame is the mean of its state and noise that
goes on from frame to frame, which no recogniser of single frames knows. The lattice of an utterance has at the times of
its phones each phone that there is, with the bigram's score, and for each two neighbours one phone in their place.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np

PHONES = ("a", "e", "k", "m", "s", "t", "sil")
STATES = tuple(f"{phone}[{place}]" for phone in PHONES for place in ((2, 3) if phone != "sil" else (2,)))
DIM = 8
NOISE = 0.5
STAY = 0.65
FARTHEST = 3
"""Pieces, two for each phone that was said, that a phone of a lattice may fill."""


def bigram() -> np.ndarray:
    """Probabilities that a phone (row) is followed by a phone (column)."""
    return np.random.default_rng(3).dirichlet(np.full(len(PHONES), 0.35), len(PHONES))


def states_of(phone: int) -> list[int]:
    """The states of a phone, by their numbers."""
    return [number for number, state in enumerate(STATES) if state.startswith(f"{PHONES[phone]}[")]


def speak(rng: np.random.Generator, phones: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the phones of an utterance with their frames, and the state of each frame."""
    said, spoken, states = len(PHONES) - 1, [], []
    for _ in range(phones):
        own = np.repeat(states_of(said), rng.geometric(1 - STAY, len(states_of(said)))).tolist()
        spoken.append((said, len(own)))
        states += own
        said = int(rng.choice(len(PHONES), p=bigram()[said]))
    return spoken, states


def frames_of(rng: np.random.Generator, states: list[int]) -> np.ndarray:
    """Return the features of some states."""
    means = np.random.default_rng(5).normal(size=(len(STATES), DIM))
    noise = rng.normal(size=(len(states), DIM))
    for frame in range(1, len(states)):
        noise[frame] = NOISE * noise[frame - 1] + np.sqrt(1 - NOISE**2) * noise[frame]
    return (means[states] + 1.1 * noise).astype(">f4")


def lattice(spoken: list[tuple[int, int]]) -> bytes:
    """Return the lattice of an utterance in the binary form of CNTK's archives.

    There is a node for each phone at each time, for the bigram needs to know the phone before. Behind the last
    boundary arcs without frames lead to the end.
    """
    cuts = [half for _, frames in spoken for half in (frames // 2, frames - frames // 2) if half]
    ends, count = np.cumsum(cuts), len(PHONES)
    scores = np.log(bigram() + 1e-4)
    times = [0, *np.repeat(ends, count).tolist(), int(ends[-1])]
    arcs = []
    for place in range(len(cuts)):
        for back in range(1, min(FARTHEST, place + 1) + 1):
            node = 1 + (place - back) * count
            before = [(node + phone, phone) for phone in range(count)] if place >= back else [(0, count - 1)]
            frames = int(ends[place] - (ends[place - back] if place >= back else 0))
            arcs += [
                (1 + place * count + phone, begin, scores[known, phone], phone, frames)
                for begin, known in before
                for phone in range(count)
                if frames >= len(states_of(phone))
            ]
    last = len(times) - 1
    arcs += [(last, last - count + phone, 0.0, None, 0) for phone in range(count)]
    return binary(times, used(arcs, last))


def used(arcs: list[tuple], last: int) -> list[tuple]:
    """Leave out arcs that no path from the first to the last node has, and sort the others by their ends."""
    arcs = sorted(arcs, key=lambda arc: arc[:2])
    ahead, behind = {0}, {last}
    for end, begin, *_ in arcs:
        if begin in ahead:
            ahead.add(end)
    for end, begin, *_ in reversed(arcs):
        if end in behind:
            behind.add(begin)
    return [arc for arc in arcs if arc[1] in ahead and arc[0] in behind]


def binary(times: list[int], arcs: list[tuple]) -> bytes:
    """Write version 1 of CNTK's lattices."""
    edges, phones = b"", b""
    for end, begin, score, phone, frames in arcs:
        edges += struct.pack("<Qff", begin | end << 20 | len(phones) // 4 << 40, 0.0, score)
        phones += b"" if phone is None else struct.pack("<I", phone | frames << 19)
    nodes = struct.pack(f"<{len(times)}H", *times)
    head = struct.pack("<IIffdQ", len(times), len(arcs), 1.0, 0.0, 0.01, times[-1] | 0x7FFFFFFF << 32 | 1 << 63)
    vectors = ((b"NODE", nodes, 2), (b"EDGE", edges, 16), (b"ALIG", phones, 4))
    body = b"".join(tag + struct.pack("<i", len(data) // size) + data for tag, data, size in vectors)
    return b"LAT " + struct.pack("<i", 1) + head + body + b"END "


def write_set(folder: Path, name: str, count: int, rng: np.random.Generator) -> None:
    """Write the utterances of a set: features, labels, what was said, and for training lattices."""
    (folder / name).mkdir(exist_ok=True)
    labels, script, said, table, archive = ["#!MLF!#"], [], [], [], b""
    for number in range(count):
        key = f"{name}{number:04d}"
        spoken, states = speak(rng, int(rng.integers(8, 16)))
        head = struct.pack(">iihh", len(states), 100_000, 4 * DIM, 9)
        (folder / name / f"{key}.fea").write_bytes(head + frames_of(rng, states).tobytes())
        script.append(f"{key}.fea={name}/{key}.fea\n")
        said.append(" ".join([key, *(PHONES[phone] for phone, _ in spoken)]) + "\n")
        labels += [f'"*/{key}.lab"', *(f"{t} {t + 1} {STATES[state]}" for t, state in enumerate(states)), "."]
        table.append(f"{key}={f'{name}.lats' if not archive else ''}[{len(archive)}]\n")
        archive += lattice(spoken) if name == "train" else b""
    (folder / f"{name}.scp").write_text("".join(script), encoding="utf-8")
    (folder / f"{name}.said").write_text("".join(said), encoding="utf-8")
    (folder / f"{name}.mlf").write_text("\n".join(labels) + "\n", encoding="utf-8")
    if archive:
        (folder / f"{name}.lats").write_bytes(archive)
        (folder / f"{name}.lats.toc").write_text("".join(table), encoding="utf-8")
        (folder / f"{name}.lats.symlist").write_text("".join(f"{phone}\n" for phone in PHONES), encoding="utf-8")
    outputs = "".join(f"run/{name}{number:04d}.scores\n" for number in range(count))
    (folder / f"{name}.out.scp").write_text(outputs, encoding="utf-8")


def main(folder: Path, train: int = 400, test: int = 150) -> None:
    """Write the data and the files of the recogniser."""
    rng = np.random.default_rng(1)
    write_set(folder, "train", train, rng)
    write_set(folder, "test", test, rng)
    tying = "".join(
        f"{phone} t{len(states_of(number))} {' '.join(STATES[state] for state in states_of(number))}\n"
        for number, phone in enumerate(PHONES)
    )
    go = 1 - STAY
    (folder / "states.list").write_text("".join(f"{state}\n" for state in STATES), encoding="utf-8")
    # CNTK wants a short pause among the phones, which nobody says here.
    (folder / "phones.tying").write_text(f"{tying}sp pause sil[2]\n", encoding="utf-8")
    (folder / "phones.transitions").write_text(
        f"t1 1 1 0 {STAY} {go}\nt2 2 1 0 0 {STAY} {go} 0 0 {STAY} {go}\npause 1 0.5 0.5 {STAY} {go}\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
