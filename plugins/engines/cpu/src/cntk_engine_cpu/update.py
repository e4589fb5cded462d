"""The update as one fused pass over the parameter buffer, and its folding into the gradients' products."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import attrs
import numpy as np
from numpy.lib.stride_tricks import as_strided

from cntk_core.api import Parameter, ParameterStore, Plan, UpdateRule
from cntk_core.api.engines import Expr, TraceMath, symbol
from cntk_engine_cpu.compiler import Kernel
from cntk_engine_cpu.kernels import BoundNumbers, KernelLibrary, SharedNumbers, bound_numbers
from cntk_engine_cpu.parts import Team
from cntk_engine_cpu.source import Result, number_text, spec_of

Tree = Expr | float
Scalars = Mapping[str, float]
Numbers = tuple[float, ...]
"""The values of a rule's scalars, in its order."""

VALUE = "value"
GRADIENT = "gradient"


MEAN_ROW = 4096
"""Elements that are summed in the precision of the parameters; the sums of such rows are added in double precision."""

_Pass = tuple[Kernel, tuple[str, ...], list[str]]
"""A kernel, the buffers that it reads and changes, and those that it only writes."""


def _slot(name: str) -> str:
    return f"slot_{name}"


@attrs.frozen
class Traced:
    """An update rule as trees: the new value, the new slots by slot name, and what is averaged before, by its name."""

    value: Tree
    slots: Mapping[str, Tree]
    means: Mapping[str, Tree] = attrs.field(factory=dict)

    @classmethod
    def of(cls, rule: UpdateRule) -> Traced:
        """Trace a rule."""
        slots = {slot.name: symbol(_slot(slot.name)) for slot in rule.slots}
        numbers = {name: symbol(name) for name in (*rule.scalars, *rule.means)}
        arguments = TraceMath(), symbol(VALUE), symbol(GRADIENT), slots, numbers
        value, new = rule.expression(*arguments)
        means = rule.mean_expression(*arguments) if rule.mean_expression is not None else {}
        return cls(value, dict(new), dict(means))


@attrs.frozen
class Fold:
    """A rule whose new slot is ``beta * slot + alpha * gradient`` and whose new value needs only the new slot.

    Then the product that computes the gradient can go straight into the slot, with these factors.
    """

    slot: str
    alpha: Tree
    beta: Tree
    value: Tree


def find_fold(rule: UpdateRule, traced: Traced) -> Fold | None:
    """Return how a rule can be folded into products, None if it cannot."""
    if len(rule.slots) != 1 or rule.means:
        return None
    name = rule.slots[0].name
    new = traced.slots[name]
    factors = _linear(new, set(rule.scalars))
    if factors is None or set(factors) != {GRADIENT, _slot(name)}:
        return None
    value = _replace(traced.value, new, symbol(_slot(name)))
    if isinstance(value, Expr) and GRADIENT in value.symbols():
        return None
    if _mentions_old(traced.value, new, _slot(name)):
        return None
    return Fold(name, factors[GRADIENT], factors[_slot(name)], value)


def _linear(tree: Tree, numbers: set[str]) -> dict[str, Tree] | None:
    """Factors of the symbols of a tree that is linear in them, None if it is not. Factors are made of numbers."""
    if not isinstance(tree, Expr):
        return None
    if tree.operation == "symbol":
        return {str(tree.args[0]): 1.0}
    if tree.operation == "neg":
        inner = _linear(tree.args[0], numbers) if isinstance(tree.args[0], Expr) else None
        return None if inner is None else {name: -factor for name, factor in inner.items()}
    if tree.operation in ("add", "sub"):
        left, right = (_linear(arg, numbers) if isinstance(arg, Expr) else None for arg in tree.args)
        if left is None or right is None or set(left) & set(right):
            return None
        return {**left, **{name: factor if tree.operation == "add" else -factor for name, factor in right.items()}}
    if tree.operation in ("mul", "div"):
        first, second = tree.args
        if tree.operation == "mul" and _is_number(first, numbers):
            first, second = second, first
        if not _is_number(second, numbers) or not isinstance(first, Expr):
            return None
        inner = _linear(first, numbers)
        if inner is None or isinstance(second, str):
            return None
        if tree.operation == "mul":
            return {name: factor * second for name, factor in inner.items()}
        return {name: factor / second for name, factor in inner.items()}
    return None


def _is_number(tree: Any, numbers: set[str]) -> bool:
    return not isinstance(tree, Expr) or tree.symbols() <= numbers


