"""From a kernel's spec to something that can be called: compiled, or run by NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api.engines import Expr, Native
from cntk_engine_cpu.compiler import Kernel, compile_text
from cntk_engine_cpu.evaluate import Evaluator
from cntk_engine_cpu.inputs import address_of
from cntk_engine_cpu.parts import Cut, Parts, Team, part_ends, range_ends
from cntk_engine_cpu.rows import Row
from cntk_engine_cpu.source import KernelSpec

Array = NDArray[Any]


class NumpyKernel:
    """Runs a spec with NumPy; called as the compiled one."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        # An operand that is passed on as it is: no result of its own, but the array that another one may lie in.
        self._passed_on = [
            index
            for index, result in enumerate(spec.results)
            if index and isinstance(result.expression, Expr) and result.expression.operation == "symbol"
        ]

    def __call__(self, rows: int, columns: int, *arguments: Any) -> None:
        """Compute all results, then write them: a result may lie where an operand lies."""
        spec = self.spec
        symbols: dict[str, Any] = {}
        for (name, kind), array in zip(spec.operands, arguments, strict=False):
            symbols[name] = array[:, None] if kind == "col" else array
        rest = arguments[len(spec.operands) :]
        symbols.update(zip(spec.numbers, rest, strict=False))
        targets = self._targets(arguments, rest[len(spec.numbers) :])
        with np.errstate(all="ignore"):
            evaluate = Evaluator(symbols)
            values = [self._reduced(evaluate(result.expression), result.kind, rows, columns) for result in spec.results]
        for index in self._passed_on:
            if any(np.may_share_memory(values[index], target) for target in targets[:index]):
                values[index] = np.array(values[index])
        for result, target, value in zip(spec.results, targets, values, strict=True):
            if result.accumulate:
                np.add(target, value, out=target)
            else:
                np.copyto(target, np.asarray(value, target.dtype))

    def _targets(self, arguments: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        operands = dict(zip((name for name, _ in self.spec.operands), arguments, strict=False))
        own = iter(outputs)
        return [operands[result.into] if result.into else next(own) for result in self.spec.results]

    @staticmethod
    def _reduced(value: Any, kind: str, rows: int, columns: int) -> Any:
        if kind == "full":
            return value
        full = np.broadcast_to(value, (rows, columns))
        axes: Any = {"row": 0, "col": 1, "scalar": None}[kind]
        return full.sum(axis=axes)


class KernelLibrary:
    """Makes kernels of specs: each once for a process, and once for a machine where the cache folder can be written.

    Args:
        compiled: use the compiler; otherwise NumPy.
    """

    def __init__(self, *, compiled: bool) -> None:
        self.compiled = compiled

    def get(self, spec: KernelSpec, dtype: np.dtype[Any]) -> Kernel:
        """Return the kernel of a spec."""
        return _compile(spec, dtype.name) if self.compiled else NumpyKernel(spec)


@cache
def _compile(spec: KernelSpec, dtype: str) -> Native:
    return compile_text(spec.source(dtype), "kernel", dtype, spec.signature(dtype))


class Bound:
    """A kernel bound to arguments, of which some may change: called without any.

    Args:
        kernel: what is called.
        arguments: its arguments.
    """

    def __init__(self, kernel: Kernel, arguments: Sequence[Any]) -> None:
        self._arguments = list(arguments)
        self._kernel = kernel
        if isinstance(kernel, Native):
            self.block = kernel.block(*arguments)
            self._call: Callable[[], None] = functools.partial(kernel.run, address_of(self.block))
        else:
            self._call = self._call_kernel

    def __call__(self) -> None:
        """Call the kernel."""
        self._call()

    def _call_kernel(self) -> None:
        self._kernel(*self._arguments)

    def put(self, place: int, argument: Any) -> None:
        """Change an argument."""
        self._arguments[place] = argument
        if isinstance(self._kernel, Native):
            self._kernel.put(self.block, place, argument)

    def result(self) -> Any:
        """What the last call of a compiled function gave."""
        assert isinstance(self._kernel, Native)
        return self._kernel.result(self.block)


class BoundNumbers(Bound):
    """A kernel bound to arguments of which some numbers that stand together change: called with these.

    Args:
        kernel: what is called.
        before, after: the arguments before and after them.
        count: how many numbers there are.
    """

    def __init__(self, kernel: Kernel, before: Sequence[Any], count: int, after: Sequence[Any]) -> None:
        super().__init__(kernel, [*before, *[0.0] * count, *after])
        self._first, self._count = len(before), count
        self._last: Sequence[float] | None = None
        if isinstance(kernel, Native) and count:
            place = kernel.places[self._first]
            self._numbers = self.block[place : place + count].view(np.float64)

    def set(self, numbers: Sequence[float]) -> None:
        """Say what the numbers are from now on."""
        if not self._count or numbers == self._last:
            return
        self._last = numbers
        if isinstance(self._kernel, Native):
            self._numbers[:] = numbers
        self._arguments[self._first : self._first + self._count] = numbers

    def rows(self) -> list[Row] | None:
        """The compiled function with its block, None if the kernel is NumPy's."""
        return [Row(self._kernel, self.block, self)] if isinstance(self._kernel, Native) else None

    def run(self, numbers: Sequence[float]) -> None:
        """Set the numbers and call the kernel."""
        self.set(numbers)
        self._call()


class SharedNumbers:
    """Parts of a kernel's work, with some numbers that change: called as :class:`BoundNumbers`.

    Args:
        parts: the parts.
        first: the argument that is the first of the numbers.
        count: how many numbers there are.
    """

    def __init__(self, parts: Parts, first: int, count: int) -> None:
        self._parts = parts
        self._numbers = parts.numbers(first, count)
        self._last: Sequence[float] | None = None

    def set(self, numbers: Sequence[float]) -> None:
        """Say what the numbers are from now on."""
        if numbers != self._last:
            self._last = numbers
            self._numbers[:] = numbers

    def rows(self) -> list[Row] | None:
        """The compiled function that does all parts."""
        return self._parts.rows()

    def run(self, numbers: Sequence[float]) -> None:
        """Set the numbers and call the kernel."""
        self.set(numbers)
        self._parts()


def bound_numbers(
    team: Team, kernel: Kernel, shape: tuple[int, int], operands: Sequence[Array], count: int, outputs: Sequence[Array]
) -> BoundNumbers | SharedNumbers:
    """Return a kernel bound to its arrays, but for the numbers: in parts if there is enough to do.

    Args:
        team: who shares the parts.
        kernel: none of its results is a sum over rows.
        shape: rows and columns.
        operands, outputs: its arrays: matrices, and vectors with one element for each row.
        count: how many numbers there are.
    """
    rows, columns = shape
    ends = range_ends(columns) if rows == 1 else part_ends(rows, columns)
    if not isinstance(kernel, Native) or team.threads < 2 or len(ends) == 2:
        return BoundNumbers(kernel, [rows, columns, *operands], count, outputs)
    arrays = [*operands, *[0.0] * count, *outputs]
    if rows == 1:
        cuts: list[Cut] = [
            "whole",
            "count",
            *["columns" if isinstance(each, np.ndarray) else "whole" for each in arrays],
        ]
    else:
        cuts = ["count", "whole", *["rows" if isinstance(each, np.ndarray) else "whole" for each in arrays]]
    return SharedNumbers(Parts(team, kernel, ends, [rows, columns, *arrays], cuts), 2 + len(operands), count)
