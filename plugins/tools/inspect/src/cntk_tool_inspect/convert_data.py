"""``cntk convert-data``: what a recipe reads, as a file in CNTK's binary format."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import (
    Config,
    ConfigError,
    DataReader,
    DataWriter,
    Location,
    SequenceOutput,
    SparseRows,
    StreamInfo,
    UnsupportedError,
    UsageError,
    WriterContext,
    show,
)
from cntk_core.api.builders import SourceText
from cntk_core.api.readers import Chunk, ChunkedReader, Column
from cntk_core.api.recipes import RecipeContext, open_recipe

WRITER = "CNTKBinaryWriter"
PRECISIONS: dict[str, np.dtype[Any]] = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}
"""What ``--precision`` accepts, and what it means."""


def convert_data(
    arguments: Sequence[str],
    *,
    output: str,
    section: str | None = None,
    key: str = "reader",
    precision: str = "",
    chunk_bytes: int = 0,
    plugin_files: Sequence[str] = (),
) -> int:
    """Write all sequences of a reader block, in the order of its files, as a binary file.

    Args:
        arguments: ``configFile=...``, ``key=value``.
        output: the new file; it is replaced if it is there.
        section: the command section; by default the first one that has the block.
        key: ``reader`` or ``cvReader``.
        precision: ``float`` or ``double``; by default the recipe's.
        chunk_bytes: about how large a chunk is; 0 is the writer's default.
        plugin_files: Python files with further readers.

    Raises:
        CntkError: the data cannot be read, or the file not be written.
    """
    context, sections = open_recipe(arguments, section, plugin_files)
    found = next((part for part in sections if part.get(key) is not None), None)
    if found is None:
        raise ConfigError(f"the recipe has no block '{key}' to convert", where=context.config.where)
    dtype: np.dtype[Any] = PRECISIONS.get(precision, context.dtype)
    context = attrs.evolve(context, dtype=dtype)
    _check_output(found.section(key), output)
    reader = context.make_reader(found, key=key, for_writing=True)
    try:
        if not isinstance(reader, ChunkedReader):
            raise UnsupportedError(f"{type(reader).__name__} gives no chunks, so its data cannot be converted")
        writer = _open_writer(context, reader, output, chunk_bytes)
        try:
            sequences = _copy(reader, writer)
            writer.close()
        except BaseException:
            writer.discard()
            raise
        shapes = ", ".join(f"{stream.name} {show(stream.shape)}" for stream in reader.streams)
    finally:
        reader.close()
    print(f"{output}: {sequences} sequences, {Path(output).stat().st_size} bytes: {shapes}")
    return 0


def _check_output(block: Config, output: str) -> None:
    """Raise if the output is a folder, or the file that is read."""
    if Path(output).is_dir():
        raise UsageError(f"'{output}' is a folder", hint="Give the name of the new file.")
    value = block.own("file")
    if value is None or not Path(output).exists():
        return
    source = Path(value.string())
    if source.exists() and source.samefile(output):
        raise UsageError(f"'{output}' is the file that is read", hint="Give the new one another name.")


def _open_writer(context: RecipeContext, reader: DataReader, output: str, chunk_bytes: int) -> DataWriter:
    writer_class = context.plugins.registry.writers.get(WRITER, where=Location("cntk convert-data"))
    precision = "float" if context.dtype == np.float32 else "double"
    text = f'file="{output}"\nprecision={precision}\n' + (f"chunkSizeInBytes={chunk_bytes}\n" if chunk_bytes else "")
    options = writer_class.settings_from(Config.from_source(SourceText.of(text, "cntk convert-data")), f"'{WRITER}'")
    outputs = {stream.name: math.prod(stream.shape) for stream in reader.streams}
    sparse = frozenset(stream.name for stream in reader.streams if stream.sparse)
    return writer_class(options, WriterContext(outputs, context.log.line, sparse))


def _copy(reader: ChunkedReader, writer: DataWriter) -> int:
    """Write chunk by chunk; return the number of sequences."""
    count = 0
    for number, info in enumerate(reader.source.index()):
        writer.write(dict(_outputs(reader.source.load(number), info.sequences, reader.streams)))
        count += info.sequences
    return count


def _outputs(
    chunk: Chunk, sequences: int, streams: Sequence[StreamInfo]
) -> Iterator[tuple[str, Sequence[SequenceOutput]]]:
    keys = [str(key) for key in chunk.keys] or [""] * sequences
    for stream in streams:
        column = chunk.columns[stream.name]
        read: Callable[[Column, int], Iterator[NDArray[Any] | SparseRows]] = _sparse if stream.sparse else _dense
        values = read(column, sequences)
        yield stream.name, [SequenceOutput(key, value) for key, value in zip(keys, values, strict=True)]


def _dense(column: Column, sequences: int) -> Iterator[NDArray[Any]]:
    data: Any = column.data
    for first, last in _rows(column, sequences):
        yield data[first:last].reshape(last - first, -1)


def _sparse(column: Column, sequences: int) -> Iterator[SparseRows]:
    matrix: Any = column.data
    counts = np.diff(matrix.indptr)
    for first, last in _rows(column, sequences):
        begin, end = int(matrix.indptr[first]), int(matrix.indptr[last])
        yield SparseRows(matrix.data[begin:end], matrix.indices[begin:end], counts[first:last])


def _rows(column: Column, sequences: int) -> Iterator[tuple[int, int]]:
    """Yield the first row of each sequence and the one after its last."""
    numbers = np.arange(sequences)
    firsts = column.first_rows(numbers)
    return zip(firsts.tolist(), (firsts + column.lengths(numbers)).tolist(), strict=True)
