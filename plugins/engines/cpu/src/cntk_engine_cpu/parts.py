"""Parts of a kernel's work, which the threads of OpenMP share that oneDNN's products use, too.

A region of OpenMP costs one or two microseconds where its threads are awake. How many parts there are depends on the
work alone, never on the number of threads; so do all results, since each part has sums of its own, which are added up
in the order of the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cntk_core.api.engines import Native, native_function
from cntk_engine_cpu.inputs import Ports, address_of
from cntk_engine_cpu.rows import Row

Array = NDArray[Any]

SPLIT_ELEMENTS = 1 << 17
"""Elements of an operand from which a second thread pays."""

PART_ELEMENTS = 1 << 13
"""Elements of the smallest part."""

MOST_PARTS = 64

SUMMED_ROWS = 64
"""Least rows of a part that has sums of its own: so many times the work of adding them up."""

LINE = 16
"""Elements of a line of the cache."""

Cut = Literal["whole", "rows", "borders", "columns", "first", "count", "each"]
"""What a part gets of an argument: all of it; its rows; its rows and the one after them; its columns of a single row;
where they begin; how many they are; or its own of as many as there are parts."""

_TEXT = """
def share(thread, threads, kernel, blocks):
    me = foreign(thread, "i32()")
    all = foreign(threads, "i32()")
    for part in range(len(blocks) * me // all, len(blocks) * (me + 1) // all):
        foreign(kernel, "void(ptr)", blocks[part])

def parallel(openmp, share, block, threads):
    foreign(openmp, "void(ptr, ptr, i32, i32)", share, block, threads, 0)

def each(kernel, blocks):
    for part in range(len(blocks)):
        foreign(kernel, "void(ptr)", blocks[part])
"""


def part_ends(rows: int, columns: int, *, sums: bool = False) -> list[int]:
    """Where the parts of some rows begin, and the end; one part if there is little to do.

    Args:
        rows, columns: of the matrix with the most elements.
        sums: each part has sums over its rows.
    """
    elements = rows * columns
    count = 1
    if elements >= SPLIT_ELEMENTS:
        count = max(1, min(MOST_PARTS, elements // PART_ELEMENTS, rows // SUMMED_ROWS if sums else rows))
    return [rows * part // count for part in range(count + 1)]


def range_ends(elements: int) -> list[int]:
    """Where the parts of a flat range begin, and the end: at whole lines of the cache."""
    ends = part_ends(elements, 1)
    return [*(end // LINE * LINE for end in ends[:-1]), elements]


class Team:
    """The threads that share parts.

    Args:
        openmp: addresses of OpenMP's functions, by name; none where there is no OpenMP.
        threads: how many there are at most.
    """

    def __init__(self, openmp: Mapping[str, int], threads: int) -> None:
        self.openmp = openmp
        self.threads = threads if openmp else 1
        self._room: Array = np.empty(0)

    def room(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Return storage for the sums of parts, flat: the same for all kernels of a program."""
        if self._room.size < count or self._room.dtype != dtype:
            self._room = np.empty(count, dtype)
        return self._room[:count]

    def row(self, function: Native, blocks: Array) -> Row:
        """Return the compiled function that calls another one with all ``blocks`` (one a row), in any order."""
        table = address_of(blocks) + blocks.strides[0] * np.arange(len(blocks))
        kept: list[Any] = [blocks, table]
        threads = min(self.threads, len(blocks))
        if threads < 2:
            each = native_function(_TEXT, "each", "void(int64, int64[::1])")
            return Row(each, each.block(function.address, table), kept)
        share = native_function(_TEXT, "share", "void(int64, int64, int64, int64[::1])")
        known = self.openmp["omp_get_thread_num"], self.openmp["omp_get_num_threads"]
        inner = share.block(*known, function.address, table)
        parallel = native_function(_TEXT, "parallel", "void(int64, int64, int64, int64)")
        block = parallel.block(self.openmp["GOMP_parallel"], share.address, address_of(inner), self.threads)
        return Row(parallel, block, [*kept, inner])


class Parts:
    """A compiled function bound to the parts of its work.

    Args:
        team: who does them.
        function: what does one. What it does for a row does not depend on other rows, but for its own sums.
        ends: where the parts begin, and the end.
        arguments, cuts: of the function for all rows, and what a part gets of each.
        ports: the inputs that an array may lie in.
    """

    def __init__(
        self,
        team: Team,
        function: Native,
        ends: Sequence[int],
        arguments: Sequence[Any],
        cuts: Sequence[Cut],
        ports: Ports | None = None,
    ) -> None:
        self._function, self._cuts = function, cuts
        self._firsts, self._counts = np.array(ends[:-1]), np.diff(ends)
        self.blocks = np.zeros((len(self._firsts), function.size), np.int64)
        self._kept: dict[int, Array] = {}
        for index, argument in enumerate(arguments):
            self.put(index, argument)
            if ports is not None and isinstance(argument, np.ndarray) and self._follow(index, argument, ports):
                del self._kept[index]
        self._row = team.row(function, self.blocks)
        self._address = address_of(self._row.block)

    def put(self, index: int, argument: Any) -> None:
        """Change an argument, which a part gets what it should of.

        Raises:
            TypeError: it has another type, or does not lie in one piece.
        """
        blocks, cut = self.blocks, self._cuts[index]
        place = self._function.places[index]
        if cut in ("first", "count"):
            blocks[:, place] = self._firsts if cut == "first" else self._counts
            return
        probe = argument[:1].reshape(argument.shape[1:]) if cut == "each" else argument
        self._function.put(blocks[0], index, probe)
        slots = slice(place, place + self._function.parameters[index].slots)
        blocks[1:, slots] = blocks[0, slots]
        if not isinstance(argument, np.ndarray):
            return
        self._kept[index] = argument
        if cut == "columns":
            blocks[:, place] += argument.itemsize * self._firsts
            blocks[:, place + 2] = self._counts
        elif cut == "each":
            blocks[:, place] += argument.strides[0] * np.arange(len(blocks))
        elif cut != "whole":
            blocks[:, place] += argument.strides[0] * self._firsts
            blocks[:, place + 1] = self._counts + (cut == "borders")

    def _follow(self, index: int, array: Array, ports: Ports) -> bool:
        addresses = self.blocks[:, self._function.places[index]]
        offsets = addresses - address_of(array)

        def move(_array: Array, address: int, offset: int) -> None:
            np.add(offsets, address + offset, out=addresses)

        return ports.follow(array, move)

    def numbers(self, index: int, count: int) -> Array:
        """The places of some real numbers that stand together, of all parts: ``(parts, count)``."""
        place = self._function.places[index]
        return self.blocks.view(np.float64)[:, place : place + count]

    def __call__(self) -> None:
        """Do all parts."""
        self._row.function.run(self._address)

    def rows(self) -> list[Row]:
        """The compiled function that does it."""
        return [Row(self._row.function, self._row.block, [self, self._row.kept])]
