"""Write questions about directed graphs: is there a way from one node to another?

python make_data.py [FOLDER] [--nodes 10] [--edges 12] [--farthest 5] [--train 8000] [--seed 1]

Half of the questions have the answer yes, with a shortest way of 1 to ``farthest`` edges, each as often. Where the
answer is no, the first node still has an edge that leaves it, and the second one an edge that comes to it, so that no
single edge gives it away.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import NamedTuple


class Size(NamedTuple):
    """Nodes and edges of a graph, and edges of the longest way that a question is about."""

    nodes: int = 10
    edges: int = 12
    farthest: int = 5


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


def make_question(source: random.Random, wanted: int, size: Size) -> Question:
    """Return a question with a shortest way of so many edges, or without a way for 0."""
    pairs = [(begin, end) for begin in range(size.nodes) for end in range(size.nodes) if begin != end]
    while True:
        edges = source.sample(pairs, size.edges)
        first = source.choice([begin for begin, _ in edges])
        reached = distances(edges, first)
        ends = sorted({end for _, end in edges} - {first})
        fitting = [end for end in ends if reached.get(end, 0) == wanted]
        if fitting:
            return Question(edges, first, source.choice(fitting), wanted)


def line_of(question: Question, nodes: int) -> str:
    """Return the line of the text format: edges as two matrices with a column each, the nodes, the answer."""
    begins = " ".join(f"{nodes * place + begin}:1" for place, (begin, _) in enumerate(question.edges))
    ends = " ".join(f"{nodes * place + end}:1" for place, (_, end) in enumerate(question.edges))
    answer = int(question.distance > 0)
    return f"|from {begins} |to {ends} |source {question.source}:1 |target {question.target}:1 |answer {answer}:1"


def write_set(folder: Path, name: str, count: int, seed: int, size: Size) -> None:
    """Write ``NAME.ctf``, and ``NAME.txt`` with the distance of each question."""
    source = random.Random(seed)
    wanted = (0 if number % 2 else source.randint(1, size.farthest) for number in range(count))
    questions = [make_question(source, distance, size) for distance in wanted]
    lines = "".join(f"{line_of(one, size.nodes)}\n" for one in questions)
    (folder / f"{name}.ctf").write_text(lines, encoding="utf-8")
    (folder / f"{name}.txt").write_text("".join(f"{one.distance}\n" for one in questions), encoding="utf-8")


def main(folder: Path, train: int = 8000, test: int = 1000, seed: int = 1, size: Size | None = None) -> None:
    """Write questions to train with, and others to test with."""
    size = Size() if size is None else size
    write_set(folder, "train", train, 2 * seed - 1, size)
    write_set(folder, "test", test, 2 * seed, size)


def from_command_line(arguments: list[str]) -> None:
    """Write what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent)
    for name, default in {"train": 8000, "seed": 1, **Size()._asdict()}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args(arguments)
    size = Size(given.nodes, given.edges, given.farthest)
    main(given.folder, given.train, seed=given.seed, size=size)


if __name__ == "__main__":
    from_command_line(sys.argv[1:])
