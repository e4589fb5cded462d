"""Count the words that the decoders pronounced as the rules do.

python accuracy.py
"""

from __future__ import annotations

import sys
from pathlib import Path

END = "</s>"


def read_decoded(path: Path) -> list[str]:
    """Return the phones of each word, up to its end, in a file of the action `write`."""
    words: list[list[str]] = []
    for line in path.read_text(encoding="utf-8").split():
        if line.isdigit():  # the number of the word stands before it
            words.append([])
        else:
            words[-1].append(line)
    return [" ".join(phones[: [*phones, END].index(END)]) for phones in words]


def main(folder: Path) -> None:
    """Print the part of right words for each file that a decoder wrote, and the mistakes of the best one."""
    tested = [line.split("\t") for line in (folder / "test.txt").read_text(encoding="utf-8").splitlines()]
    mistakes: dict[str, list[str]] = {}
    for path in sorted(folder.glob("run/*/*.network.decodeOut")):
        pairs = zip(tested, read_decoded(path), strict=True)
        wrong = [f"{word}: {found} instead of {right}" for (word, right), found in pairs if found != right]
        name = f"{path.parent.name}, {path.name.split('.')[0]}"
        mistakes[name] = wrong
        print(f"{name:20} {100 - 100 * len(wrong) / len(tested):5.1f} % of {len(tested)} words are right")
    print(*min(mistakes.values(), key=len, default=[])[:10], sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
