"""Write questions about directed graphs: is there a way from one node to another?

python make_data.py [FOLDER]

A graph has 10 nodes and 12 edges. Half of the questions have the answer yes, with a shortest way of 1 to 5 edges, each
as often. Where the answer is no, the first node still has an edge that leaves it, and the second one an edge that
comes to it, so that no single edge gives it away.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import NamedTuple

NODES, EDGES, FARTHEST = 10, 12, 5


class Question(NamedTuple):
    """Edges in the order in which they are told, two nodes, and how many edges the shortest way has; 0: no way."""

    edges: list[tuple[int, int]]
    source: int
    target: int
    distance: int


def distances(edges: list[tuple[int, int]], source: int) -> dict[int, int]:
    """Return how many edges away each node is that can be reached."""
    found, front = {source: 0}, [source]
    while front:
        front = sorted({end for begin, end in edges if begin in front and end not in found})
        found |= dict.fromkeys(front, max(found.values()) + 1)
    return found


def make_question(source: random.Random, wanted: int) -> Question:
    """Return a question with a shortest way of so many edges, or without a way for 0."""
    pairs = [(begin, end) for begin in range(NODES) for end in range(NODES) if begin != end]
    while True:
        edges = source.sample(pairs, EDGES)
        first = source.choice([begin for begin, _ in edges])
        reached = distances(edges, first)
        ends = sorted({end for _, end in edges} - {first})
        fitting = [end for end in ends if reached.get(end, 0) == wanted]
        if fitting:
            return Question(edges, first, source.choice(fitting), wanted)


def line_of(question: Question) -> str:
    """Return the line of the text format: edges as two matrices with a column each, the nodes, the answer."""
    begins = " ".join(f"{NODES * place + begin}:1" for place, (begin, _) in enumerate(question.edges))
    ends = " ".join(f"{NODES * place + end}:1" for place, (_, end) in enumerate(question.edges))
    answer = int(question.distance > 0)
    return f"|from {begins} |to {ends} |source {question.source}:1 |target {question.target}:1 |answer {answer}:1"


def write_set(folder: Path, name: str, count: int, seed: int) -> None:
    """Write ``NAME.ctf``, and ``NAME.txt`` with the distance of each question."""
    source = random.Random(seed)
    questions = [make_question(source, 0 if number % 2 else source.randint(1, FARTHEST)) for number in range(count)]
    (folder / f"{name}.ctf").write_text("".join(f"{line_of(one)}\n" for one in questions), encoding="utf-8")
    (folder / f"{name}.txt").write_text("".join(f"{one.distance}\n" for one in questions), encoding="utf-8")


def main(folder: Path, train: int = 8000, test: int = 1000) -> None:
    """Write questions to train with, and others to test with."""
    write_set(folder, "train", train, seed=1)
    write_set(folder, "test", test, seed=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
