"""Learners in Python inside the core's trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from cntk.learners import UserLearner
from cntk_core.api import ParameterUpdate
from cntk_core.api import UserLearner as CoreUserLearner


@attrs.frozen
class _NoOptions:
    """There are none."""


class HostRule(CoreUserLearner):
    """Calls the method ``update`` of a learner in Python.

    Args:
        learner: whose method it is.
        parameters: the learner's parameters, by the names of their nodes.
    """

    options: ClassVar[type] = _NoOptions
    requires_api = "1.0"

    def __init__(self, learner: UserLearner, parameters: Mapping[str, Any]) -> None:
        super().__init__(_NoOptions())
        self._learner, self._parameters = learner, parameters

    def update(self, parameters: Sequence[ParameterUpdate]) -> None:
        """Let the learner change its parameters, and take over what it has changed."""
        from cntk.core import NDArrayView, Value

        gradients: dict[Any, Any] = {}
        for each in parameters:
            array = np.array(each.gradient)
            given = array if self._learner.as_numpy else Value(NDArrayView.from_dense(array[None]))
            gradients[self._parameters[each.name]] = given
        before = {each.name: np.array(each.value) for each in parameters}
        samples = parameters[0].context.samples
        self._learner.update(gradients, samples, self._learner.sweep_end)
        for each in parameters:
            now = self._parameters[each.name].value
            if now is not each.value and not np.array_equal(now, before[each.name]):
                each.value = now
