"""Turn what the recipe wrote into phones, and compare them with the label file.

python transcribe.py

At each frame the best class counts; neighbours that are equal count once, and blanks are dropped.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path


def read_best(path: Path, names: list[str]) -> list[list[str]]:
    """Return the phones of each utterance in a file of the action `write`; the last name is the blank."""
    utterances: list[list[str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        chances = [float(chance) for chance in line.split()]
        if len(chances) == len(names):
            utterances[-1].append(names[chances.index(max(chances))])
        else:  # the number of the utterance stands before it
            utterances.append([])
    return [[name for name, _ in groupby(best) if name != names[-1]] for best in utterances]


def read_labels(path: Path) -> dict[str, list[str]]:
    """Return the phones of each utterance in a master label file, by its name."""
    labels: dict[str, list[str]] = {}
    phones: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith('"'):
            phones = labels.setdefault(Path(line.strip('"')).stem, [])
        elif line[:1].isdigit():
            phones.append(line.split()[2])
    return labels


def edits(left: list[str], right: list[str]) -> int:
    """Return how many phones have to be put in, left out or exchanged to turn one list into the other."""
    row = list(range(len(right) + 1))
    for i, one in enumerate(left, 1):
        above, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            above, row[j] = row[j], min(above + (one != other), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def main(folder: Path) -> None:
    """Print what was said and found where they differ, and how many phones are wrong."""
    found = read_best(folder / "run" / "out.p", (folder / "phones.list").read_text(encoding="utf-8").split())
    said = read_labels(folder / "test.mlf")
    wrong = 0
    for (name, phones), best in zip(said.items(), found, strict=True):
        wrong += edits(phones, best)
        if best != phones:
            print(f"{name}\n  said  {' '.join(phones)}\n  found {' '.join(best)}")
    total = sum(map(len, said.values()))
    print(f"{wrong} of {total} phones are wrong: {100 * wrong / total:.1f} %")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
