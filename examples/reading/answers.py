"""Look at the answers of all models in ``run``: ``python answers.py``.

Of stories: mistakes and readings, by how often the news was passed on. Of pieces of a passage, as in SQuAD: how many
are exactly a right answer, and how many of their words are right (F1), counted as the data's own script does; the
answers go to ``run/*/predictions.json``, the form that this script reads.
"""

from __future__ import annotations

import collections
import json
import re
import string
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LONGEST = 15
"""Words of an answer, at most."""


def numbers_in(path: Path) -> list[list[float]]:
    """Return the numbers of each line."""
    return [[float(text) for text in line.split()] for line in path.read_text(encoding="utf-8").splitlines() if line]


def mean(numbers: list[float]) -> float:
    """Return the mean."""
    return sum(numbers) / len(numbers)


def readings_of(run: Path) -> list[float]:
    """Return the mean number of readings of each question."""
    rows = numbers_in(run / "out.chances")
    return [sum(place * chance for place, chance in enumerate(row, 1)) for row in rows]


def by_hands(folder: Path, run: Path, questions: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the percentage of mistakes and the mean number of readings, by how often the news was passed on."""
    words = (folder / "words.txt").read_text(encoding="utf-8").split("\n")
    groups = collections.defaultdict(list)
    for question, row, readings in zip(questions, numbers_in(run / "out.p"), readings_of(run), strict=True):
        hands = re.search(r"hands=(\d+)", question["id"])
        wrong = words[row.index(max(row))] not in question["answers"]
        for key in ("all", *((hands[1],) if hands else ())):
            groups[key].append((wrong, readings))
    return {
        key: (100 * mean([wrong for wrong, _ in group]), mean([readings for _, readings in group]))
        for key, group in sorted(groups.items())
    }


def best_span(begin: list[float], end: list[float]) -> tuple[int, int]:
    """Return the first and the last word of the most probable piece."""
    ways = ((b * e, i, i + j) for i, b in enumerate(begin) for j, e in enumerate(end[i : i + LONGEST]))
    _, first, last = max(ways)
    return first, last


def plain(text: str) -> list[str]:
    """Return the words of an answer without articles, punctuation and capitals."""
    kept = "".join(sign for sign in text.lower() if sign not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def overlap(said: str, right: str) -> float:
    """Return F1 of the words of two answers."""
    common = sum((collections.Counter(plain(said)) & collections.Counter(plain(right))).values())
    return 2 * common / (len(plain(said)) + len(plain(right))) if common else 0.0


def pieces(run: Path, questions: list[dict[str, Any]]) -> tuple[float, float]:
    """Write the predicted pieces, and return the percentages of exact answers and of F1."""
    begins, ends = ([row[0] for row in numbers_in(run / f"out.p.{name}")] for name in ("begin", "end"))
    found, exact, common, start = {}, [], [], 0
    for question in questions:
        places, step = question["places"], slice(start, start + len(question["places"]))
        first, last = best_span(begins[step], ends[step])
        start = step.stop
        said = question["context"][places[first][0] : places[last][1]]
        found[question["id"]] = said
        exact.append(max(float(plain(said) == plain(right)) for right in question["answers"]))
        common.append(max(overlap(said, right) for right in question["answers"]))
    (run / "predictions.json").write_text(json.dumps(found), encoding="utf-8")
    return 100 * mean(exact), 100 * mean(common)


def main(folder: Path) -> None:
    """Print what each model answered."""
    lines = (folder / "test.json").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    for run in sorted(path.parent for path in folder.glob("run/*/out.chances")):
        if (run / "out.p").exists():
            rows = by_hands(folder, run, questions)
            print(f"{run.name:14}" + "".join(f"{f'{key} hands' if key != 'all' else key:>10}" for key in rows))
            print(f"  mistakes %  {''.join(f'{mistakes:10.1f}' for mistakes, _ in rows.values())}")
            print(f"  readings    {''.join(f'{readings:10.2f}' for _, readings in rows.values())}")
        else:
            exact, common = pieces(run, questions)
            print(f"{run.name:14} exact {exact:.1f} %, F1 {common:.1f} %, readings {mean(readings_of(run)):.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
