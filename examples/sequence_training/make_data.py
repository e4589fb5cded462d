"""Speech of a made-up language, and the lattices that a recogniser of it would leave: ``python make_data.py [SEED]``.

Eight phones of two states and silence follow each other as a bigram says. Vowels are long, consonants short: most
frames are of vowels, half of the phones are consonants. What tells vowels from each other lies in one half of a frame's
numbers, what tells consonants in the other, and there is noise on all. The lattice of an utterance has at the times of
its phones, and at the middle of each, the phones that fit the frames best and those that were said.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np

VOWELS, CONSONANTS = ("a", "e", "i", "o"), ("k", "p", "s", "t")
PHONES = (*VOWELS, *CONSONANTS, "sil")
STATES = tuple(f"{phone}[{place}]" for phone in PHONES for place in ((2, 3) if phone != "sil" else (2,)))
DIM = 12
NOISE = 0.8
STAY = {"vowel": 0.85, "consonant": 0.3, "sil": 0.8}
"""How probable it is that a state goes on for another frame."""

FITTING = 3
"""Phones that a lattice has for a piece of an utterance, beside the one that was said."""

FARTHEST = 3
"""Pieces, two for each phone that was said, that a phone of a lattice may fill."""


def kind_of(phone: int) -> str:
    """Vowel, consonant or sil."""
    return "vowel" if PHONES[phone] in VOWELS else "sil" if PHONES[phone] == "sil" else "consonant"


def bigram() -> np.ndarray:
    """Probabilities that a phone (row) is followed by a phone (column), never by itself."""
    found = np.random.default_rng(3).dirichlet(np.full(len(PHONES), 0.5), len(PHONES))
    np.fill_diagonal(found, 0.0)
    return found / found.sum(axis=1, keepdims=True)


def states_of(phone: int) -> list[int]:
    """The states of a phone, by their numbers."""
    return [number for number, state in enumerate(STATES) if state.startswith(f"{PHONES[phone]}[")]


def means() -> np.ndarray:
    """The frame of each state without noise."""
    found, half = np.random.default_rng(5).normal(size=(len(STATES), DIM)), DIM // 2
    for phone in range(len(PHONES)):
        if kind_of(phone) == "vowel":
            found[states_of(phone), half:] *= 0.2
        if kind_of(phone) == "consonant":
            found[states_of(phone)] *= np.repeat([0.2, 1.5], half)
    return found


def speak(rng: np.random.Generator, phones: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the phones of an utterance with their frames, and the state of each frame."""
    said, spoken, states = len(PHONES) - 1, [], []
    for _ in range(phones):
        own = np.repeat(states_of(said), rng.geometric(1 - STAY[kind_of(said)], len(states_of(said)))).tolist()
        spoken.append((said, len(own)))
        states += own
        said = int(rng.choice(len(PHONES), p=bigram()[said]))
    return spoken, states


def frames_of(rng: np.random.Generator, states: list[int]) -> np.ndarray:
    """Return the features of some states."""
    return (means()[states] + NOISE * rng.normal(size=(len(states), DIM))).astype(">f4")


def fitting(seen: np.ndarray, first: int, last: int, said: list[int]) -> list[int]:
    """Return the phones that fit some frames best, and those of them that were said.

    Args:
        seen: log likelihood of each state at each frame, summed up to it, with a row of zeros in front.
        first, last: from which frame to which.
        said: the phones that were said there.
    """
    scores = {}
    for phone in range(len(PHONES)):
        own = states_of(phone)
        cuts = range(first + 1, last) if len(own) == 2 else [last]
        ways = [seen[cut, own[0]] - seen[first, own[0]] + seen[last, own[-1]] - seen[cut, own[-1]] for cut in cuts]
        if ways:
            scores[phone] = max(ways)
    best = sorted(scores, key=lambda phone: -scores[phone])[:FITTING]
    return sorted({*best, *(phone for phone in said if phone in scores)})