def _replace(tree: Any, old: Tree, new: Expr) -> Any:
    if tree == old:
        return new
    if not isinstance(tree, Expr) or tree.operation == "symbol":
        return tree
    return Expr(tree.operation, tuple(_replace(arg, old, new) for arg in tree.args))


def _mentions_old(tree: Any, new: Tree, slot: str) -> bool:
    """Whether a tree looks at the old slot outside of the sub-tree of the new one."""
    if tree == new or not isinstance(tree, Expr):
        return False
    if tree.operation == "symbol":
        return bool(tree.args[0] == slot)
    return any(_mentions_old(arg, new, slot) for arg in tree.args)


class Update:
    """Applies a rule to the store.

    Args:
        plan: says which parameters are trained.
        store: the buffers.
        rule: what to do.
        kernels: makes the passes.
        team: the threads that share them.
    """

    def __init__(self, plan: Plan, store: ParameterStore, rule: UpdateRule, kernels: KernelLibrary, team: Team) -> None:
        self._team = team
        store.add_slots(rule.slots)
        self.store = store
        self.rule = rule
        self._compiled = kernels.compiled
        self._take = _taker(rule.scalars)
        self.traced = Traced.of(rule)
        self.fold = find_fold(rule, self.traced)
        self._whole = self._pass([(VALUE, self.traced.value), *self._slot_results()], kernels)
        self._folded = self._pass([(VALUE, self.fold.value)], kernels) if self.fold is not None else None
        self._means = (
            Means(self.traced.means, self._buffers, rule.scalars, kernels, store.dtype, team) if rule.means else None
        )

    def _slot_results(self) -> list[tuple[str, Tree]]:
        return [(_slot(name), tree) for name, tree in self.traced.slots.items()]

    @property
    def _buffers(self) -> list[str]:
        return [VALUE, GRADIENT, *(_slot(slot.name) for slot in self.rule.slots)]

    def _pass(self, results: Sequence[tuple[str, Tree]], kernels: KernelLibrary) -> _Pass:
        spec, order = spec_of(
            dict.fromkeys(self._buffers, "full"),
            (*self.rule.scalars, *self.rule.means),
            [Result(tree, "full", into=name) for name, tree in results],
        )
        return kernels.get(spec, self.store.dtype), order, [results[index][0] for index in spec.outputs]

    def _buffer(self, name: str) -> Any:
        if name == VALUE:
            return self.store.values
        if name == GRADIENT:
            return self.store.gradients
        return self.store.slots[name.removeprefix("slot_")]

    def numbers(self, scalars: Sequence[Scalars]) -> list[Numbers]:
        """The numbers of a step for each parameter."""
        first = scalars[0] if scalars else None
        if first is not None and all(each is first for each in scalars):
            # The session gives parameters with equal multipliers the same object.
            return [self._take(first)] * len(scalars)
        return [self._take(each) for each in scalars]

    def bind(self, first: int, end: int) -> Callable[[Numbers], None]:
        """Return the pass over a range of the buffer.

        Of a rule with means the range must be one parameter, over which they go.
        """
        run = self._bind(self._whole, first, 1, end - first, end - first).run
        if self._means is None:
            return run
        means = self._means.bind({name: self._buffer(name)[first:end] for name in self._buffers})
        return lambda numbers: run((*numbers, *means(numbers)))

    def bind_band(self, first: int, rows: int, columns: int, length: int) -> BoundNumbers | SharedNumbers:
        """Return what is left of the rule after a folded product, for a band of a matrix in the buffer.

        Args:
            first: the band's first element in the buffer.
            rows, columns: its size.
            length: elements from one row to the next.
        """
        assert self._folded is not None
        return self._bind(self._folded, first, rows, columns, length)

    def _bind(self, chosen: _Pass, first: int, rows: int, columns: int, length: int) -> BoundNumbers | SharedNumbers:
        kernel, order, targets = chosen
        # Compiled kernels know whole rows alone: they get the rows' length and stop at the band's columns.
        shape = (rows, length if self._compiled else columns)

        def view(name: str) -> Any:
            buffer = self._buffer(name)
            return as_strided(buffer[first:], shape, (length * buffer.itemsize, buffer.itemsize))

        operands, outputs = [view(name) for name in order], [view(name) for name in targets]
        count = len(self.rule.scalars) + len(self.rule.means)
        return bound_numbers(self._team, kernel, (rows, columns), operands, count, outputs)

    def bind_rows(self, parameter: Parameter, rows: int) -> Callable[[Any, Any, Numbers], None]:
        """Return the whole rule for some rows of a parameter: called with their indices and their gradients.

        Args:
            parameter: whose values and slots are changed.
            rows: how many rows it has.
        """
        kernel, order, targets = self._whole
        first, end = self.store.range(parameter)
        changed = [VALUE, *(_slot(slot.name) for slot in self.rule.slots)]
        stored = {name: self._buffer(name)[first:end].reshape(rows, -1) for name in changed}

        def run(chosen: Any, gradient: Any, numbers: Numbers) -> None:
            if not gradient.size:
                return
            taken = {name: matrix[chosen].reshape(1, -1) for name, matrix in stored.items()}
            taken[GRADIENT] = np.ascontiguousarray(gradient, self.store.dtype).reshape(1, -1)
            if self._means is not None:
                means = self._means.bind({name: array.reshape(-1) for name, array in taken.items()})
                numbers = (*numbers, *means(numbers))
            kernel(1, gradient.size, *map(taken.__getitem__, order), *numbers, *map(taken.__getitem__, targets))
            for name, matrix in stored.items():
                matrix[chosen] = taken[name].reshape(gradient.shape)

        return run

    def factors(self) -> Callable[[Numbers], tuple[float, float]]:
        """The function that gives ``alpha`` and ``beta`` of a folded product for the numbers of a step."""
        assert self.fold is not None
        arguments = "".join(f"{name}, " for name in self.rule.scalars)
        take = f"    {arguments}= numbers\n" if arguments else ""
        alpha, beta = number_text(self.fold.alpha), number_text(self.fold.beta)
        names: dict[str, Any] = {"np": np, "math": math}
        exec(f"def factors(numbers):\n{take}    return {alpha}, {beta}\n", names)
        result: Callable[[Numbers], tuple[float, float]] = names["factors"]
        return result


