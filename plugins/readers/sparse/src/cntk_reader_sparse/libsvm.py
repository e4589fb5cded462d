"""LibSVMBinaryReader: options to a source of batches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

import attrs

from cntk_core.api import (
    CntkError,
    Config,
    ConfigError,
    Location,
    ReaderContext,
    StreamInfo,
    at_least,
    collect,
    did_you_mean,
    option,
    options,
    raise_problems,
)
from cntk_core.api.readers import ChunkedReader, Window
from cntk_reader_sparse.batches import BatchOrder, BatchSource, StoredBatches, StoredStream
from cntk_reader_sparse.blocks import SparseKeys, input_of
from cntk_reader_sparse.rows import stored_type

DSSM_LABEL = "DSSMLabel"
"""An input of this name gets 1, 0, 0, ... in each row, whatever the file has."""
_WHAT = "LibSVMBinaryReader"
_UNUSED = ("labelType", "sectionType", "start")


@options
class LibSVMKeys(SparseKeys):
    """The keys of the reader's block."""

    file: Path = option(doc="The file.")
    minibatch: int = option(
        default=0, doc="Rows of a batch of the file, if it is to be checked.", validator=at_least(0)
    )


@options
class RenameKeys:
    """The keys of a stream's block, which has the name that the file gives the stream."""

    rename: str = option(default="", doc="The network input that the stream feeds.")
    dim: int | None = option(default=None, doc="The file knows it; this must be the same.")
    label_dim: int | None = option(default=None, doc="As dim.")


@attrs.frozen
class Renamed:
    """What a recipe says of a stream."""

    name: str
    rename: str
    dim: int | None
    where: Location | None


@options
class LibSVMOptions(LibSVMKeys):
    """Everything that a recipe says to the reader."""

    renamed: tuple[Renamed, ...] = ()
    where: Location | None = None


class LibSVMBinaryReader(ChunkedReader):
    """Reads batches of sparse features and dense labels."""

    options: ClassVar[type] = LibSVMOptions
    requires_api: ClassVar[str] = "1.0"

    def __init__(self, options: LibSVMOptions, context: ReaderContext) -> None:
        file = StoredBatches(options.file, _WHAT, options.where, stored_type(options.precision, context.dtype))
        try:
            _check_batch(file, options)
            wanted = _choose(file, options, context)
        except BaseException:
            file.close()
            raise
        streams = list(wanted.values())
        first = ChunkedReader.find_input(context, DSSM_LABEL)
        ones = None if first[1] is None else StreamInfo(first[0], first[1])
        source = BatchSource(file, wanted, ones, context.dtype)
        super().__init__(
            options,
            context,
            source=source,
            streams=(*streams, *([] if ones is None else [ones])),
            window=Window(1),
            random_order=BatchOrder,
        )

    @classmethod
    def configure(cls, block: Config, what: str) -> LibSVMOptions:
        """Read the reader's block and the blocks of its streams. Raises all errors together."""
        errors: list[CntkError] = []
        names = block.block_names()
        keys = collect(lambda: block.bind(LibSVMKeys, ignore=names, what=what), errors)
        found = [collect(partial(_read_renamed, block, name, what), errors) for name in names]
        raise_problems(errors)
        assert keys is not None
        renamed = tuple(one for one in found if one is not None)
        return LibSVMOptions(**attrs.asdict(keys, recurse=False), renamed=renamed, where=block.location("file"))


def _read_renamed(block: Config, name: str, what: str) -> Renamed:
    section = block.section(name)
    keys = section.bind(RenameKeys, ignore=_UNUSED, what=f"stream '{name}' of {what}")
    dim = keys.dim if keys.label_dim is None else keys.label_dim
    return Renamed(name, keys.rename, dim, section.where)


def _check_batch(file: StoredBatches, options: LibSVMOptions) -> None:
    """Raise if the file's batches are not those that the recipe asks for."""
    size = file.rows(0) if file.batches else options.minibatch
    if options.minibatch and size != options.minibatch:
        text = f"LibSVMBinaryReader: minibatch={options.minibatch}, but '{file}' has batches of {size} rows"
        raise ConfigError(text, where=options.where, hint="Leave minibatch out: the file knows it.")


def _choose(file: StoredBatches, options: LibSVMOptions, context: ReaderContext) -> Mapping[int, StreamInfo]:
    """Return what streams of the file are read as, by their numbers in it: those that the network needs, else all.

    Raises:
        ConfigError, Problems: a stream is not in the file, or does not fit.
    """
    errors: list[CntkError] = []
    known = {one.name.lower(): one for one in options.renamed}
    names = [stream.name for stream in file.streams]
    for one in options.renamed:
        if one.name.lower() not in [name.lower() for name in names]:
            text = f"'{file}' has no stream '{one.name}'{did_you_mean(one.name, names)}"
            errors.append(ConfigError(text, where=one.where, hint=f"It has: {', '.join(names)}."))
    needed = {name.lower() for name in context.inputs}
    targets = {stream.name: _target(stream, known) for stream in file.streams}
    if not needed & {one.rename.lower() for one in targets.values()}:
        needed = {one.rename.lower() for one in targets.values()}
    chosen: dict[int, StreamInfo] = {}
    for number, stream in enumerate(file.streams):
        target = targets[stream.name]
        if target.rename.lower() not in needed:
            continue
        info = collect(partial(_info, stream, target, context), errors)
        if info is not None and info.name in [other.name for other in chosen.values()]:
            where = target.where or options.where
            errors.append(ConfigError(f"two streams of '{file}' feed '{info.name}'", where=where))
        elif info is not None:
            chosen[number] = info
    raise_problems(errors)
    return chosen


def _target(stream: StoredStream, known: Mapping[str, Renamed]) -> Renamed:
    """Return what a stream of the file is read as."""
    one = known.get(stream.name.lower(), Renamed(stream.name, "", None, None))
    return attrs.evolve(one, rename=one.rename or stream.name)


def _info(stream: StoredStream, target: Renamed, context: ReaderContext) -> StreamInfo:
    """Return how a stream is offered. Raises ConfigError if it does not fit."""
    if target.dim not in (None, stream.dim):
        text = f"stream '{target.name}' has dim={target.dim}, but {stream.dim} in the file"
        raise ConfigError(text, where=target.where, hint="Leave dim out: the file knows it.")
    return StreamInfo(*input_of(context, target.rename, stream.dim, target.where, "dim"), sparse=stream.sparse)
