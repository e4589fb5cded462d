"""Make the denominator graph of lattice-free MMI: ``python -m cntk_reader_htk.denominator --help``.

A language model of phones is estimated from transcripts, without smoothing, so that what was never said is not in the
graph (D. Povey et al., Interspeech 2016, section 3.3): a phone follows the ``order - 1`` before it as often as it did.
Each of its histories becomes the states of its last phone.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np

from cntk_core.api import CntkError, DataError, Location, did_you_mean
from cntk_core.api.readers import lattice_rows
from cntk_reader_htk.hmms import read_phones
from cntk_reader_htk.mlf import read_states
from cntk_reader_htk.scp import read_lines

History = tuple[str, ...]
_LEAST = 1e-12


@attrs.frozen(eq=False)
class PhoneModel:
    """A language model of phones.

    Attributes:
        first: probability of each history after the first phone.
        following: for each history, the probability of each that comes next.
    """

    first: Mapping[History, float]
    following: Mapping[History, Mapping[History, float]]


def estimate(transcripts: Iterable[Sequence[str]], order: int) -> PhoneModel:
    """Estimate a language model.

    Args:
        transcripts: the phones of each utterance.
        order: phones of an n-gram, 2 or more.
    """
    first: Counter[History] = Counter()
    counts: dict[History, Counter[str]] = defaultdict(Counter)
    for phones in transcripts:
        first.update([tuple(phones[:1])] if phones else [])
        for place in range(1, len(phones)):
            for length in range(min(place, order - 1) + 1):
                counts[tuple(phones[place - length : place])][phones[place]] += 1
    following: dict[History, dict[History, float]] = {}
    waiting = list(first)
    while waiting:
        history = waiting.pop()
        if history in following:
            continue
        # What only ended utterances is followed by what followed its last phones, or any phone.
        known = next((history[cut:] for cut in range(len(history) + 1) if history[cut:] in counts), None)
        own: Counter[str] = counts[known] if known is not None else Counter()
        total = sum(own.values())
        following[history] = {(*history, phone)[1 - order :]: count / total for phone, count in own.items()}
        waiting += following[history]
    said = sum(first.values())
    return PhoneModel({history: count / said for history, count in first.items()}, following)


def graph_lines(model: PhoneModel, phones: Mapping[str, lattice_rows.HiddenMarkovModel]) -> list[str]:
    """Return the lines of the graph of a language model and the states of its phones."""
    numbers: dict[tuple[History, int], int] = {}
    for history in model.following:
        for state in range(len(phones[history[-1]].states)):
            numbers[history, state] = len(numbers)
    lines = [
        f"start {numbers[history, state]} {chance * enter:.9g}"
        for history, chance in model.first.items()
        for state, enter in _entries(phones[history[-1]])
        if chance * enter > _LEAST
    ]
    lines += [f"class {number} {phones[history[-1]].states[state]}" for (history, state), number in numbers.items()]
    for (history, state), number in numbers.items():
        row = np.exp(phones[history[-1]].logs[1 + state])
        ways = [(numbers[history, other], float(chance)) for other, chance in enumerate(row[:-1])]
        ways += [
            (numbers[following, other], float(row[-1]) * chance * enter)
            for following, chance in model.following[history].items()
            for other, enter in _entries(phones[following[-1]])
        ]
        lines += [f"arc {number} {end} {chance:.9g}" for end, chance in ways if chance > _LEAST]
    return lines


def _entries(model: lattice_rows.HiddenMarkovModel) -> list[tuple[int, float]]:
    return [(state, float(chance)) for state, chance in enumerate(np.exp(model.logs[0, : len(model.states)]))]


def read_said(path: Path, phones: Iterable[str]) -> list[list[str]]:
    """Read transcripts: in each line the name of an utterance and its phones.

    Raises:
        DataError: it cannot be read, or names a phone that there is not.
    """
    known, found = set(phones), []
    for number, line in read_lines(path, None, "list of transcripts"):
        said = line.split()[1:]
        strange = next((phone for phone in said if phone not in known), None)
        if strange is not None:
            text = f"there is no phone '{strange}'{did_you_mean(strange, known)}"
            hint = "A line is the name of an utterance and its phones, as the file of the phones names them."
            raise DataError(text, where=Location(str(path), number), hint=hint)
        found.append(said)
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Write a graph; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m cntk_reader_htk.denominator", description=__doc__)
    parser.add_argument("transcripts", type=Path, help="a line for each utterance: its name and its phones")
    parser.add_argument("phones", type=Path, help="phoneFile: a line for each phone")
    parser.add_argument("transitions", type=Path, help="transPFile: the transitions of the phones")
    parser.add_argument("states", type=Path, help="the state list")
    parser.add_argument("output", type=Path, help="the graph")
    parser.add_argument("--order", type=int, default=3, help="phones of an n-gram; 3 by default")
    given = parser.parse_args(words)
    if given.order < 2:
        parser.error("--order is at least 2")
    try:
        phones = read_phones(given.phones, given.transitions, read_states(given.states)).models
        model = estimate(read_said(given.transcripts, phones), given.order)
        lines = graph_lines(model, phones)
        given.output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except (CntkError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    states = sum(line.startswith("class") for line in lines)
    print(f"{given.output}: {len(model.following)} histories, {states} states, {len(lines) - states} starts and arcs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
