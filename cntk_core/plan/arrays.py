"""From arrays to a minibatch: what the inputs of a plan are given in Python, and values as they come back.

An input with sequences takes a list of arrays ``(frames, *shape)``, one for each sequence, or one array ``(sequences,
frames, *shape)``; where nothing looks along the sequences, also one array ``(samples, *shape)``. An input with the
batch axis alone takes ``(samples, *shape)``, one without a dynamic axis an array of its shape. Sparse inputs take the
same as SciPy's matrices, and whole numbers, which mean one-hot samples; others take :func:`one_hot`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import DataError, did_you_mean
from cntk_core.network.inference import is_delay
from cntk_core.network.node import BATCH, Input, Node
from cntk_core.ops.language.layouts import frame_layout, sequence_layout
from cntk_core.ops.language.reader_order import pack, unpack
from cntk_core.ops.language.rows import reader_slots
from cntk_core.ops.language.shapes import elements, fits, is_free, show
from cntk_core.plan.plan import Plan
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData

Array = NDArray[Any]
MakeLayout = Callable[[Sequence[int]], SequenceLayout]


@attrs.frozen(eq=False)
class OneHot:
    """Whole numbers that mean one-hot samples. Made by :func:`one_hot`."""

    numbers: Any


def one_hot(numbers: Any) -> OneHot:
    """Let whole numbers mean one-hot samples: a list of them, or a list for each sequence. Sparse inputs need no word.

    Args:
        numbers: each the place of the 1, from 0.
    """
    return OneHot(numbers)


@attrs.frozen(eq=False)
class Taken:
    """A minibatch that was made of arrays.

    Attributes:
        minibatch: for the program.
        flat: dynamic axes on which there was one array of samples, so that values come back like that.
    """

    minibatch: Minibatch
    flat: frozenset[str]

    def value(self, node: Node, value: Array, layout: SequenceLayout | None) -> Any:
        """Return a root's value as its inputs were given.

        Args:
            node: the root.
            value: of the program, after it has run the minibatch.
            layout: the sequences of the root's dynamic axis, if it has one.

        Returns:
            An array of the node's shape if it has no dynamic axis, ``(samples, *shape)`` if it has no sequences or none
            were given, else a list with one array ``(frames, *shape)`` for each sequence.
        """
        if layout is None or node.axis in self.flat:
            return value
        found = unpack(value, layout)
        return np.concatenate(found) if node.axis == BATCH and found else found

    def packed(self, node: Node, value: Any, layout: SequenceLayout) -> Array:
        """Return what is given as :meth:`value` gives a node's value as the program has it; a number as it is.

        Raises:
            DataError: there are other sequences than the node has.
        """
        if node.axis in self.flat or np.isscalar(value):
            return np.asarray(value)
        frames = [np.asarray(one) for one in (np.asarray(value)[:, None] if node.axis == BATCH else value)]
        lengths = np.zeros(layout.slots, np.int64)
        lengths[reader_slots(layout)] = layout.lengths
        if [one.shape[:1] for one in frames] != [(length,) for length in lengths.tolist()]:
            given = ", ".join(str(len(one) if one.ndim else "a number") for one in frames)
            raise DataError(
                f"'{node.name}' has sequences of {', '.join(map(str, lengths))} frames; given are sequences of {given}"
            )
        found: Array = pack(frames, layout)
        return found


def take_arrays(plan: Plan, data: Any, *, make_layout: MakeLayout = sequence_layout) -> Taken:
    """Make a minibatch of the arrays for the inputs of a plan.

    Args:
        plan: whose inputs are wanted.
        data: by name (case does not count), or what the only input takes; names that are not wanted are left out.
        make_layout: ``lengths of the sequences -> SequenceLayout``.

    Raises:
        DataError: an input is missing or does not fit; there are other sequences on another input.
    """
    given = _by_name(plan, data)
    in_time = _looked_along(plan)
    streams: dict[str, StreamData] = {}
    layouts: dict[str, SequenceLayout] = {}
    whole = {node.axis for node in plan.inputs if node.framed}
    counted: dict[str, _Frames] = {}
    for node in plan.inputs:
        found = _Reader(node, plan.network.dtype, in_time=node.axis in in_time).read(given[node])
        if not node.framed:
            streams[node.name] = StreamData(found.rows[None], frame_layout(1))
            continue
        if found.sequences is not None:
            whole.discard(node.axis)
        elif node.axis in in_time:
            raise _needs_sequences(found, in_time[node.axis])
        _check_counts(found, counted)
        layout = layouts.get(node.axis)
        if layout is None:
            make = frame_layout if node.axis == BATCH else None
            layout = make(len(found.lengths)) if make else make_layout(found.lengths)
            layouts[node.axis] = layout
        rows = found.rows if found.sequences is None else pack(found.sequences, layout)
        streams[node.name] = StreamData(rows, layout)
    samples = max((layout.frames for layout in layouts.values()), default=1)
    return Taken(Minibatch(streams, samples), frozenset(whole))


def _by_name(plan: Plan, data: Any) -> dict[Input, Any]:
    """What was given for each input."""
    if not isinstance(data, Mapping):
        if len(plan.inputs) != 1:
            names = ", ".join(f"'{node.name}'" for node in plan.inputs) or "none"
            raise DataError("one array was given without a name", hint=f"The inputs are {names}: give {{name: array}}.")
        return {plan.inputs[0]: data}
    given = {str(name).lower(): value for name, value in data.items()}
    missing = next((node for node in plan.inputs if node.name.lower() not in given), None)
    if missing is not None:
        guess = did_you_mean(missing.name, list(map(str, data)))
        hint = f"Given: {', '.join(map(str, data)) or 'nothing'}"
        raise DataError(f"there are no values for the input '{missing.name}'{guess}", hint=hint)
    return {node: given[node.name.lower()] for node in plan.inputs}


def _looked_along(plan: Plan) -> dict[str, Node]:
    """The dynamic axes along whose sequences something looks, with one such node."""
    found: dict[str, Node] = {}
    for node in (node for step in plan.steps for node in step.nodes):
        along = {0} if is_delay(node) or node.op.relayout is not None else set(node.op.along_sequences)
        if node.op.axis_of is not None and not node.op.traits.passes_through:
            along.add(node.op.axis_of)
        for index in along:
            if index < len(node.inputs) and node.inputs[index].framed:
                found.setdefault(node.inputs[index].axis, node)
    found.pop(BATCH, None)
    return found


@attrs.frozen(eq=False)
class _Frames:
    """What an input was given: rows, one for each sample, or sequences."""

    node: Input
    rows: Any = None
    sequences: Sequence[Any] | None = None

    @property
    def lengths(self) -> list[int]:
        return [1] * self.rows.shape[0] if self.sequences is None else [one.shape[0] for one in self.sequences]


def _needs_sequences(found: _Frames, reader: Node) -> DataError:
    sample = _said(found.node)
    return DataError(
        f"the input '{found.node.name}' is given as {found.rows.shape[0]} samples, but {reader.op.name} "
        f"'{reader.name}' looks along sequences",
        hint=f"Give a list of sequences, each (frames, {sample}), or one array (sequences, frames, {sample}).",
    )


def _check_counts(found: _Frames, counted: dict[str, _Frames]) -> None:
    """On one axis lengths are equal; on all axes there are as many sequences."""
    node, lengths = found.node, found.lengths
    other = counted.setdefault(node.axis, found)
    if lengths != other.lengths:
        raise DataError(
            f"the sequences of '{other.node.name}' and '{node.name}' have different lengths: "
            f"{_some(other.lengths)} and {_some(lengths)}"
        )
    first = next(iter(counted.values()))
    if len(lengths) != len(first.lengths):
        counts = (f"'{each.node.name}' has {len(each.lengths)}" for each in (first, found))
        raise DataError(f"the inputs differ in the number of samples or sequences: {', '.join(counts)}")


def _some(lengths: Sequence[int]) -> str:
    return str(list(lengths)) if len(lengths) <= 20 else f"{list(lengths[:20])} and {len(lengths) - 20} more"


def _said(node: Input) -> str:
    """A sample's shape in memory order: ``3, ?, ?``."""
    return ", ".join(map(str, node.known_shape))


