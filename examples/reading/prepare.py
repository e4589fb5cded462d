"""Write published texts with questions for the recipe: train.ctf, test.ctf, words.txt, test.json and sizes.cntk.

python prepare.py cnn cnn/questions/training cnn/questions/test [--into FOLDER] [--words 50000]
python prepare.py squad train-v1.1.json dev-v1.1.json [--into FOLDER] [--words 50000]

The first is for the CNN and Daily Mail data (folders of ``.question`` files: address, passage, question, answer and the
entities, with empty lines between them), the second for SQuAD 1.1 (JSON: the answer is a piece of the passage).
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

UNKNOWN = "<unknown>"


class Question(NamedTuple):
    """A question about a passage.

    Attributes:
        passage, question: words.
        answer: an entity; or the numbers of the answer's first and last word in the passage.
        about: what else there is to know, for those who look at the answers.
    """

    passage: list[str]
    question: list[str]
    answer: str | tuple[int, int]
    about: dict[str, Any]


def cnn_questions(folder: Path) -> Iterator[Question]:
    """Read ``.question`` files."""
    paths = sorted(folder.glob("*.question"))
    if not paths:
        raise SystemExit(f"{folder}: there are no .question files")
    for path in paths:
        parts = path.read_text(encoding="utf-8").split("\n\n")
        if len(parts) < 4:
            raise SystemExit(f"{path}: address, passage, question and answer are wanted, with empty lines between them")
        address, passage, question, answer = (part.strip() for part in parts[:4])
        yield Question(passage.split(), question.split(), answer, {"id": address, "answers": [answer]})


def words_of(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the words and signs of a text, and from where to where each is."""
    found = list(re.finditer(r"\w+|[^\w\s]", text))
    return [each[0] for each in found], [each.span() for each in found]


def squad_questions(path: Path) -> Iterator[Question]:
    """Read a file of SQuAD 1.1."""
    try:
        articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    except (ValueError, KeyError, OSError) as error:
        raise SystemExit(f"{path}: this is no file of SQuAD 1.1: {error}") from None
    for paragraph in itertools.chain.from_iterable(article["paragraphs"] for article in articles):
        passage, places = words_of(paragraph["context"])
        for each in paragraph["qas"]:
            first = each["answers"][0]
            begin, end = first["answer_start"], first["answer_start"] + len(first["text"])
            inside = [number for number, (left, right) in enumerate(places) if left < end and right > begin]
            if not inside:
                continue
            texts = sorted({answer["text"] for answer in each["answers"]})
            about = {"id": each["id"], "answers": texts, "context": paragraph["context"], "places": places}
            question = [word.lower() for word in words_of(each["question"])[0]]
            yield Question([word.lower() for word in passage], question, (inside[0], inside[-1]), about)


def vocabulary(questions: Iterable[Question], size: int) -> tuple[dict[str, int], int]:
    """Number the words: entities first, by their own numbers, then the most frequent ones; and count the entities."""
    counts = collections.Counter(word for each in questions for word in (*each.passage, *each.question))
    numbers = [int(word[7:]) for word in counts if re.fullmatch(r"@entity\d+", word)]
    entities = max(numbers, default=-1) + 1
    others = [word for word, _ in counts.most_common() if not re.fullmatch(r"@entity\d+", word)]
    known = [*(f"@entity{number}" for number in range(entities)), UNKNOWN, *others[: max(size - entities - 1, 0)]]
    return {word: number for number, word in enumerate(known)}, entities


def lines_of(number: int, question: Question, words: dict[str, int]) -> Iterator[str]:
    """Return the lines of a question in the text format: passage, question and answer beside each other."""
    unknown = words[UNKNOWN]
    streams = {
        "passage": [f"{words.get(word, unknown)}:1" for word in question.passage],
        "question": [f"{words.get(word, unknown)}:1" for word in question.question],
        "one": ["1"],
    }
    if isinstance(question.answer, str):
        streams["answer"] = [f"{words[question.answer]}:1"]
    else:
        for name, place in zip(("begin", "end"), question.answer, strict=True):
            streams[name] = [str(int(step == place)) for step in range(len(question.passage))]
    for row in itertools.zip_longest(*streams.values()):
        values = (f" |{name} {value}" for name, value in zip(streams, row, strict=True) if value is not None)
        yield f"{number}{''.join(values)}\n"


def sizes_of(words: int, entities: int) -> str:
    """Return the lines of a recipe that say how large all is, and which streams the files have."""
    sparse = {"passage": words, "question": words, **({"answer": entities} if entities else {})}
    dense = ("one",) if entities else ("one", "begin", "end")
    streams = [f"{name} = [ dim = {size} ; format = sparse ]" for name, size in sparse.items()]
    streams += [f"{name} = [ dim = 1 ; format = dense ]" for name in dense]
    kind, all_streams = "entity" if entities else "span", " ; ".join(streams)
    return f"words = {words}\nentities = {max(entities, 1)}\nanswers = {kind}\nstreams = [ {all_streams} ]\n"


def write_all(train: list[Question], test: list[Question], folder: Path, size: int) -> None:
    """Write what the recipe reads."""
    folder.mkdir(parents=True, exist_ok=True)
    words, entities = vocabulary(train, size)
    # An entity that is in no text of the training has no vector, nor has one that the passage does not name.
    train, test = (
        [each for each in every if not isinstance(each.answer, str) or {each.answer} <= words.keys() & {*each.passage}]
        for every in (train, test)
    )
    for name, questions in (("train", train), ("test", test)):
        with (folder / f"{name}.ctf").open("w", encoding="utf-8") as file:
            for number, question in enumerate(questions):
                file.writelines(lines_of(number, question, words))
    about = "".join(json.dumps(question.about) + "\n" for question in test)
    (folder / "test.json").write_text(about, encoding="utf-8")
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    (folder / "sizes.cntk").write_text(sizes_of(len(words), entities), encoding="utf-8")
    print(f"{len(train)} questions to train with, {len(test)} to test with, {len(words)} words, {entities} entities")


def main(arguments: list[str]) -> None:
    """Read the data of the one or the other kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("cnn", "squad"))
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--into", type=Path, default=Path())
    parser.add_argument("--words", type=int, default=50000, help="most words that are told from each other")
    given = parser.parse_args(arguments)
    read = cnn_questions if given.kind == "cnn" else squad_questions
    write_all(list(read(given.train)), list(read(given.test)), given.into, given.words)


if __name__ == "__main__":
    main(sys.argv[1:])
