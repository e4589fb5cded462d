"""From arrays to a minibatch: what the inputs of a plan are given in Python, and values as they come back.

``docs/inputs.md`` says what each kind of input takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

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


@attrs.frozen(eq=False)
class OneHot:
    """Whole numbers, each the place of the 1 in a sample, from 0: a list of them, or a list for each sequence."""

    numbers: Any


one_hot = OneHot
"""Lets whole numbers mean one-hot samples. Sparse inputs need no word."""


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


def take_arrays(
    plan: Plan, data: Any, *, make_layout: Callable[[Sequence[int]], SequenceLayout] = sequence_layout
) -> Taken:
    """Make a minibatch of the arrays for the inputs of a plan.

    Args:
        plan: whose inputs are wanted.
        data: by name (case does not count), or what the only input takes; names that are not wanted are left out.
        make_layout: ``lengths of the sequences -> SequenceLayout``.

    Raises:
        DataError: an input is missing or does not fit; there are other sequences on another input.
    """
    form = _form_of(data) if make_layout is sequence_layout else None
    known, places, samples, axes = _LAST.get(plan) or (None, (), 0, frozenset())
    if form is not None and form == known:
        again = {name: StreamData(np.asarray(data[key], plan.network.dtype), layout) for name, key, layout in places}
        return Taken(Minibatch(again, samples), axes)
    given = _by_name(plan, data)
    in_time = looked_along(plan)
    streams: dict[str, StreamData] = {}
    layouts: dict[str, SequenceLayout] = {}
    flat = {node.axis for node in plan.inputs if node.framed}
    counted: dict[str, _Frames] = {}
    for node in plan.inputs:
        found = _Reader(node, plan.network.dtype, in_time.get(node.axis)).read(given[node])
        if not node.framed:
            streams[node.name] = StreamData(found.rows[None], frame_layout(1))
            continue
        _check_counts(found, counted)
        if node.axis not in layouts:
            single = found.sequences is None and (node.axis == BATCH or make_layout is sequence_layout)
            layouts[node.axis] = frame_layout(found.count) if single else make_layout(found.lengths)
        layout, rows = layouts[node.axis], found.rows
        if found.sequences is not None:
            flat.discard(node.axis)
            rows = _packed(found.sequences, layout)
        streams[node.name] = StreamData(rows, layout)
    samples = max((layout.frames for layout in layouts.values()), default=1)
    taken = Taken(Minibatch(streams, samples), frozenset(flat))
    # Sparse ones are looked at for their numbers, sequences for their lengths.
    if form and all(not node.sparse and given[node].shape == streams[node.name].data.shape for node in plan.inputs):
        keys = {str(name).lower(): name for name in data}
        taken_as = [(node.name, keys[node.name.lower()], streams[node.name].layout) for node in plan.inputs]
        _LAST[plan] = form, taken_as, samples, taken.flat
    return taken


_LAST: WeakKeyDictionary[Plan, Any] = WeakKeyDictionary()
"""What dense arrays of samples a plan was given last, and how they were taken: most minibatches are as those before."""


def _form_of(data: Any) -> tuple[Any, ...] | None:
    """Names, types and shapes of arrays; None if there is anything else among them, or nothing."""
    if type(data) is not dict or any(type(one) is not np.ndarray or not one.size for one in data.values()):
        return None
    return tuple([(name, one.dtype, one.shape) for name, one in data.items()])


def _by_name(plan: Plan, data: Any) -> dict[Input, Any]:
    """What was given for each input."""
    if not isinstance(data, Mapping):
        if len(plan.inputs) != 1:
            wanted = ", ".join(f"'{node.name}'" for node in plan.inputs) or "none"
            raise DataError(
                "one array was given without a name", hint=f"The inputs are {wanted}: give {{name: array}}."
            )
        return {plan.inputs[0]: data}
    given = {str(name).lower(): value for name, value in data.items()}
    for node in plan.inputs:
        if node.name.lower() not in given:
            names = list(map(str, data))
            raise DataError(
                f"there are no values for the input '{node.name}'{did_you_mean(node.name, names)}",
                hint=f"Given: {', '.join(names) or 'nothing'}",
            )
    return {node: given[node.name.lower()] for node in plan.inputs}


_LOOKED_ALONG: WeakKeyDictionary[Plan, dict[str, Node]] = WeakKeyDictionary()


def looked_along(plan: Plan) -> Mapping[str, Node]:
    """Return the dynamic axes along whose sequences something looks, with one such node. Found once for a plan."""
    if plan in _LOOKED_ALONG:
        return _LOOKED_ALONG[plan]
    found = _LOOKED_ALONG[plan] = {}
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
    sequences: Any = None

    @property
    def count(self) -> int:
        return len(self.sequences) if self.sequences is not None else int(self.rows.shape[0])

    @property
    def lengths(self) -> list[int]:
        return [1] * self.count if self.sequences is None else [one.shape[0] for one in self.sequences]


def _packed(sequences: Any, layout: SequenceLayout) -> Any:
    """The frames of sequences in the packed order; one array of them has all equally long, and needs no list."""
    if isinstance(sequences, list):
        return pack(sequences, layout)
    return np.ascontiguousarray(sequences.swapaxes(0, 1)).reshape(-1, *sequences.shape[2:])


def _check_counts(found: _Frames, counted: dict[str, _Frames]) -> None:
    """On one axis lengths are equal; on all axes there are as many sequences."""
    other = counted.setdefault(found.node.axis, found)
    alike = found.sequences is None and other.sequences is None and found.count == other.count
    if other is not found and not alike and found.lengths != other.lengths:
        lengths = other.lengths, found.lengths
        told = " and ".join(f"{each[:20]} ..." if len(each) > 20 else str(each) for each in lengths)
        raise DataError(f"the sequences of '{other.node.name}' and '{found.node.name}' have different lengths: {told}")
    first = next(iter(counted.values()))
    if found.count != first.count:
        counts = ", ".join(f"'{each.node.name}' has {each.count}" for each in (first, found))
        raise DataError(f"the inputs differ in the number of samples or sequences: {counts}")


class _Reader:
    """Reads what an input is given; ``looks`` is a node that looks along its sequences."""

    def __init__(self, node: Input, dtype: np.dtype[Any], looks: Node | None) -> None:
        self.node, self.dtype, self.looks = node, dtype, looks
        self.shape = node.known_shape
        self.width = 0 if is_free(self.shape) else elements(self.shape)
        self.hot = False

    def read(self, value: Any) -> _Frames:
        """Return rows or sequences.

        Raises:
            DataError: the value is not of the input's shape, or has no sequences where there must be some.
        """
        from scipy.sparse import issparse

        node = self.node
        if isinstance(value, OneHot):
            self.hot, value = True, value.numbers
        array = None if issparse(value) else self._array(value)
        rows = self._matrix(value) if issparse(value) and node.framed else self._samples(array, value)
        if rows is not None:
            if self.looks is not None:
                raise DataError(
                    f"the input '{node.name}' is given as {rows.shape[0]} samples, but {self.looks.op.name} "
                    f"'{self.looks.name}' looks along sequences",
                    hint=self._wanted().splitlines()[1].replace("It takes", "Give"),
                )
            return _Frames(node, rows=rows)
        empty = array is not None and not array.size and (self.width > 0 or array.ndim == 1)
        several = isinstance(value, Sequence) if array is None else empty or self._is_sequences(array)
        if not node.framed or node.axis == BATCH or isinstance(value, str) or not several:
            raise self._wrong(value if array is None else array)
        if not len(value):
            raise DataError(f"no sequences are given for the input '{node.name}'")
        if array is not None and array.size and not (node.sparse or self.hot):
            return _Frames(node, sequences=self._rows(array.reshape(-1, *array.shape[2:]), array.shape[:2]))
        sequences = [self._sequence(one) for one in (value if array is None else array)]
        sizes = dict.fromkeys(each.shape[1:] for each in sequences)
        if len(sizes) > 1:
            raise self._wrong(f"sequences of samples {_shapes(sizes)}; in a minibatch all have one size")
        return _Frames(node, sequences=sequences)

    def _samples(self, array: Array | None, value: Any) -> Any:
        """The samples of one array; None if it is no array of samples."""
        node = self.node
        if array is None or (node.framed and not array.ndim):
            return None
        if not node.framed:
            return array.astype(self.dtype) if fits(self.shape, array.shape) else None
        if self._are_numbers(array):
            if array.ndim == 1 and array.size:
                return self._of_numbers(array)
            clear = not isinstance(value, np.ndarray) or array.shape[1:] != (self.width,)
            if self.hot or (array.ndim == 2 and node.axis != BATCH and clear):
                return None
            if array.ndim == 2 and node.axis != BATCH:
                raise DataError(
                    f"whole numbers of the shape {array.shape} for the input '{node.name}' may be samples or numbers "
                    "of one-hot elements",
                    hint="Give samples as floating-point numbers, or say one_hot.",
                )
        return self._rows(array) if self._is_sample(array.shape[1:]) else None

    def _sequence(self, value: Any) -> Any:
        """The frames of one sequence."""
        from scipy.sparse import issparse

        if issparse(value):
            return self._matrix(value)
        array = self._array(value)
        if array is not None and array.ndim == 1 and (not array.size or self._are_numbers(array)):
            return self._of_numbers(array.astype(np.int64))
        if array is None or not array.ndim or not self._is_sample(array.shape[1:]) or self.hot:
            raise self._wrong(value if array is None else array, "a sequence of ")
        return self._rows(array)

    def _array(self, value: Any) -> Array | None:
        """Return a value as an array; None if it holds several of different shapes, or sparse ones."""
        from scipy.sparse import issparse

        if isinstance(value, list | tuple) and any(issparse(one) for one in value):
            return None
        try:
            array = np.asarray(value)
        except ValueError:  # of different shapes
            return None
        if array.size and array.dtype.kind not in ("Oiu" if self.hot else "Ofiub"):
            wanted = "whole numbers, which one_hot wants" if self.hot else "numbers"
            raise DataError(f"the input '{self.node.name}' is given values of the type {array.dtype}, not {wanted}")
        return None if array.dtype == object else array

    def _are_numbers(self, array: Array) -> bool:
        """Whether whole numbers are those of one-hot elements."""
        return (self.hot or self.node.sparse) and array.dtype.kind in "iu"

    def _is_sequences(self, array: Array) -> bool:
        return array.ndim > 1 and ((self._are_numbers(array) and array.ndim == 2) or self._is_sample(array.shape[2:]))

    def _is_sample(self, sizes: tuple[int, ...]) -> bool:
        """Whether a sample has the input's shape, or is it laid out as one row."""
        return fits(self.shape, sizes) or (not sizes and self.shape == (1,)) or sizes == (self.width,) != (0,)

    def _rows(self, array: Array, form: tuple[int, ...] = (-1,)) -> Any:
        if self.node.sparse:
            return self._matrix(array.reshape(array.shape[0], self.width))
        shape = array.shape[1:] if is_free(self.shape) else self.shape
        return array.astype(self.dtype, copy=False).reshape(*form, *shape)

    def _matrix(self, matrix: Any) -> Any:
        """The rows of a sparse matrix, as the input takes them."""
        from scipy.sparse import csr_array

        if matrix.ndim != 2 or matrix.shape[1] != self.width:
            raise self._wrong(matrix)
        rows = csr_array(matrix, dtype=self.dtype)
        return rows if self.node.sparse else rows.toarray().reshape(rows.shape[0], *self.shape)

    def _of_numbers(self, numbers: Array) -> Any:
        from scipy.sparse import csr_array

        if not self.width:
            raise self._wrong("one-hot samples, but how many elements there are is not known")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.width:
            given = f"given are {numbers.min()} to {numbers.max()}"
            raise DataError(f"the input '{self.node.name}' has elements 0 to {self.width - 1}; {given}")
        ones, begins = np.ones(numbers.size, self.dtype), np.arange(numbers.size + 1)
        return self._matrix(csr_array((ones, numbers, begins), shape=(numbers.size, self.width)))

    def _wrong(self, value: Any, what: str = "") -> DataError:
        if hasattr(value, "shape"):
            found = f"has the shape {value.shape}"
        elif isinstance(value, list | tuple):
            found = f"is given values of the shapes {_shapes(dict.fromkeys(map(np.shape, value)))}"
        else:
            found = f"is given {value if isinstance(value, str) else f'a {type(value).__name__}, not an array'}"
        return DataError(f"{what}the input '{self.node.name}' {found}", hint=self._wanted())

    def _wanted(self) -> str:
        node, sample = self.node, ", ".join(map(str, self.shape))
        several = f"a list of sequences, each (frames, {sample})"
        if not node.framed:
            takes = "one array of this shape"
        elif node.axis == BATCH:
            takes = f"one array (samples, {sample})"
        elif self.looks is not None:
            takes = f"{several}, or one array (sequences, frames, {sample})"
        else:
            takes = f"one array (samples, {sample}) or {several}"
        more = "\nWhole numbers mean one-hot samples." if node.sparse else ""
        return f"A sample is {show(self.shape)}, in memory ({sample}).\nIt takes {takes}.{more}"


def _shapes(shapes: Iterable[tuple[int, ...]]) -> str:
    return " and ".join(map(str, list(shapes)[:3]))