class _Reader:
    """Reads what an input is given."""

    def __init__(self, node: Input, dtype: np.dtype[Any], *, in_time: bool) -> None:
        self.node = node
        self.in_time = in_time
        self.shape = node.known_shape
        self.dtype = dtype
        self.width = 0 if is_free(self.shape) else elements(self.shape)
        self.hot = False

    def read(self, value: Any) -> _Frames:
        """Return rows or sequences.

        Raises:
            DataError: the value is not of the input's shape.
        """
        from scipy.sparse import issparse

        node = self.node
        if isinstance(value, OneHot):
            self.hot, value = True, value.numbers
        if issparse(value) and node.framed:
            return _Frames(node, rows=self._matrix(value))
        array = _as_array(value)
        if array is not None:
            self._check_kind(array)
            found = self._whole(array, is_list=not isinstance(value, np.ndarray))
            if found is not None:
                return found
        several = isinstance(value, Sequence) if array is None else not array.size or self._is_sequences(array)
        if not node.framed or node.axis == BATCH or isinstance(value, str) or not several:
            raise self._wrong(value if array is None else array)
        if not len(value):
            raise DataError(f"no sequences are given for the input '{node.name}'")
        sequences = [self._sequence(one) for one in value]
        sizes = dict.fromkeys(each.shape[1:] for each in sequences)
        if len(sizes) > 1:
            raise self._wrong(f"sequences of samples {_shapes(sizes)}; in a minibatch all have one size")
        return _Frames(node, sequences=sequences)

    def _whole(self, array: Array, *, is_list: bool) -> _Frames | None:
        """The samples of one array; None if it is no array of samples."""
        node, sizes = self.node, array.shape[1:]
        if not node.framed:
            return _Frames(node, rows=array.astype(self.dtype)) if fits(self.shape, array.shape) else None
        if array.ndim == 0:
            return None
        if self._are_numbers(array):
            if array.ndim == 1 and array.size:
                return _Frames(node, rows=self._of_numbers(array))
            if self.hot or (array.ndim == 2 and node.axis != BATCH and (is_list or sizes != (self.width,))):
                return None
            if array.ndim == 2 and node.axis != BATCH:
                raise DataError(
                    f"whole numbers of the shape {array.shape} for the input '{node.name}' may be samples or numbers "
                    "of one-hot elements",
                    hint="Give samples as floating-point numbers, or say one_hot.",
                )
        return _Frames(node, rows=self._rows(array)) if self._is_sample(sizes) else None

    def _sequence(self, value: Any) -> Any:
        """The frames of one sequence."""
        from scipy.sparse import issparse

        if issparse(value):
            return self._matrix(value)
        array = _as_array(value)
        if array is None:
            raise self._wrong(value, "a sequence of ")
        self._check_kind(array)
        if array.ndim == 1 and (not array.size or self._are_numbers(array)):
            return self._of_numbers(array.astype(np.int64))
        if array.ndim == 0 or not self._is_sample(array.shape[1:]) or self.hot:
            raise self._wrong(array, "a sequence of ")
        return self._rows(array)

    def _are_numbers(self, array: Array) -> bool:
        """Whether whole numbers are those of one-hot elements."""
        return (self.hot or self.node.sparse) and array.dtype.kind in "iu"

    def _is_sequences(self, array: Array) -> bool:
        return array.ndim > 1 and ((self._are_numbers(array) and array.ndim == 2) or self._is_sample(array.shape[2:]))

    def _is_sample(self, sizes: tuple[int, ...]) -> bool:
        """Whether a sample has the input's shape, or is it laid out as one row."""
        return fits(self.shape, sizes) or (not sizes and self.shape == (1,)) or sizes == (self.width,)

    def _rows(self, array: Array) -> Any:
        if self.node.sparse:
            return self._matrix(array.reshape(array.shape[0], self.width))
        shape = array.shape if is_free(self.shape) else (array.shape[0], *self.shape)
        return array.astype(self.dtype, copy=False).reshape(shape)

    def _matrix(self, matrix: Any) -> Any:
        """The rows of a sparse matrix, as the input takes them."""
        from scipy.sparse import csr_array

        if matrix.ndim != 2 or matrix.shape[1] != self.width:
            raise self._wrong(matrix)
        rows = csr_array(matrix, dtype=self.dtype)
        return rows if self.node.sparse else rows.toarray().reshape(rows.shape[0], *self.shape)

    def _of_numbers(self, numbers: Array) -> Any:
        from scipy.sparse import csr_array

        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.width:
            raise DataError(
                f"the input '{self.node.name}' has elements 0 to {self.width - 1}; given are {numbers.min()} to "
                f"{numbers.max()}"
            )
        ones, begins = np.ones(numbers.size, self.dtype), np.arange(numbers.size + 1)
        return self._matrix(csr_array((ones, numbers, begins), shape=(numbers.size, self.width)))

    def _check_kind(self, array: Array) -> None:
        if array.size and array.dtype.kind not in ("iu" if self.hot else "fiub"):
            wanted = "whole numbers, which one_hot wants" if self.hot else "numbers"
            raise DataError(f"the input '{self.node.name}' is given values of the type {array.dtype}, not {wanted}")

    def _wrong(self, value: Any, what: str = "") -> DataError:
        shape = getattr(value, "shape", None)
        if shape is not None:
            found = f"has the shape {shape}"
        elif isinstance(value, str):
            found = f"is given {value}"
        elif isinstance(value, list | tuple):
            found = f"is given values of the shapes {_shapes(dict.fromkeys(map(np.shape, value)))}"
        else:
            found = f"is given a {type(value).__name__}, not an array"
        return DataError(f"{what}the input '{self.node.name}' {found}", hint=self._wanted())

    def _wanted(self) -> str:
        node, sample = self.node, _said(self.node)
        lines = [f"A sample is {show(self.shape)}, in memory ({sample})."]
        if not node.framed:
            lines += ["It takes one array of this shape."]
        elif node.axis == BATCH:
            lines += [f"It takes one array (samples, {sample})."]
        elif self.in_time:
            lines += [
                f"It takes a list of sequences, each (frames, {sample}), or one array (sequences, frames, {sample})."
            ]
        else:
            lines += [f"It takes one array (samples, {sample}) or a list of sequences, each (frames, {sample})."]
        return "\n".join([*lines, *(["Whole numbers mean one-hot samples."] if node.sparse else [])])


def _shapes(shapes: Iterable[tuple[int, ...]]) -> str:
    return " and ".join(map(str, list(shapes)[:3]))


def _as_array(value: Any) -> Array | None:
    """Return a value as an array; None if it holds several of different shapes, or sparse ones."""
    from scipy.sparse import issparse

    if isinstance(value, list | tuple) and any(issparse(one) for one in value):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # of different shapes
        return None
    return None if array.dtype == object else array
