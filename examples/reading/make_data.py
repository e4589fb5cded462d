"""Write cloze stories: to whom did the news come?

python make_data.py [SEED]

People pass news on. In each story there are several news, and a sentence that does not matter; the sentences stand in
any order. The question names who had one of the news first, and leaves out who had it last. It was passed on once or
twice, each as often, so that as many sentences have to be found, one after the other. The names are entities, drawn
anew for each story, as in the CNN and Daily Mail data: nothing is learned about them.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path
from typing import NamedTuple

ENTITIES, PEOPLE, FARTHEST = 6, 5, 2
HANDED = ("told", "called", "asked")
KEPT = ("kept silent", "told nobody")
ELSE = ("saw", "met", "knows")


class Story(NamedTuple):
    """Words of the passage, words of the question, the answer, and how often the news was passed on."""

    passage: list[str]
    question: list[str]
    answer: str
    distance: int


def chains(source: random.Random, first: int) -> list[list[str]]:
    """Return who passed on the news that the question is about, and who passed on others."""
    people = [f"@entity{number}" for number in source.sample(range(ENTITIES), PEOPLE)]
    found, people = [people[: first + 1]], people[first + 1 :]
    while people:
        size = source.randint(1, min(len(people), FARTHEST + 1))
        found, people = [*found, people[:size]], people[size:]
    return found


def make_story(source: random.Random, distance: int) -> Story:
    """Return a story in which the news that the question is about was passed on so often."""
    all_chains = chains(source, distance)
    sentences = []
    for chain in all_chains:
        sentences += [[one, source.choice(HANDED), other] for one, other in itertools.pairwise(chain)]
        sentences.append([chain[-1], *source.choice(KEPT).split()])
    people = [one for chain in all_chains for one in chain]
    one, other = source.sample(people, 2)
    sentences.append([one, source.choice(ELSE), other])
    source.shuffle(sentences)
    passage = [word for sentence in sentences for word in (*sentence, ".")]
    question = ["from", all_chains[0][0], "it", "came", "to", "@placeholder"]
    return Story(passage, question, all_chains[0][-1], distance)


def write_set(folder: Path, name: str, count: int, seed: int) -> None:
    """Write stories as ``question`` files, in the form in which the CNN and Daily Mail data are published."""
    source = random.Random(seed)
    (folder / name).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        story = make_story(source, number % FARTHEST + 1)
        entities = sorted({word for word in story.passage if word.startswith("@")})
        parts = (
            f"https://stories.example/{name}/{number}?hands={story.distance}",
            " ".join(story.passage),
            " ".join(story.question),
            story.answer,
            "\n".join(f"{entity}:Person {entity[7:]}" for entity in entities),
        )
        (folder / name / f"{number:06d}.question").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def main(folder: Path, train: int = 10000, test: int = 1000, seed: int = 1) -> None:
    """Write stories to train with, and others to test with."""
    write_set(folder / "stories", "training", train, seed=2 * seed)
    write_set(folder / "stories", "test", test, seed=2 * seed + 1)


if __name__ == "__main__":
    main(Path(__file__).parent, seed=int(sys.argv[1]) if len(sys.argv) > 1 else 1)
