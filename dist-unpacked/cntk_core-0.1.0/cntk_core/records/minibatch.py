"""Minibatch: what a reader gives and a program takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.records.layout import SequenceLayout

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@attrs.frozen(eq=False)
class StreamData:
    """The frames of one stream in one minibatch.

    ``data`` is an array ``(frames, *sample_shape)`` or, for a sparse stream, a ``scipy.sparse.csr_array``
    ``(frames, dim)``. Rows are in the order of ``layout``.
    """

    data: NDArray[Any] | csr_array
    layout: SequenceLayout

    @property
    def sparse(self) -> bool:
        """True if ``data`` is a sparse matrix."""
        return not isinstance(self.data, np.ndarray)


@attrs.frozen(eq=False)
class Minibatch:
    """What a reader gives and a program takes.

    Attributes:
        streams: stream name to data.
        samples: number of samples that this minibatch counts for (of the stream that defines the size).
        columns: columns of CNTK's matrix of it, where its reader pads otherwise than most; see
            ``training/loop/minibatch_sizes.py``.
    """

    streams: Mapping[str, StreamData]
    samples: int
    columns: int | None = None
