"""A stream of lattices: for each utterance of a table the rows that ``SequenceWithSoftmax`` takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, ConfigError, DataError, ReaderContext, StreamInfo, show
from cntk_core.api.readers import Column, Part, lattice_rows
from cntk_reader_kaldi.archive import ArchiveFiles, IntArray
from cntk_reader_kaldi.lattice_options import LatticeOptions
from cntk_reader_kaldi.lattice_paths import Counting, Paths, find_paths, lattice_rows_of
from cntk_reader_kaldi.sources import Rules, TableSource, Utterance
from cntk_reader_kaldi.tables import Entry, Table, end_of_classes, end_of_lattice, read_table
from cntk_reader_kaldi.transition_model import TransitionModel, read_transition_model

Warn = Callable[[str], None]
_SHOWN = 5


@attrs.frozen(eq=False)
class LatticeRules:
    """What lattices are read with: the model, their scales, and which frames count as correct."""

    options: LatticeOptions
    model: TransitionModel
    counting: Counting | None
    wanted: dict[str, Entry]


class LatticeTable(TableSource):
    """The lattices of a table. Each counts for the frames of its utterance, and has the rows that it needs."""

    def __init__(self, table: Table, files: ArchiveFiles, rules: Rules, own: LatticeRules, warn: Warn) -> None:
        super().__init__(table, files, rules, warn)
        self._own = own

    def measure(self, entry: Entry) -> Utterance:
        """Read a lattice; it is read again when it is needed."""
        return Utterance(entry, self._paths(entry).frames)

    def _paths(self, entry: Entry) -> Paths:
        lattice, _ = self.files.get(entry.path).lattice(entry.offset)
        try:
            return find_paths(lattice)
        except DataError as error:
            raise DataError(f"'{entry.key}': {error.message}", hint=error.hint) from None

    def column(self, numbers: IntArray) -> Column:
        """Return the rows of some lattices."""
        rows = [self._rows(self.utterances[number].entry) for number in numbers.tolist()]
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in rows])]).astype(np.int64)
        return Column(np.concatenate(rows).astype(self.rules.dtype), offsets)

    def _rows(self, entry: Entry) -> NDArray[np.float64]:
        own = self._own
        try:
            wanted = self._wanted(entry.key)
            return lattice_rows_of(self._paths(entry), own.model, own.options.scales, own.counting, wanted)
        except DataError as error:
            text = error.message if entry.key in error.message else f"'{entry.key}': {error.message}"
            raise DataError(text, where=entry.where, hint=error.hint) from None

    def _wanted(self, key: str) -> NDArray[np.int64] | None:
        if self._own.counting is None:
            return None
        entry = self._own.wanted[key]
        found, _ = self.files.get(entry.path).posterior(entry.offset)
        if (found.counts != 1).any():
            raise DataError(f"'{key}' is no alignment", hint="`alignments` names the transition-ids of each frame.")
        return found.classes.astype(np.int64)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the table and its archives."""
        errors: list[CntkError] = []
        with self.lock:
            for one in self.measure_all(errors):
                try:
                    self._rows(one.entry)
                except DataError as error:
                    errors.append(error)
        yield from errors


def open_lattices(
    stream: LatticeOptions, files: ArchiveFiles, context: ReaderContext, warn: Warn, max_errors: int
) -> tuple[Part, StreamInfo]:
    """Open a stream of lattices: the model and the tables are read.

    Raises:
        DataError: a file is wrong.
        ConfigError: the network's input of the same name is none for lattices.
    """
    name = lattice_rows.lattice_input(context.inputs, stream.name) or stream.name
    shape = context.inputs.get(name, (lattice_rows.LATTICE_COLUMNS,))
    if shape != (lattice_rows.LATTICE_COLUMNS,):
        raise ConfigError(
            f"stream '{stream.name}' has lattices, but the network's input '{name}' is {show(shape)}",
            where=stream.where,
            hint=f"An input of lattices is [{lattice_rows.LATTICE_COLUMNS}], with a dynamic axis of its own.",
        )
    model = read_transition_model(Path(stream.model), stream.model_where)
    table = read_table(stream.table, stream.where, files, end_of_lattice)
    counting, wanted = _counting(stream, model), {}
    if stream.alignments is not None:
        aligned = read_table(stream.alignments, stream.alignments_where or stream.where, files, end_of_classes)
        if aligned.errors:
            raise aligned.errors[0]
        wanted = {entry.key: entry for entry in aligned.entries}
    if counting is not None:
        table = _with_alignment(table, wanted, warn)
    rules = Rules(name=name, shape=shape, dtype=context.dtype, dim=shape[0], max_errors=max_errors)
    own = LatticeRules(stream, model, counting, wanted)
    return Part(LatticeTable(table, files, rules, own, warn), (name,)), StreamInfo(name, shape, sequence=True)


def _counting(stream: LatticeOptions, model: TransitionModel) -> Counting | None:
    """Return which frames count as correct; None leaves it to the labels."""
    if stream.criterion is None:
        return None
    strange = sorted(set(stream.silence) - set(model.phones[1:].tolist()))
    if strange:
        raise DataError(
            f"silPhoneList has phone {strange[0]}, which '{model.path}' does not have",
            where=stream.where,
            hint="It names the numbers of the phones that are silence, as silence.csl does.",
        )
    return Counting(stream.criterion == "mpfe", np.array(stream.silence, np.int32), stream.one_silence_class)


def _with_alignment(table: Table, wanted: dict[str, Any], warn: Warn) -> Table:
    """Leave out the utterances without an alignment, as CNTK did."""
    missing = [entry.key for entry in table.entries if entry.key not in wanted]
    if not missing:
        return table
    for key in missing[:_SHOWN]:
        warn(f"WARNING: left out: utterance '{key}' of {table.title} has no alignment")
    if len(missing) > _SHOWN:
        warn(f"WARNING: {len(missing)} utterances are left out for that in all")
    return attrs.evolve(table, entries=tuple(entry for entry in table.entries if entry.key in wanted))
