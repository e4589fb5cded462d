"""Which phones are wrong? ``python recognise.py run/test*.scores`` finds the best path of each utterance's scores.

The path goes through the states of the phones and from phone to phone as the bigram says, with the same weights as in
training. Its phones are compared with those that were said.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from make_data import PHONES, STATES, STAY, bigram, kind_of, states_of

LANGUAGE = 1.0
"""Weight of the bigram: ``seqGammarLMF``."""


def transitions() -> np.ndarray:
    """Log scores from state to state: on in the same phone, or to the first state of another one."""
    found = np.full((len(STATES), len(STATES)), -1e30)
    for before in range(len(PHONES)):
        own, stay = states_of(before), STAY[kind_of(before)]
        for place, state in enumerate(own):
            found[state, state] = np.log(stay)
            if place + 1 < len(own):
                found[state, own[place + 1]] = np.log(1 - stay)
        for after in range(len(PHONES)):
            score = np.log(1 - stay) + LANGUAGE * np.log(bigram()[before, after] + 1e-4)
            found[own[-1], states_of(after)[0]] = np.logaddexp(found[own[-1], states_of(after)[0]], score)
    return found


def best_phones(scores: np.ndarray) -> list[str]:
    """Return the phones of the best path, which begins with silence."""
    ways, first = transitions(), {states_of(phone)[0]: PHONES[phone] for phone in range(len(PHONES))}
    best = np.full(len(STATES), -1e30)
    best[states_of(len(PHONES) - 1)[0]] = 0.0
    came = []
    for number, frame in enumerate(scores):
        if number:
            came.append((best[:, None] + ways).argmax(axis=0))
            best = (best[:, None] + ways).max(axis=0)
        best = best + frame
    path = [int(best.argmax())]
    for back in reversed(came):
        path.append(int(back[path[-1]]))
    path.reverse()
    begins = [state for place, state in enumerate(path) if state in first and (place == 0 or path[place - 1] != state)]
    return [first[state] for state in begins]


def edits(said: list[str], heard: list[str]) -> int:
    """Return how many phones are missing, too much, or others."""
    row = list(range(len(heard) + 1))
    for place, one in enumerate(said, 1):
        corner, row[0] = row[0], place
        for index, other in enumerate(heard, 1):
            corner, row[index] = row[index], min(row[index] + 1, row[index - 1] + 1, corner + (one != other))
    return row[-1]


def main(folder: Path) -> None:
    """Compare all utterances of the test set."""
    wrong = total = 0
    for line in (folder / "test.said").read_text(encoding="utf-8").splitlines():
        key, *said = line.split()
        raw = (folder / "run" / f"{key}.scores").read_bytes()
        scores = np.frombuffer(raw, ">f4", offset=12).reshape(-1, len(STATES))
        wrong, total = wrong + edits(said, best_phones(scores)), total + len(said)
    print(f"{wrong} of {total} phones are wrong: {100 * wrong / total:.1f} %")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
