"""The phones of a recogniser: which states each has, and how probable it is to go from one to the next.

``phoneFile`` has a line for each phone, ``phone transition state...``; ``transPFile`` one for each transition matrix,
``transition states`` and then its probabilities row by row: from the begin and from each state (rows) to each state and
to the end (columns). The states are those of the labels' state list.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location, did_you_mean
from cntk_core.api.readers import LINE_BYTES, lattice_rows
from cntk_reader_htk.scp import read_lines

SILENCE = "sil"
"""The phone that is silence."""

_LEAST = 1e-10
"""Smaller probabilities are none."""
_NOTHING = -1e30
_LINE = "A line is: name, number of states, and (states + 1) x (states + 1) probabilities."


@attrs.frozen(eq=False)
class Phones:
    """All phones.

    Attributes:
        models: by name.
        path: the file that names them.
    """

    models: Mapping[str, lattice_rows.HiddenMarkovModel]
    path: Path


def read_phones(
    path: Path,
    transitions: Path,
    states: Mapping[str, int],
    where: Location | None = None,
    max_line_bytes: int = LINE_BYTES,
) -> Phones:
    """Read the phones.

    Args:
        path: ``phoneFile``.
        transitions: ``transPFile``.
        states: classes of the states, by name.
        where: where the recipe names the files.
        max_line_bytes: a longer line is refused.

    Raises:
        DataError: a file cannot be read, or has a line that is wrong.
    """
    matrices = _read_transitions(transitions, where, max_line_bytes)
    models: dict[str, lattice_rows.HiddenMarkovModel] = {}
    for number, line in read_lines(path, where, "list of phones", max_line_bytes):
        place, words = Location(str(path), number), line.split()
        if len(words) < 3:
            raise DataError(f"'{line[:60]}' is no phone", where=place, hint="A line is: phone, transition, states.")
        name, transition, *own = words
        if name in models:
            raise DataError(f"the phone '{name}' has a line already", where=place, hint="Each phone has one line.")
        logs = matrices.get(transition)
        if logs is None:
            text = f"the transition '{transition}' is not in {transitions}{did_you_mean(transition, matrices)}"
            raise DataError(text, where=place, hint="transPFile has a line for each.")
        if len(own) != len(logs) - 1:
            text = f"the phone '{name}' has {len(own)} states, and its transition '{transition}' {len(logs) - 1}"
            raise DataError(text, where=place, hint="Both files have to be of the same recogniser.")
        unknown = next((state for state in own if state not in states), None)
        if unknown is not None:
            text = f"state '{unknown}' is not in the state list{did_you_mean(unknown, states)}"
            raise DataError(text, where=place, hint="labelMappingFile names the states of all phones.")
        models[name] = lattice_rows.HiddenMarkovModel(tuple(states[state] for state in own), logs, name == SILENCE)
    return Phones(models, path)


def _read_transitions(path: Path, where: Location | None, longest: int) -> dict[str, NDArray[np.float64]]:
    found: dict[str, NDArray[np.float64]] = {}
    for number, line in read_lines(path, where, "list of transitions", longest):
        place, words = Location(str(path), number), line.split()
        count = int(words[1]) if len(words) > 1 and words[1].isascii() and words[1].isdigit() else 0
        if not 1 <= count <= lattice_rows.STATES:
            text = f"'{line[:60]}' is no transition of 1 to {lattice_rows.STATES} states"
            raise DataError(text, where=place, hint=_LINE)
        if len(words) != 2 + (count + 1) ** 2:
            text = f"the transition '{words[0]}' has {len(words) - 2} probabilities, not {(count + 1) ** 2}"
            raise DataError(text, where=place, hint=_LINE)
        try:
            chances = np.array([float(word) for word in words[2:]]).reshape(count + 1, count + 1)
        except ValueError:
            raise DataError(f"'{line[:60]}' has something that is no number", where=place, hint=_LINE) from None
        if not ((chances >= 0.0) & (chances <= 1.0)).all():
            raise DataError(f"the transition '{words[0]}' has what is no probability", where=place, hint=_LINE)
        found[words[0]] = np.where(chances > _LEAST, np.log(np.maximum(chances, _LEAST)), _NOTHING)
    return found
