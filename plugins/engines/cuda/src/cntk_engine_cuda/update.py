"""The update: one fused kernel over each run of parameters with the same numbers, or over the rows that occur."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cntk_core.api import Parameter, Plan, UpdateRule
from cntk_core.api.engines import Expr, TracedRule, row_count, symbol
from cntk_engine_cuda.elementwise import Numbers, Operand, Space, map_calls, sum_calls
from cntk_engine_cuda.gpu import Array, Call, Gpu
from cntk_engine_cuda.inputs import Staging
from cntk_engine_cuda.mirror import DeviceStore
from cntk_engine_cuda.source import TOTAL, Result

Scalars = Mapping[str, float]


class Update:
    """Applies a rule to parameters on the device.

    Args:
        gpu: the device.
        plan: which parameters are trained.
        store: their numbers.
        rule: what to do.
        parts: storage for parts of sums.
    """

    def __init__(
        self, gpu: Gpu, plan: Plan, store: DeviceStore, rule: UpdateRule, parts: Callable[[int], Array]
    ) -> None:
        store.store.add_slots(rule.slots)
        self.rule = rule
        self._gpu = gpu
        self._plan = plan
        self._store = store
        self._parts = parts
        self._traced = TracedRule.of(rule)
        self._buffers = self._traced.buffers()
        self._staging = Staging(gpu, np.dtype(np.float64))
        count = max(1, len(plan.trained) * len(rule.scalars))
        with gpu.current():
            self._numbers = gpu.cupy.zeros((count,), dtype=np.float64)
            self._mean_values = gpu.empty(max(1, len(plan.trained) * len(rule.means)), store.store.dtype)
        self.by_rows = () if rule.everywhere else tuple(plan.sparse)
        self._whole = [parameter for parameter in plan.trained if parameter not in self.by_rows]
        self._together = self._runs() if not rule.means else []
        self._calls: dict[bool, list[Call]] = {}

    # -- numbers ------------------------------------------------------------------------------------------

    def set_numbers(self, scalars: Sequence[Scalars]) -> bool:
        """Send the numbers of a step to the device. Returns whether those of all runs are the same."""
        rows = [[float(each[name]) for name in self.rule.scalars] for each in scalars]
        if self.rule.scalars and rows:
            self._staging.send(np.array(rows, np.float64).reshape(-1), self._numbers)
        if self.rule.means:
            return False
        return all(rows[place] == rows[places[0]] for places, _, _ in self._together for place in places)

    def _numbers_of(self, place: int) -> Numbers:
        width = len(self.rule.scalars)
        return Numbers(tuple(self.rule.scalars), self._numbers[place * width : place * width + max(1, width)])

    # -- whole parameters ---------------------------------------------------------------------------------

    def _runs(self) -> list[tuple[list[int], int, int]]:
        """Trained parameters that stand together and have equal multipliers: their places, first and last element."""
        place = {parameter: index for index, parameter in enumerate(self._plan.trained)}
        chosen = set(self._whole)
        runs: list[tuple[list[int], int, int]] = []
        before: Parameter | None = None
        for parameter in self._store.store.parameters:
            first, end = self._store.store.range(parameter)
            if parameter not in chosen:
                before = None
                continue
            if before is not None and _alike(before, parameter):
                places, start, _ = runs[-1]
                runs[-1] = ([*places, place[parameter]], start, end)
            else:
                runs.append(([place[parameter]], first, end))
            before = parameter
        return runs

    def calls(self, *, together: bool) -> list[Call]:
        """The calls that update all parameters but those by rows: a kernel for each run, or for each parameter."""
        if together not in self._calls:
            if together:
                ranges = [(places[0], first, end) for places, first, end in self._together]
            else:
                place = {parameter: index for index, parameter in enumerate(self._plan.trained)}
                ranges = [(place[parameter], *self._store.store.range(parameter)) for parameter in self._whole]
            self._calls[together] = [call for each in ranges for call in self._range(*each)]
        return self._calls[together]

    def _range(self, place: int, first: int, end: int) -> list[Call]:
        arrays = {name: self._store.buffer(buffer)[first:end] for name, buffer in self._buffers.items()}
        return self._apply(arrays, place)

    def _apply(self, arrays: Mapping[str, Array], place: int) -> list[Call]:
        """The calls that change flat arrays by the rule, with the numbers of one parameter."""
        size = arrays[TracedRule.VALUE].size
        if not size:
            return []
        space = Space((size,), known=False)
        operands = {name: Operand(array, (True,)) for name, array in arrays.items()}
        numbers = self._numbers_of(place)
        calls: list[Call] = []
        for index, (name, tree) in enumerate(self._traced.means.items()):
            at = place * len(self._traced.means) + index
            out = self._mean_values[at : at + 1]
            mean = Result(tree, finish=Expr("div", (symbol(TOTAL), float(size))))
            calls += sum_calls(self._gpu, space, operands, [mean], [out], (False,), self._parts, numbers)
            operands[name] = Operand(out, (False,))
        written = self._traced.results()
        results, outputs = [Result(tree) for tree in written.values()], [arrays[name] for name in written]
        return [*calls, *map_calls(self._gpu, space, operands, results, outputs, numbers)]

    # -- some rows ----------------------------------------------------------------------------------------

    def update_rows(self, parameter: Parameter, rows: np.ndarray[Any, Any]) -> None:
        """Update some rows of a parameter with a sparse gradient, with the gradient in the store."""
        if not rows.size:
            return
        place = self._plan.trained.index(parameter)
        count = row_count(self._plan, parameter)
        chosen = self._gpu.cupy.asarray(rows)
        matrices = {
            name: self._store.view(buffer, parameter).reshape(count, -1) for name, buffer in self._buffers.items()
        }
        taken = {name: self._gpu.cupy.take(matrix, chosen, axis=0) for name, matrix in matrices.items()}
        for call in self._apply({name: array.reshape(-1) for name, array in taken.items()}, place):
            call()
        for name, matrix in matrices.items():
            if name != TracedRule.GRADIENT:
                matrix[chosen] = taken[name]


def _alike(first: Parameter, second: Parameter) -> bool:
    return (first.learning_rate_multiplier, first.regularization_multiplier) == (
        second.learning_rate_multiplier,
        second.regularization_multiplier,
    )