def lattice(spoken: list[tuple[int, int]], frames: np.ndarray) -> bytes:
    """Return the lattice of an utterance in the binary form of CNTK's archives.

    There is a node for each phone at each time, for the bigram needs to know the phone before. Behind the last
    boundary arcs without frames lead to the end.
    """
    halves = [(phone, half) for phone, count in spoken for half in (count // 2, count - count // 2) if half]
    ends, count = np.cumsum([half for _, half in halves]), len(PHONES)
    distances = ((frames[:, None] - means()) ** 2).sum(axis=2)
    seen = np.concatenate([np.zeros((1, len(STATES))), np.cumsum(-distances / 2 / NOISE**2, axis=0)])
    scores = np.log(bigram() + 1e-4)
    times = [0, *np.repeat(ends, count).tolist(), int(ends[-1])]
    arcs = []
    for place in range(len(halves)):
        for back in range(1, min(FARTHEST, place + 1) + 1):
            node = 1 + (place - back) * count
            before = [(node + phone, phone) for phone in range(count)] if place >= back else [(0, count - 1)]
            first, last = int(ends[place - back]) if place >= back else 0, int(ends[place])
            said = [phone for phone, _ in halves[place - back + 1 : place + 1]]
            arcs += [
                (1 + place * count + phone, begin, scores[known, phone], phone, last - first)
                for phone in fitting(seen, first, last, said)
                for begin, known in before
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
        spoken, states = speak(rng, int(rng.integers(10, 18)))
        frames = frames_of(rng, states)
        head = struct.pack(">iihh", len(states), 100_000, 4 * DIM, 9)
        (folder / name / f"{key}.fea").write_bytes(head + frames.tobytes())
        script.append(f"{key}.fea={name}/{key}.fea\n")
        said.append(" ".join([key, *(PHONES[phone] for phone, _ in spoken)]) + "\n")
        labels += [f'"*/{key}.lab"', *(f"{t} {t + 1} {STATES[state]}" for t, state in enumerate(states)), "."]
        table.append(f"{key}={f'{name}.lats' if not archive else ''}[{len(archive)}]\n")
        archive += lattice(spoken, frames) if name == "train" else b""
    (folder / f"{name}.scp").write_text("".join(script), encoding="utf-8")
    (folder / f"{name}.said").write_text("".join(said), encoding="utf-8")
    (folder / f"{name}.mlf").write_text("\n".join(labels) + "\n", encoding="utf-8")
    if archive:
        (folder / f"{name}.lats").write_bytes(archive)
        (folder / f"{name}.lats.toc").write_text("".join(table), encoding="utf-8")
        (folder / f"{name}.lats.symlist").write_text("".join(f"{phone}\n" for phone in PHONES), encoding="utf-8")
    outputs = "".join(f"run/{name}{number:04d}.scores\n" for number in range(count))
    (folder / f"{name}.out.scp").write_text(outputs, encoding="utf-8")


def write_phones(folder: Path) -> None:
    """Write the states of the phones and the probabilities between them."""
    tying = "".join(
        f"{phone} {kind_of(number)} {' '.join(STATES[state] for state in states_of(number))}\n"
        for number, phone in enumerate(PHONES)
    )
    moves = ""
    for kind, stay in STAY.items():
        go = f"{1 - stay:g}"
        moves += f"{kind} 1 1 0 {stay} {go}\n" if kind == "sil" else f"{kind} 2 1 0 0 {stay} {go} 0 0 {stay} {go}\n"
    (folder / "states.list").write_text("".join(f"{state}\n" for state in STATES), encoding="utf-8")
    # CNTK wants a short pause among the phones, which nobody says here.
    (folder / "phones.tying").write_text(f"{tying}sp pause sil[2]\n", encoding="utf-8")
    (folder / "phones.transitions").write_text(f"{moves}pause 1 0.5 0.5 0.5 0.5\n", encoding="utf-8")


def main(folder: Path, train: int = 150, test: int = 300, seed: int = 1) -> None:
    """Write the data and the files of the recogniser."""
    rng = np.random.default_rng(seed)
    write_set(folder, "train", train, rng)
    write_set(folder, "test", test, rng)
    write_phones(folder)


if __name__ == "__main__":
    main(Path(__file__).parent, seed=int(sys.argv[1]) if len(sys.argv) > 1 else 1)
