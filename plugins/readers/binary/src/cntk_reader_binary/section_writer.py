"""BinaryWriter: outputs as sections of one file, as BinaryReader reads them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal

import attrs
import numpy as np

from cntk_core.api import (
    Config,
    ConfigError,
    DataError,
    DataWriter,
    Location,
    SequenceOutput,
    WriterContext,
    ask_to_write,
    option,
    options,
)
from cntk_reader_binary.sections import (
    ALIGNMENT,
    DATA,
    FILE,
    LARGEST_HEADER,
    PLACES_AT,
    header_bytes,
    section_header,
)

MOST_OUTPUTS = (LARGEST_HEADER - PLACES_AT) // 8 - 1
_LARGEST_DIM = 65535
_PASS_ON = 16 * 1024 * 1024


@options
class SectionWriterKeys:
    """The keys of the writer's block."""

    file: Path = option(aliases=("wfile",), doc="The file to write.")
    precision: Literal["float", "double"] = option(default="float", doc="Type of the values in the file.")
    wrecords: int = option(default=0, doc="Accepted; the file has as many records as are written.")
    wsize: int = option(default=0, doc="Accepted; the file is as large as it has to be.")


@options
class SectionWriterOptions(SectionWriterKeys):
    """Everything that a recipe says to the writer."""

    where: Location | None = None


class BinaryWriter(DataWriter):
    """Writes each output as a section with one record for each sample; the file gets its name when it is whole."""

    options: ClassVar[type] = SectionWriterOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: SectionWriterOptions, context: WriterContext) -> None:
        super().__init__(options, context)
        self._stored = np.dtype("<f4" if options.precision == "float" else "<f8")
        self._temporary = options.file.with_name(options.file.name + ".part")
        self._records: dict[str, int] = dict.fromkeys(context.outputs, 0)
        self._done = False
        _check(options, context)
        ask_to_write(options.file, key="file", where=options.where)
        try:
            options.file.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                # How many records there are stands in front of them: each output waits in a file of its own.
                self._spools: dict[str, BinaryIO] = {
                    name: stack.enter_context(tempfile.TemporaryFile(dir=options.file.parent))
                    for name in context.outputs
                }
                self._stack = stack.pop_all()
        except OSError as error:
            raise self._cannot_write(error) from None

    @classmethod
    def configure(cls, block: Config, what: str) -> SectionWriterOptions:
        """Read the writer's block; those of sections, which the outputs say, are not looked at. Raises all errors."""
        keys: Any = block.bind(SectionWriterKeys, ignore=block.block_names(), what=what)
        return SectionWriterOptions(**attrs.asdict(keys, recurse=False), where=block.where)

    def write(self, outputs: Mapping[str, Sequence[SequenceOutput]]) -> None:
        """Write the next sequences. Raises DataError if they cannot be written."""
        for name, spool in self._spools.items():
            for sequence in outputs[name]:
                values = np.ascontiguousarray(sequence.values, dtype=self._stored)
                self._records[name] += len(values)
                try:
                    spool.write(values.tobytes())
                except OSError as error:
                    raise self._cannot_write(error) from None

    def close(self) -> None:
        """Put the sections together, and give the file its name.

        Raises:
            DataError: the outputs have different numbers of samples, or the file cannot be written.
        """
        if self._done:
            return
        self._done = True
        with self._stack:
            counts = ", ".join(f"'{name}' {count}" for name, count in self._records.items())
            if len(set(self._records.values())) > 1:
                raise DataError(
                    f"BinaryWriter: the outputs have different numbers of samples: {counts}",
                    where=self.settings.where,
                    hint="The records of a file belong together; write such nodes to a file of their own.",
                )
            try:
                with self._temporary.open("wb") as file:
                    self._assemble(file)
                self._temporary.replace(self.settings.file)
            except OSError as error:
                self._temporary.unlink(missing_ok=True)
                raise self._cannot_write(error) from None

    def discard(self) -> None:
        """Remove what was written."""
        self._done = True
        self._stack.close()

    def _assemble(self, file: BinaryIO) -> None:
        records = next(iter(self._records.values()))
        places: list[int] = []
        at = header_bytes(len(self._spools))
        for dim in self.context.outputs.values():
            at = -(-at // ALIGNMENT) * ALIGNMENT
            places.append(at)
            at += header_bytes(0) + records * dim * self._stored.itemsize
        file.write(section_header("Binary Data File", FILE, 0, 0, records, places, at))
        for place, (name, spool) in zip(places, self._spools.items(), strict=True):
            dim = self.context.outputs[name]
            file.write(b"\0" * (place - file.tell()))
            title = f"{name}:Data Section"
            file.write(section_header(title, DATA, self._stored.itemsize, dim, records * dim))
            spool.seek(0)
            shutil.copyfileobj(spool, file, _PASS_ON)

    def _cannot_write(self, error: OSError) -> DataError:
        reason = (error.strerror or str(error)).lower()
        return DataError(f"'{self.settings.file}' cannot be written: {reason}", where=self.settings.where)


def _check(options: SectionWriterOptions, context: WriterContext) -> None:
    """Raise if the outputs do not fit into such a file."""
    if not 0 < len(context.outputs) <= MOST_OUTPUTS:
        text = f"BinaryWriter writes 1 to {MOST_OUTPUTS} nodes to a file, not {len(context.outputs)}"
        raise ConfigError(text, where=options.where)
    for name, dim in context.outputs.items():
        if dim > _LARGEST_DIM:
            text = f"BinaryWriter: '{name}' has {dim} values, and a record of such a file at most {_LARGEST_DIM}"
            raise ConfigError(text, where=options.where, hint="CNTKBinaryWriter has no such limit.")
        if name in context.sparse:
            text = f"BinaryWriter: '{name}' is sparse, and such a file has dense values alone"
            raise ConfigError(text, where=options.where, hint="CNTKBinaryWriter writes sparse values.")
