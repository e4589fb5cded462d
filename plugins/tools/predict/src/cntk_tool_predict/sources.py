"""Files of samples and sequences, as batches for the inputs of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np

from cntk_core.api import DataError, EpochSpec, Input, Location, ReaderContext, UsageError, show, to_cntk
from cntk_core.api.builders import parse_text
from cntk_core.api.recipes import PluginManager
from cntk_tool_predict.evaluating import Batch

_READER = "CNTKTextFormatReader"


@attrs.frozen(eq=False)
class Source:
    """A file of data.

    Attributes:
        batches: what is in it.
        samples: how many samples there are; None where nobody knows before.
    """

    batches: Iterator[Batch]
    samples: int | None = None


@attrs.frozen(eq=False)
class Wanted:
    """What is asked of a file.

    Attributes:
        inputs: that need values.
        batch: samples of a batch.
        columns: by input, the columns of a table.
        plugins: has the readers.
        sequences: names of inputs along whose sequences something looks.
    """

    inputs: Sequence[Input]
    batch: int
    columns: Mapping[str, Sequence[str]]
    plugins: PluginManager
    sequences: frozenset[str] = frozenset()


def open_source(path: Path, wanted: Wanted) -> Source:
    """Open a file by its suffix.

    Raises:
        DataError: it cannot be read, or does not fit.
        UsageError: the suffix is not known.
    """
    openers: Mapping[str, Callable[[Path, Wanted], Source]] = {
        ".npy": _npy,
        ".npz": _npz,
        ".csv": _table,
        ".parquet": _table,
        ".ctf": _ctf,
        ".txt": _ctf,
    }
    opener = openers.get(path.suffix.lower())
    if opener is None:
        raise UsageError(f"'{path}' cannot be read: its suffix says what it is", hint=f"Known: {', '.join(openers)}")
    if wanted.columns and opener is not _table:
        raise UsageError("--columns is about tables (.csv, .parquet)")
    if opener in (_table, _ctf):
        _check_sizes(path, wanted.inputs)
    try:
        with path.open("rb"):  # libraries have messages of their own for a file that is not there
            pass
        return opener(path, wanted)
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:  # NumPy's, of a damaged file
        raise DataError(str(error), where=Location(str(path))) from None


def _check_sizes(path: Path, inputs: Sequence[Input]) -> None:
    """Refuse inputs whose sizes each minibatch brings: only an array has them."""
    for node in inputs:
        if min(node.known_shape, default=1) < 0:
            raise DataError(
                f"the input '{node.name}' {show(node.known_shape)} has no size of its own, and such a file says none",
                where=Location(str(path)),
                hint="Write an array of samples of one size: .npy, .npz.",
            )


def _npy(path: Path, wanted: Wanted) -> Source:
    if len(wanted.inputs) != 1:
        names = ", ".join(node.name for node in wanted.inputs) or "none"
        raise DataError(
            f"'{path}' is one array, and the inputs are {names}",
            hint="Write an .npz file with an array for each: numpy.savez(FILE, NAME=ARRAY, ...).",
        )
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return _arrays({wanted.inputs[0].name: array}, path, wanted)


def _npz(path: Path, wanted: Wanted) -> Source:
    with np.load(path, allow_pickle=False) as file:
        names = {name.lower(): name for name in file.files}
        missing = [node.name for node in wanted.inputs if node.name.lower() not in names]
        if missing:
            raise DataError(
                f"there are no arrays for the inputs {', '.join(missing)}",
                where=Location(str(path)),
                hint=f"It has {', '.join(file.files) or 'none'}.",
            )
        arrays = {node.name: file[names[node.name.lower()]] for node in wanted.inputs}
    return _arrays(arrays, path, wanted)


def _arrays(arrays: Mapping[str, np.ndarray], path: Path, wanted: Wanted) -> Source:
    for name, array in arrays.items():
        if array.ndim == 0 or array.dtype.kind not in "fiub":
            raise DataError(f"'{name}' is no array of samples of numbers", where=Location(str(path)))
    counts = {len(array) for array in arrays.values()}
    if len(counts) > 1:
        said = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise DataError(f"the arrays have different numbers of samples: {said}", where=Location(str(path)))
    count = counts.pop() if counts else 0

    def batches() -> Iterator[Batch]:
        for first in range(0, count, wanted.batch):
            yield {name: np.array(array[first : first + wanted.batch]) for name, array in arrays.items()}

    return Source(batches(), count)


def _table(path: Path, wanted: Wanted) -> Source:
    from cntk_tool_predict.tables import open_table

    return open_table(path, wanted)


def _ctf(path: Path, wanted: Wanted) -> Source:
    """Read with the reader of the format, in the order of the file."""
    streams = []
    for node in wanted.inputs:
        dim = int(np.prod(to_cntk(node.known_shape)))
        streams.append(f"{node.name} = [ dim = {dim} ; format = {'sparse' if node.sparse else 'dense'} ]")
    text = f'file = "{path.as_posix()}" ; randomize = false ; input = [ {" ; ".join(streams)} ]'
    reader_class = wanted.plugins.registry.readers.get(_READER)
    context = ReaderContext(inputs={node.name: node.known_shape for node in wanted.inputs}, for_writing=True)
    reader = reader_class(reader_class.settings_from(parse_text(text), f"'{path}'"), context)

    def batches() -> Iterator[Batch]:
        try:
            yield from reader.minibatches(EpochSpec(minibatch_size=wanted.batch))
        finally:
            reader.close()

    return Source(batches())
