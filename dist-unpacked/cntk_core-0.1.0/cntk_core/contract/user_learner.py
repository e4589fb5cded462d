"""UserLearner: an update rule that is any Python, beside the rules that are expressions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from numpy.typing import NDArray

from cntk_core.contract.learner import Learner, UpdateContext
from cntk_core.errors import TrainingError

Array = NDArray[Any]

_NUMBERS = ("samples", "learning_rate", "momentum", "step", "epoch")
_STATE = "state."


@attrs.define(eq=False)
class ParameterUpdate:
    """A parameter in one step. Arrays have its shape (memory order) and are changed in place.

    Attributes:
        name: of the node.
        gradient: the sum over the samples of the minibatch, limited and regularised as the recipe says.
        slots: the learner's arrays for this parameter, by name.
        context: the numbers of the step; the learning rate is per sample, with the parameter's multiplier.
    """

    name: str
    _value: Array
    gradient: Array
    slots: Mapping[str, Array]
    context: UpdateContext

    @property
    def value(self) -> Array:
        """The value; what is assigned to it is written into the array."""
        return self._value

    @value.setter
    def value(self, value: Array) -> None:
        if value is not self._value:  # after value -= x it is
            self._value[...] = value


class UserLearner(Learner):
    """A learner in Python: :meth:`update` changes arrays of all parameters at once, on the host.

    It is slower than a rule that is an expression, which engines compile. Its slots and numbers (``slots``, ``state``)
    are kept in checkpoints; what an object keeps otherwise is forgotten with the process.
    """

    @abstractmethod
    def update(self, parameters: Sequence[ParameterUpdate]) -> None:
        """Change the values of all parameters, and the slots, with their gradients."""

    @property
    def everywhere(self) -> bool:
        """True: it is given whole gradients, also where a minibatch sees some rows only."""
        return True

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """Return the numbers of a step that :meth:`update` is given, the learner's own among them."""
        return {name: getattr(context, name) for name in _NUMBERS} | {
            f"{_STATE}{name}": number for name, number in context.state.items()
        }

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Refuse to be compiled.

        Raises:
            TrainingError: always.
        """
        raise TrainingError(
            f"the learner {type(self).__name__} is a function in Python, which no engine can compile",
            hint="Programs with it are made by compile_plan(engine, plan, store, rule).",
        )


def context_of(scalars: Mapping[str, float], dtype: str) -> UpdateContext:
    """Return the numbers of a step from :meth:`UserLearner.scalars`."""
    state = {name.removeprefix(_STATE): number for name, number in scalars.items() if name.startswith(_STATE)}
    counts = {name: int(scalars[name]) for name in ("samples", "step", "epoch")}
    return UpdateContext(
        **counts, learning_rate=scalars["learning_rate"], momentum=scalars["momentum"], state=state, dtype=dtype
    )
