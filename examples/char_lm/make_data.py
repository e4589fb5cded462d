"""Write train.ctf and test.ctf: the text of Python's own help on its language, character by character.

The text comes with Python (the module pydoc_data), so that there is nothing to download; each version of Python has a
slightly different one. It is cut into passages of about 2000 characters, every tenth of which is for the test.

python make_data.py
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
"""The characters that the model knows: number 0 is the end of a line."""

SIMPLER = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "\t": " "})


def passages(length: int = 2000) -> Iterator[str]:
    """Yield the text in pieces of whole paragraphs, of about a length."""
    for name in sorted(topics):
        text = "".join(c for c in topics[name].translate(SIMPLER) if c in ALPHABET)
        piece = "\n"
        for paragraph in text.split("\n\n"):
            piece += paragraph + "\n\n"
            if len(piece) >= length:
                yield piece
                piece = "\n"
        if len(piece) > 1:
            yield piece


def write(path: Path, pieces: list[str]) -> int:
    """Write CNTK's text format: each character with the one that follows. Returns the number of characters."""
    number_of = {character: number for number, character in enumerate(ALPHABET)}
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for number, piece in enumerate(pieces):
            for character, following in itertools.pairwise(piece):
                file.write(f"{number} |char {number_of[character]}:1 |next {number_of[following]}:1\n")
            count += len(piece) - 1
    return count


def main() -> None:
    """Write both files into the current folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=100, help="how many passages to take")
    parser.add_argument("--length", type=int, default=2000, help="least characters of most passages")
    options = parser.parse_args()
    taken = list(passages(options.length))[: options.passages]
    test = taken[5::10]
    train = [piece for number, piece in enumerate(taken) if number % 10 != 5]
    counts = [write(Path(name), pieces) for name, pieces in (("train.ctf", train), ("test.ctf", test))]
    print(f"{counts[0]} characters to train with and {counts[1]} to test with, of {len(ALPHABET)} kinds")


if __name__ == "__main__":
    main()
