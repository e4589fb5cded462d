"""Streams: what a source has, and what a deserializer is asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cntk._members.data import LibraryStream
from cntk._members.variables import element_type
from cntk.variables import Record

INFINITELY_REPEAT = 2**64 - 1
"""``max_samples`` or ``max_sweeps`` of a source without an end."""

FULL_DATA_SWEEP = 2**64 - 2
"""``max_samples`` of a source that ends after one sweep."""

DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS = 128


class StreamInformation(LibraryStream):
    """A stream of a source.

    Args:
        name: of the stream.
        stream_id: its number in the source.
        storage_format: ``dense`` or ``sparse``.
        dtype: of the numbers.
        shape: of a sample.
        defines_mb_size: minibatches count the samples of this stream.

    Raises:
        ValueError: there is no such format.
    """

    def __init__(
        self,
        name: str,
        stream_id: int,
        storage_format: str,
        dtype: Any,
        shape: tuple[int, ...],
        defines_mb_size: bool = False,
    ) -> None:
        if storage_format not in ("dense", "sparse"):
            raise ValueError(f"the storage of a stream is dense or sparse, not {storage_format!r}")
        self.m_name = name
        self.m_id = stream_id
        self.m_element_type = element_type(dtype)
        self.m_defines_mb_size = defines_mb_size
        self.storage_format = storage_format
        self.sample_shape = tuple(shape)

    @property
    def name(self) -> str:
        """Of the stream."""
        return self.m_name

    @property
    def is_sparse(self) -> bool:
        """Whether only elements that are not zero are there."""
        return self.storage_format == "sparse"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamInformation) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.m_name, self.m_id, self.storage_format, self.sample_shape


class StreamConfiguration:
    """A stream of a text or binary file.

    Args:
        name: of the stream in the source.
        dim: elements of a sample.
        is_sparse: pairs ``index:value``.
        stream_alias: its name in the file.
        defines_mb_size: minibatches count the samples of this stream.
    """

    def __init__(
        self, name: str, dim: int, is_sparse: bool = False, stream_alias: str = "", defines_mb_size: bool = False
    ) -> None:
        self.m_stream_name, self.m_dim, self.m_is_sparse = name, dim, is_sparse
        self.m_stream_alias, self.m_defines_mb_size = stream_alias, defines_mb_size


def StreamDef(
    field: str | None = None,
    shape: Any = None,
    is_sparse: bool = False,
    transforms: Any = None,
    context: tuple[int, int] | None = None,
    scp: Any = None,
    mlf: Any = None,
    broadcast: bool | None = None,
    defines_mb_size: bool = False,
    max_sequence_length: int = 65535,
) -> Record:
    """Say what a deserializer reads into a stream.

    Args:
        field: its name in the file.
        shape: elements of a sample.
        is_sparse: pairs ``index:value``.
        transforms: of images (:mod:`cntk.io.transforms`).
        context: frames to the left and to the right.
        scp: list of feature files.
        mlf: label file, or several.
        broadcast: the one frame of a sequence is repeated for all.
        defines_mb_size: minibatches count the samples of this stream.
        max_sequence_length: frames of a sequence at most.
    """
    said: dict[str, Any] = {"stream_alias": field, "is_sparse": is_sparse or mlf is not None}
    if shape is not None:
        said["dim"] = shape if isinstance(shape, int | np.integer) else math.prod(shape)
    given = {"transforms": transforms, "context": context, "scp": scp, "mlf": mlf, "broadcast": broadcast}
    said.update({name: value for name, value in given.items() if value is not None})
    return Record(**said, defines_mb_size=bool(defines_mb_size), max_sequence_length=max_sequence_length)


StreamDefs = Record
