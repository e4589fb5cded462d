"""Kaldi's transition model: which class (pdf) and which phone each transition-id has.

It is what models begin with (``final.mdl``, of whatever kind), in binary or text form: the topology, which says how
many transitions each state of each phone has, and a list of phone, state and pdf (``<Triples>``), or with a pdf of
their own for transitions to the same state (``<Tuples>``). Transition-ids count these transitions from 1. The
probabilities that follow are not needed: lattices have them in their scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location
from cntk_reader_kaldi.token_file import TokenFile

_WHAT = "transition model"
_HINT = "kaldiModel is a model of Kaldi (final.mdl), which begins with its transition model; copy-transition-model too."


@attrs.frozen(eq=False)
class TransitionModel:
    """What transition-ids stand for; the first one is 1, and place 0 has -1.

    Attributes:
        path: of the file.
        pdfs: class of each transition-id. Shape ``(ids + 1,)``.
        phones: phone of each transition-id.
    """

    path: Path
    pdfs: NDArray[np.int32]
    phones: NDArray[np.int32]

    def unknown(self, ids: NDArray[np.integer]) -> int | None:
        """Return the first number that is no transition-id; None if all are."""
        wrong = (ids < 1) | (ids >= len(self.pdfs))
        return int(ids[np.argmax(wrong)]) if wrong.any() else None

    def says(self, number: int) -> DataError:
        """Return the error that a number is no transition-id."""
        text = f"{number} is no transition-id: '{self.path}' has 1 to {len(self.pdfs) - 1}"
        return DataError(text, hint="The model has to be the one that made the alignments and lattices.")


_Targets = tuple[int, ...]
"""Where the transitions of a state go."""


@attrs.frozen
class _Topology:
    """The states of each phone.

    Attributes:
        entries: states of each kind of phones.
        kinds: the kind of each phone.
        loops_apart: transitions of a state to itself may have a pdf of their own.
    """

    entries: tuple[tuple[_Targets, ...], ...]
    kinds: dict[int, int]
    loops_apart: bool


def read_transition_model(path: Path, where: Location | None) -> TransitionModel:
    """Read a transition model, alone or at the beginning of a model.

    Raises:
        DataError: it cannot be read, or is something else; where it is wrong, at which byte or line.
    """
    try:
        file = TokenFile.open(path, where, _WHAT, _HINT)
        return _read(file)
    except DataError as error:
        raise DataError(error.message, where=error.where or where, hint=error.hint) from None


def _read(file: TokenFile) -> TransitionModel:
    _expect(file, "<TransitionModel>")
    _expect(file, "<Topology>")
    topology = _binary_topology(file) if file.binary else _text_topology(file)
    found = file.name()
    if found not in ("<Triples>", "<Tuples>"):
        raise file.wrong(f"<Triples> or <Tuples> was expected, not '{found}'")
    apart = found == "<Tuples>"
    if apart != topology.loops_apart and file.binary:
        raise file.wrong(f"{found} does not fit the topology before it")
    pdfs, phones = [-1], [-1]
    for _ in range(_count(file)):
        phone, state, forward = file.integer(), file.integer(), file.integer()
        looped = file.integer() if apart else forward
        kind = topology.kinds.get(phone)
        if kind is None or not 0 <= state < len(topology.entries[kind]) or min(forward, looped) < 0:
            raise file.wrong(f"the topology has no state {state} of phone {phone} with a pdf {forward}")
        for target in topology.entries[kind][state]:
            pdfs.append(looped if target == state else forward)
            phones.append(phone)
    _expect(file, found.replace("<", "</"))
    if len(pdfs) == 1:
        raise file.wrong("the transition model has no transitions")
    return TransitionModel(file.path, np.array(pdfs, np.int32), np.array(phones, np.int32))


def _expect(file: TokenFile, name: str) -> None:
    found = file.name()
    if found != name:
        raise file.wrong(f"{name} was expected" + (f", not '{found}'" if found else ": the file ends"))


def _count(file: TokenFile) -> int:
    """Read how many things follow."""
    count = file.integer()
    if not 0 <= count <= len(file.data):
        raise file.wrong(f"{count} things cannot follow")
    return count


def _binary_topology(file: TokenFile) -> _Topology:
    phones, kinds = file.integers(), file.integers()
    count = file.integer()
    apart = count == -1
    if apart:
        count = file.integer()
    if not 0 < count <= len(file.data):
        raise file.wrong(f"there cannot be {count} kinds of phones")
    entries = [tuple(_binary_state(file, apart) for _ in range(_count(file))) for _ in range(count)]
    _expect(file, "</Topology>")
    places = {phone: kinds[phone] if 0 <= phone < len(kinds) else -1 for phone in phones}
    if not all(0 <= kind < count for kind in places.values()):
        raise file.wrong("a phone has no states")
    return _Topology(tuple(entries), places, apart)


def _binary_state(file: TokenFile, apart: bool) -> _Targets:
    for _ in range(2 if apart else 1):  # pdf classes
        file.integer()
    targets = []
    for _ in range(_count(file)):
        targets.append(file.integer())
        file.real()
    return tuple(targets)


def _text_topology(file: TokenFile) -> _Topology:
    entries: list[tuple[_Targets, ...]] = []
    kinds: dict[int, int] = {}
    apart = False
    while (name := file.name()) == "<TopologyEntry>":
        _expect(file, "<ForPhones>")
        while not file.peek_name():
            kinds[file.integer()] = len(entries)
        _expect(file, "</ForPhones>")
        states: list[_Targets] = []
        while (name := file.name()) == "<State>":
            number = file.integer()
            if number != len(states):
                raise file.wrong(f"state {len(states)} was expected, not {number}")
            state, own = _text_state(file)
            apart = apart or own
            states.append(state)
        if name != "</TopologyEntry>":
            raise file.wrong(f"<State> or </TopologyEntry> was expected, not '{name}'")
        entries.append(tuple(states))
    if name != "</Topology>":
        raise file.wrong(f"<TopologyEntry> or </Topology> was expected, not '{name}'")
    return _Topology(tuple(entries), kinds, apart)


_PDFS: Sequence[str] = ("<PdfClass>", "<ForwardPdfClass>", "<SelfLoopPdfClass>")


def _text_state(file: TokenFile) -> tuple[_Targets, bool]:
    """Read a state of a topology; the second is whether its loop has a pdf of its own."""
    apart = False
    targets: list[int] = []
    while (name := file.name()) != "</State>":
        if name in _PDFS:
            file.integer()
            apart = apart or name != "<PdfClass>"
        elif name == "<Transition>":
            targets.append(file.integer())
            file.real()
        else:
            raise file.wrong(f"</State> was expected, not '{name}'")
    return tuple(targets), apart
