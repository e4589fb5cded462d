"""Templates: the code of a time step of a loop, which is bound once and moved to the rows of other time steps.

To bind a step takes much longer than to launch it: expressions are traced, kernels are looked up. Steps with equally
many rows differ in nothing but the places of these rows, so that their code is had by moving the arrays in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from cntk_core.api import Node
from cntk_engine_cuda.gpu import Array, Call

Key = tuple[Any, ...]
"""Names an array of all rows: its kind and node, and what else tells it from others."""

ALIGNED = 16
"""Kernels are chosen by whether their operands begin at a multiple of so many bytes."""


@attrs.frozen(eq=False)
class Cut:
    """The rows of a time step of an array of all rows.

    Attributes:
        key: of the array.
        begin, end: addresses.
        width: elements of a row.
        dtype: of the array.
    """

    key: Key
    begin: int
    end: int
    width: int
    dtype: Any

    @classmethod
    def of(cls, key: Key, array: Array, rows: int) -> Cut:
        """The cut of so many rows."""
        begin = int(array.data.ptr)
        return cls(key, begin, begin + int(array.nbytes), array.size // rows if rows else 0, array.dtype)


@attrs.frozen
class _Moved:
    """An argument that lies in a cut.

    Attributes:
        key: of the array of all rows.
        width: its elements in a row.
        first: from the first element of the time step.
        shape: of the argument.
    """

    key: Key
    width: int
    first: int
    shape: tuple[int, ...]


@attrs.frozen
class Template:
    """Calls whose arguments are found for the rows of any time step.

    Attributes:
        calls: each a call and its arguments, flat; those to be moved are :class:`_Moved`.
    """

    calls: tuple[tuple[Call, tuple[Any, ...]], ...]

    def at(self, first_row: int, flat: Callable[[Key], Array]) -> list[Call]:
        """The calls for the time step that begins with a row; ``flat`` gives arrays of all rows as flat ones."""
        return [_with_arguments(call, [_placed(each, first_row, flat) for each in given]) for call, given in self.calls]


def make_template(calls: Sequence[Call], cuts: Mapping[Key, Cut], array_type: type) -> Template | None:
    """Return the template of calls that were bound to the rows of a time step.

    Args:
        calls: the calls.
        cuts: everything in them that lies elsewhere in other time steps.
        array_type: of arrays of the device.

    Returns:
        None if a call cannot be moved.
    """
    if not all(call.movable and call.captured for call in calls):
        return None
    made = []
    for call in calls:
        arguments = [
            _reference(each, cuts.values()) if isinstance(each, array_type) else each for each in _arguments(call)
        ]
        if any(each is None for each in arguments):
            return None
        made.append((call, tuple(arguments)))
    return Template(tuple(made))


def _arguments(call: Call) -> Iterator[Any]:
    """The arguments of a call; those of a kernel stand in a tuple of their own, behind grid and block."""
    for each in call.arguments:
        if isinstance(each, tuple):
            yield from each
        else:
            yield each


def _with_arguments(call: Call, flat: Sequence[Any]) -> Call:
    rest = iter(flat)
    arguments = tuple(
        tuple(next(rest) for _ in each) if isinstance(each, tuple) else next(rest) for each in call.arguments
    )
    return Call(call.function, arguments, movable=True)


def _reference(array: Array, cuts: Iterable[Cut]) -> Any:
    """What stands for an array in a template; None if it lies half in a cut, half outside."""
    begin = int(array.data.ptr)
    end = begin + int(array.nbytes)
    for cut in cuts:
        if begin < cut.end and cut.begin < end:
            if begin < cut.begin or end > cut.end or array.dtype != cut.dtype:
                return None
            return _Moved(cut.key, cut.width, (begin - cut.begin) // int(array.dtype.itemsize), tuple(array.shape))
    return array


def _placed(argument: Any, first_row: int, flat: Callable[[Key], Array]) -> Any:
    if not isinstance(argument, _Moved):
        return argument
    begin = first_row * argument.width + argument.first
    return flat(argument.key)[begin : begin + math.prod(argument.shape)].reshape(argument.shape)


class Rows(Mapping[Node, Array]):
    """Arrays of which those with the axis of a loop are cut to the rows of a time step, when somebody wants them.

    Args:
        kind: what the arrays are.
        whole: those of all rows.
        axis: of the loop.
        rows: of the time step.
        cuts: where those are noted that were wanted.
    """

    def __init__(self, kind: str, whole: Mapping[Node, Array], axis: str, rows: slice, cuts: dict[Key, Cut]) -> None:
        self._kind = kind
        self._whole = whole
        self._axis = axis
        self._rows = rows
        self._cuts = cuts
        self._cut: dict[Node, tuple[Cut, Array]] = {}

    def __getitem__(self, node: Node) -> Array:
        if not (node.framed and node.axis == self._axis):
            return self._whole[node]
        if node not in self._cut:
            array = self._whole[node][self._rows]
            self._cut[node] = Cut.of((self._kind, node), array, self._rows.stop - self._rows.start), array
        cut, array = self._cut[node]
        self._cuts[cut.key] = cut
        return array

    def __contains__(self, node: object) -> bool:
        return node in self._whole

    def __iter__(self) -> Iterator[Node]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)
