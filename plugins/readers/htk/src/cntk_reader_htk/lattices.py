"""One stream of lattices: for each utterance the rows that ``SequenceWithSoftmax`` takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Location, did_you_mean
from cntk_core.api.readers import LINE_BYTES, Chunk, ChunkInfo, ChunkSource, Column, lattice_rows
from cntk_reader_htk.chunks import IntArray
from cntk_reader_htk.hmms import Phones, read_phones
from cntk_reader_htk.lattice_archive import Archive, Place, read_tables
from cntk_reader_htk.mlf import read_states
from cntk_reader_htk.transcripts import Transcript, read_transcripts, read_words

_SHOWN = 5
"""Utterances that are named when some are left out."""


@attrs.frozen(eq=False)
class LatticeRules:
    """How a stream of lattices is read.

    Attributes:
        name: of the stream.
        tables: tables of contents of the archives, ``numerators`` of those whose utterances alone are read.
        prefix: folder in front of each archive.
        phones, transitions: the files of the recogniser.
        states: the state list.
        labels: label files, which may name the phones of the reference.
        unigram: language model whose words utterances have to have; None is any.
        dtype: precision of the values.
        where: where the recipe names the tables.
        max_line_bytes: a longer line is refused.
    """

    name: str
    tables: tuple[Path, ...]
    numerators: tuple[Path, ...]
    prefix: str
    phones: Path
    transitions: Path
    states: Path
    labels: tuple[Path, ...]
    unigram: Path | None
    dtype: np.dtype[Any]
    where: Location | None = None
    max_line_bytes: int = LINE_BYTES


class LatticeSource(ChunkSource):
    """The lattices of some archives. Each counts for the frames of its utterance, and has the rows that it needs."""

    def __init__(self, rules: LatticeRules, warn: Callable[[str], None]) -> None:
        self._rules = rules
        self._warn = warn
        self._places: dict[str, Place] = {}
        self._transcripts: Mapping[str, Transcript] = {}
        self._phones: Phones | None = None
        self._frames = np.zeros(0, np.int64)
        self._models: list[lattice_rows.HiddenMarkovModel] = []
        self._archives: dict[str, Archive] = {}
        self._numbers: dict[str, IntArray] = {}

    def __str__(self) -> str:
        return str(self._rules.tables[0])

    def index(self) -> Sequence[ChunkInfo]:
        """Return one chunk with all lattices. The tables and the files of the recogniser are read at the first call.

        Raises:
            DataError: a file cannot be read.
        """
        if self._phones is None:
            rules = self._rules
            longest = rules.max_line_bytes
            states = read_states(rules.states, rules.where, longest)
            phones = read_phones(rules.phones, rules.transitions, states, rules.where, longest)
            places = read_tables(rules.tables, rules.prefix, rules.where, longest)
            if rules.numerators:
                known = read_tables(rules.numerators, rules.prefix, rules.where, longest)
                places = {key: place for key, place in places.items() if key in known}
            self._transcripts = read_transcripts(rules.labels, phones.models, longest)
            self._places = self._spoken(places)
            self._phones, self._models = phones, list(phones.models.values())
            frames = [self._archive(place).frames(place.offset) for place in self._places.values()]
            self._frames = np.array(frames, np.int64)
        return [ChunkInfo(len(self._places), int(self._frames.sum()), self._frames)]

    def _spoken(self, places: dict[str, Place]) -> dict[str, Place]:
        """Leave out the utterances with words that the language model lacks."""
        if self._rules.unigram is None:
            return places
        words = read_words(self._rules.unigram, self._rules.where, self._rules.max_line_bytes)
        strange = {
            key: next(word for word in transcript.words if word not in words)
            for key, transcript in self._transcripts.items()
            if key in places and not words.issuperset(transcript.words)
        }
        for key, word in list(strange.items())[:_SHOWN]:
            self._warn(f"WARNING: left out: utterance '{key}' has the word '{word}', which is not in the unigram")
        if len(strange) > _SHOWN:
            self._warn(f"WARNING: {len(strange)} utterances are left out for such words in all")
        return {key: place for key, place in places.items() if key not in strange}

    def keys(self, chunk: int) -> list[str]:
        """Return the keys of the lattices."""
        self.index()
        return list(self._places)

    def load(self, chunk: int) -> Chunk:
        """Read all lattices."""
        keys = self.keys(chunk)
        everything = np.arange(len(keys))
        return attrs.evolve(self.pick(np.zeros_like(everything), everything), keys=keys)

    def pick(self, chunks: IntArray, sequences: IntArray) -> Chunk:
        """Read some lattices. Raises DataError."""
        keys = self.keys(0)
        rows = [self._rows(keys[number]) for number in sequences.tolist()]
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in rows])]).astype(np.int64)
        data = np.concatenate(rows).astype(self._rules.dtype)
        return Chunk({self._rules.name: Column(data, offsets)})

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the lattices."""
        try:
            for key in self.keys(0):
                try:
                    self._rows(key)
                except DataError as error:
                    yield error
        except CntkError as error:
            yield error

    def _rows(self, key: str) -> NDArray[np.float64]:
        """Return the rows of a lattice, and behind them the reference's phones."""
        assert self._phones is not None
        place = self._places[key]
        archive = self._archive(place)
        raw = archive.read(place.offset)
        if place.path not in self._numbers:
            known = {name: number for number, name in enumerate(self._phones.models)}
            self._numbers[place.path] = np.array([known.get(name, -1) for name in archive.phones])
        kinds = self._numbers[place.path][raw.phones]
        if len(kinds) and kinds.min() < 0:
            raise self._unknown(archive.phones[int(raw.phones[np.argmin(kinds)])], key)
        rows = lattice_rows.lattice_segments(
            raw.begins,
            raw.ends,
            raw.times[raw.begins],
            raw.language,
            raw.counts,
            self._models,
            kinds,
            raw.frames,
        )
        transcript = self._transcripts.get(key)
        if transcript is None or not transcript.phones:
            return rows
        one = np.full(1, -1)
        spoken = [self._phones.models[name] for name in transcript.phones]
        every, count = np.arange(len(spoken)), np.array([len(spoken)])
        frames = np.array(transcript.frames)
        own = lattice_rows.lattice_segments(one, one, np.zeros(1), np.zeros(1), count, spoken, every, frames)
        return np.concatenate([rows, own])

    def _archive(self, place: Place) -> Archive:
        """Return the open archive of a lattice."""
        archive = self._archives.get(place.path)
        if archive is None:
            archive = Archive(place.path, self._rules.where, self._rules.max_line_bytes)
            self._archives[place.path] = archive
        return archive

    def _unknown(self, name: str, key: str) -> DataError:
        """Return the error that a lattice has a phone which the recogniser has not."""
        assert self._phones is not None
        return DataError(
            f"the phone '{name}' of the lattice '{key}' is not in {self._phones.path}"
            f"{did_you_mean(name, self._phones.models)}",
            where=self._rules.where,
            hint="phoneFile has to have all phones of the lattices.",
        )

    def close(self) -> None:
        """Close the archives."""
        for archive in self._archives.values():
            archive.close()
        self._archives.clear()
