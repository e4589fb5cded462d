"""From arrays to a minibatch: what the inputs of a plan are given in Python, and values as they come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import DataError
from cntk_core.network.node import Input
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.reader_order import pack
from cntk_core.ops.language.shapes import elements, show
from cntk_core.plan.plan import Plan
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData


@attrs.frozen(eq=False)
class Taken:
    """A minibatch that was made of arrays."""

    minibatch: Minibatch


def take_arrays(
    plan: Plan,
    data: Mapping[str, Any],
    *,
    make_layout: Callable[[Sequence[int]], SequenceLayout] = sequence_layout,
) -> Taken:
    """Make a minibatch of the sequences for the inputs of a plan.

    Args:
        plan: whose inputs are wanted.
        data: for each input by name, its sequences: arrays ``(frames, *shape)``, or whole numbers, which mean one-hot
            vectors; or one array of samples ``(samples, *shape)``, each a sequence of one frame.
        make_layout: ``lengths of the sequences -> SequenceLayout``.

    Raises:
        DataError: an input is missing or does not fit; inputs of one dynamic axis have other lengths.
    """
    layouts: dict[str, SequenceLayout] = {}
    streams = {}
    for node, frames in _sequences(plan, data).items():
        lengths = [one.shape[0] for one in frames]
        layout = layouts[node.axis] = layouts.get(node.axis) or make_layout(lengths)
        rows = pack(frames, layout) if frames else np.zeros((0, *node.known_shape), plan.network.dtype)
        streams[node.name] = StreamData(rows, layout)
    return Taken(Minibatch(streams, max((layout.frames for layout in layouts.values()), default=0)))


def _sequences(plan: Plan, data: Mapping[str, Any]) -> dict[Input, list[Any]]:
    """The sequences of each input of a plan.

    Raises:
        DataError: an input is missing or does not fit; inputs of one dynamic axis have other lengths.
    """
    given = {name.lower(): sequences for name, sequences in data.items()}
    found: dict[Input, list[Any]] = {}
    of_axis: dict[str, Input] = {}
    for node in plan.inputs:
        if node.name.lower() not in given:
            hint = f"Given: {', '.join(data) or 'nothing'}"
            raise DataError(f"there are no sequences for the input '{node.name}'", hint=hint)
        sequences: Any = given[node.name.lower()]
        if isinstance(sequences, np.ndarray) and sequences.shape[1:] == node.known_shape:
            sequences = sequences[:, None]
        found[node] = [_frames(node, one, plan.network.dtype) for one in sequences]
        other = of_axis.setdefault(node.axis, node)
        lengths, others = ([one.shape[0] for one in found[each]] for each in (node, other))
        if lengths != others:
            raise DataError(
                f"the sequences of '{other.name}' and '{node.name}' have different lengths: {others} and {lengths}"
            )
    return found


def _frames(node: Input, sequence: Any, dtype: np.dtype[Any]) -> Any:
    """The frames of a sequence as a network takes them, from an array or from numbers of one-hot elements."""
    from scipy.sparse import csr_array, issparse

    width = elements(node.known_shape)
    values: Any = sequence if issparse(sequence) else np.asarray(sequence)
    if values.ndim == 1 and (values.dtype.kind in "iu" or not values.shape[0]):
        values = _one_hot(node, values.astype(np.int64), width, dtype)
    elif values.ndim == 0 or elements(values.shape[1:]) != width or (values.ndim == 1 and width > 1):
        raise DataError(
            f"a sequence of the input '{node.name}' has the shape {values.shape}",
            hint=f"Frames are {show(node.known_shape)}, in memory {node.known_shape}, or numbers of one-hot elements.",
        )
    is_sparse = bool(issparse(values))
    if node.sparse:
        return csr_array(values if is_sparse else values.reshape(len(values), width), dtype=dtype)
    rows = values.toarray() if is_sparse else values
    return rows.astype(dtype).reshape(len(rows), *node.known_shape)


def _one_hot(node: Input, words: NDArray[np.int64], width: int, dtype: np.dtype[Any]) -> Any:
    from scipy.sparse import csr_array

    if words.size and not 0 <= words.min() <= words.max() < width:
        raise DataError(
            f"the input '{node.name}' has elements 0 to {width - 1}; given are {words.min()} to {words.max()}"
        )
    return csr_array((np.ones(words.size, dtype), words, np.arange(words.size + 1)), shape=(words.size, width))
