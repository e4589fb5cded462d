"""Pieces of sequences that go on from one minibatch to the next: packed as the core takes them, with a layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cntk._graph.errors import GraphError
from cntk._graph.feeding import has_sequences, is_fed_sparse, is_sparse
from cntk_core.api import Minibatch, Network, SequenceLayout, StreamData
from cntk_core.api.builders import BATCH
from cntk_core.api.readers import slot_layout

if TYPE_CHECKING:
    from cntk.variables import Variable

_MIXED = "in a minibatch all sequences come with their starts, or none; those of {} have none"


def are_pieces(value: Any) -> bool:
    """Whether a value says of its sequences which begin in it."""
    return getattr(value, "_starts", None) is not None


def packed(variable: Variable, sequences: Sequence[Any], starts: Sequence[bool]) -> StreamData:
    """Return pieces of sequences as the core has them; each may go on in the next minibatch.

    Args:
        variable: that is given them.
        sequences: an array ``(frames, *shape)`` or a CSR matrix for each piece.
        starts: for each whether it is a sequence's first; the others go on from the minibatch before.

    Raises:
        GraphError: there are more or fewer starts than pieces, or the variable has no sequences.
    """
    if not has_sequences(variable):
        raise GraphError("you specified sequence begin markers, but your variable has no sequences")
    if len(sequences) != len(starts):
        counts = f"{len(starts)} starts of sequences for the {len(sequences)} sequences"
        raise GraphError(f"there are {counts} of {variable}")
    lengths = [each.shape[0] for each in sequences]
    layout = slot_layout(
        [[length] for length in lengths],
        continued=[not start for start in starts],
        continues=[True] * len(lengths),
    )
    ordered = [sequences[number] for number in layout.order.tolist()]
    steps = np.repeat(np.arange(layout.steps), layout.alive)
    slots = np.arange(layout.frames) - layout.start[steps]
    rows = _joined(ordered)[(np.cumsum(layout.lengths) - layout.lengths)[slots] + steps]
    return StreamData(fitted(variable, rows), layout)


def _joined(arrays: list[Any]) -> Any:
    if not is_sparse(arrays[0]):
        return np.concatenate(arrays)
    from scipy.sparse import vstack

    return vstack(arrays, format="csr")


def fitted(variable: Variable, rows: Any) -> Any:
    """Return frames, an array or a CSR matrix, in the form in which the core has the variable."""
    from scipy.sparse import csr_array

    shape = variable._shape or ()
    dtype = variable._dtype or np.float32
    if is_fed_sparse(variable):
        return csr_array(rows if is_sparse(rows) else rows.reshape(len(rows), -1), dtype=dtype)
    dense = rows.toarray() if is_sparse(rows) else rows
    return dense.astype(dtype, copy=False).reshape(-1, *shape)


def minibatch_of(network: Network, given: Mapping[str, Any]) -> Minibatch:
    """Return a minibatch of the core, of data where some are packed.

    Args:
        network: whose inputs they are for.
        given: by name of the input.

    Raises:
        GraphError: there are no data for an input; others are sequences without starts, or of other lengths.
    """
    streams: dict[str, StreamData] = {}
    layouts: dict[str, SequenceLayout] = {}
    for node in network.inputs:
        if node.name not in given:
            raise GraphError(f"there are no data for {node.name}")
        value = given[node.name]
        if not isinstance(value, StreamData):
            if node.framed and (node.axis != BATCH or isinstance(value, list)):
                raise GraphError(_MIXED.format(node.name))
            rows = value if node.framed else np.asarray(value, network.dtype)[None]
            value = StreamData(rows, SequenceLayout.of_frames(rows.shape[0]))
        layout = layouts.setdefault(node.axis, value.layout) if node.framed else value.layout
        if not np.array_equal(layout.lengths, value.layout.lengths):
            raise GraphError(f"the sequences of {node.name} have other lengths than those of other inputs")
        streams[node.name] = StreamData(value.data, layout)
    return Minibatch(streams, max((layout.frames for layout in layouts.values()), default=1))


__all__ = ["are_pieces", "fitted", "minibatch_of", "packed"]
