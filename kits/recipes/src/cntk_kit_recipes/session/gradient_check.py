"""Comparison of gradients with numeric ones (``gradientcheck``), on the minibatches of a training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import attrs
import numpy as np

from cntk_core.contract.engine import Program
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import TrainingError
from cntk_core.network.node import Parameter
from cntk_core.ops.language.random import random_stream
from cntk_core.records.minibatch import Minibatch

CHECK_STREAM = (1 << 64) - 2
"""Random stream of the elements that are checked, in the place of a node's number."""

EPSILON = 1e-5
"""By what a value is changed in each direction."""

ELEMENTS = 50
"""At most so many elements of each parameter are checked."""


@attrs.frozen
class Difference:
    """An element whose two gradients do not agree.

    Attributes:
        parameter: name of the parameter.
        element: index in memory order.
        numeric, computed: the two gradients.
    """

    parameter: str
    element: int
    numeric: float
    computed: float

    def __str__(self) -> str:
        return f"d{self.parameter} Numeric gradient = {self.numeric:e}, Error BP gradient = {self.computed:e}"


@attrs.define(eq=False)
class GradientCheck:
    """Checks gradients. It has a program of its own, so that nothing of the training's changes.

    Attributes:
        program: computes the criterion and its gradients.
        store: the parameters; they are put back.
        criterion: name of the criterion.
        digits: significant digits that must agree (``sigFigs``).
        numbers: gives the settings of an epoch that ops ask for.
        seed: of the choice of elements.
    """

    program: Program
    store: ParameterStore
    criterion: str
    digits: int
    numbers: Callable[[int], Mapping[str, float]]
    seed: int = 0

    def check(self, minibatch: Minibatch, epoch: int, index: int) -> None:
        """Check the gradients of a minibatch.

        Args:
            minibatch: the data.
            epoch, index: place of the minibatch; random numbers are those of the training there.

        Raises:
            TrainingError: some do not agree; all of them are named.
        """
        generator = random_stream(self.seed, CHECK_STREAM, (epoch << 32) + index)
        before = self.store.snapshot()
        wrong: list[Difference] = []
        for parameter in self.program.plan.trained:
            if parameter in self.program.plan.sparse:
                continue  # as in the original
            count = self.store.value(parameter).size
            chosen = generator.choice(count, min(count, ELEMENTS), replace=False)
            wrong += self._differences(minibatch, epoch, index, parameter, np.sort(chosen).tolist())
        self.store.restore(before)
        self.store.forget_gradients(self.program.plan.sparse)
        if wrong:
            raise TrainingError(
                f"gradients are wrong in minibatch {index + 1} of epoch {epoch + 1}: "
                f"{len(wrong)} elements differ in the first {self.digits} digits",
                hint="\n".join(map(str, wrong[:20])),
            )

    def _differences(
        self, minibatch: Minibatch, epoch: int, index: int, parameter: Parameter, elements: list[int]
    ) -> list[Difference]:
        self._begin(epoch, index)
        self.program.compute_gradients(minibatch)
        gradient = self.store.gradient(parameter).reshape(-1)[elements].astype(float).tolist()
        found = []
        for element, computed in zip(elements, gradient, strict=True):
            numeric = self._numeric(minibatch, epoch, index, parameter, element)
            if not agree(numeric, computed, self.digits):
                found.append(Difference(parameter.name, element, numeric, computed))
        return found

    def _numeric(self, minibatch: Minibatch, epoch: int, index: int, parameter: Parameter, element: int) -> float:
        values = self.store.value(parameter).reshape(-1)
        kept = float(values[element])
        criteria = []
        for change in (EPSILON, -EPSILON):
            values[element] = kept + change
            criteria.append(self._criterion(minibatch, epoch, index))
        values[element] = kept
        return (criteria[0] - criteria[1]) / ((kept + EPSILON) - (kept - EPSILON))

    def _criterion(self, minibatch: Minibatch, epoch: int, index: int) -> float:
        """Run a training step's forward part; the gradients that come with it are not looked at."""
        self._begin(epoch, index)
        self.program.compute_gradients(minibatch)
        return float(self.program.value(self.criterion).sum())

    def _begin(self, epoch: int, index: int) -> None:
        self.program.begin_epoch(epoch, self.numbers(epoch), minibatches_done=index)


def agree(numeric: float, computed: float, digits: int) -> bool:
    """Whether two gradients differ by at most ``10 ** (max(0, ceil(log10(the smaller one))) - digits)``."""
    difference = abs(numeric - computed)
    smaller = min(abs(numeric), abs(computed))
    whole = max(0, math.ceil(math.log10(smaller))) if smaller > 0 else 0
    return not math.isnan(difference) and difference <= 10.0 ** (whole - digits)