class Means:
    """Averages expressions over the elements of a parameter.

    Args:
        trees: what is averaged, by name.
        buffers: names of the arrays that the trees may read.
        numbers: names of the numbers that they may use.
        kernels: makes the pass.
        dtype: precision of the arrays.
        team: the threads that share the pass.
    """

    def __init__(
        self,
        trees: Mapping[str, Tree],
        buffers: Sequence[str],
        numbers: Sequence[str],
        kernels: KernelLibrary,
        dtype: np.dtype[Any],
        team: Team,
    ) -> None:
        self._team = team
        spec, self._order = spec_of(
            dict.fromkeys(buffers, "full"), numbers, [Result(tree, "col") for tree in trees.values()]
        )
        self._kernel = kernels.get(spec, dtype)
        self._count, self._numbers = len(trees), len(numbers)
        self._dtype = dtype

    def bind(self, arrays: Mapping[str, Any]) -> Callable[[Numbers], Numbers]:
        """Return the function from the numbers of a step to the means over flat arrays of equal size."""
        (size,) = arrays[VALUE].shape
        whole = size // MEAN_ROW
        blocks = [(0, whole, MEAN_ROW)] if whole else []
        if size % MEAN_ROW:
            blocks.append((whole * MEAN_ROW, 1, size % MEAN_ROW))
        calls = []
        for first, rows, columns in blocks:
            end = first + rows * columns
            operands = [arrays[name][first:end].reshape(rows, columns) for name in self._order]
            sums = np.empty((self._count, rows), self._dtype)
            shape = rows, columns
            calls.append((bound_numbers(self._team, self._kernel, shape, operands, self._numbers, [*sums]), sums))

        def run(numbers: Numbers) -> Numbers:
            totals = np.zeros(self._count)
            for call, sums in calls:
                call.run(numbers)
                totals += sums.sum(axis=1, dtype=np.float64)
            return tuple((totals / max(size, 1)).tolist())

        return run


def _taker(names: Sequence[str]) -> Callable[[Scalars], Numbers]:
    """Return the function that takes some values out of a mapping, as a tuple."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda scalars: tuple([scalars[name] for name in names])


def runs_of(store: ParameterStore, parameters: Sequence[Parameter]) -> list[tuple[int, int]]:
    """Ranges of the buffer that cover parameters, those that stand together as one. Gaps for alignment are covered."""
    ranges = sorted(store.range(parameter) for parameter in parameters)
    others = sorted(store.range(parameter) for parameter in store.parameters if parameter not in set(parameters))
    runs: list[tuple[int, int]] = []
    for first, end in ranges:
        if runs and not any(runs[-1][1] <= start < first for start, _ in others):
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((first, end))
    return runs
