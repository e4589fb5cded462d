"""Tag sentences with a trained model, and measure how many slots it finds.

python show_tags.py                                          a few sentences of the test data, and the F1 of all
python show_tags.py "show me flights from boston to denver"  these sentences
"""

from __future__ import annotations

import argparse
from pathlib import Path

from cntk_core.model import Model

Sentence = list[tuple[str, str]]


def read_sentences(path: Path) -> list[Sentence]:
    """Return words and tags of a data file, from its remarks."""
    found: dict[str, Sentence] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        word, tag = line.rpartition("|# ")[2].split()
        found.setdefault(line.split()[0], []).append((word, tag))
    return list(found.values())


def tag_sentences(model: Model, sentences: list[list[str]], folder: Path = Path()) -> list[list[str]]:
    """Return the tags that a model finds for the words of sentences."""
    words = {word: number for number, word in enumerate((folder / "words.txt").read_text(encoding="utf-8").split())}
    tags = (folder / "tags.txt").read_text(encoding="utf-8").split()
    numbers = [[words.get(word, words["<unk>"]) for word in sentence] for sentence in sentences]
    found = model.evaluate({"word": numbers}, ["z"])["z"]
    # Scores are [tags] for each word, or [tags x 1] where NDL adds a bias of that shape.
    return [[tags[best] for best in scores.reshape(len(scores), -1).argmax(axis=1)] for scores in found]


def slots(tags: list[str]) -> set[tuple[int, int, str]]:
    """Return first and past-the-end word, and kind, of the slots that tags mark."""
    found, begin = set(), 0
    for place, (tag, after) in enumerate(zip(tags, [*tags[1:], "O"], strict=True)):
        if tag.startswith("B-") or (tag != "O" and (place == 0 or tags[place - 1][2:] != tag[2:])):
            begin = place
        if tag != "O" and after != f"I-{tag[2:]}":
            found.add((begin, place + 1, tag[2:]))
    return found


def f1(wanted: list[list[str]], found: list[list[str]]) -> float:
    """Return the harmonic mean of precision and recall of whole slots, as CoNLL counts them."""
    right = sum(len(slots(one) & slots(other)) for one, other in zip(wanted, found, strict=True))
    total = sum(len(slots(one)) for one in (*wanted, *found))
    return 2 * right / total if total else 1.0


def show(words: list[str], tags: list[str]) -> str:
    """Return a sentence with its slots in brackets."""
    marks = {begin: (end, kind) for begin, end, kind in slots(tags)}
    texts, place = [], 0
    while place < len(words):
        end, kind = marks.get(place, (place + 1, ""))
        phrase = " ".join(words[place:end])
        texts.append(f"[{kind}: {phrase}]" if kind else phrase)
        place = end
    return " ".join(texts)


def main() -> None:
    """Show sentences of the command line, or some of the test data with the result of all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", nargs="*")
    parser.add_argument("--model", default="run/tagger.dnn")
    options = parser.parse_args()
    model = Model.load(options.model)
    if options.sentences:
        given = [sentence.lower().split() for sentence in options.sentences]
        for words, tags in zip(given, tag_sentences(model, given), strict=True):
            print(show(words, tags))
        return
    test = read_sentences(Path("test.ctf"))
    given = [[word for word, _ in sentence] for sentence in test]
    wanted = [[tag for _, tag in sentence] for sentence in test]
    found = tag_sentences(model, given)
    for words, tags in list(zip(given, found, strict=True))[:8]:
        print(show(words, tags))
    print(f"F1 of {sum(len(slots(tags)) for tags in wanted)} slots: {f1(wanted, found):.4f}")


if __name__ == "__main__":
    main()
