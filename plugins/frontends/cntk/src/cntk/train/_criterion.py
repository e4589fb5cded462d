"""Loss and metric: what a criterion is made of, and sums of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs


def loss_and_metric(criterion: Any) -> tuple[Any, Any]:
    """Return loss and metric as Functions; a metric that there is not is None.

    Raises:
        ValueError: these are more than two, or none.
    """
    from cntk.ops import combine

    parts = criterion.outputs if hasattr(criterion, "root_function") else criterion
    parts = tuple(parts) if isinstance(parts, list | tuple) else (parts,)
    if not 1 <= len(parts) <= 2:
        raise ValueError(f"a criterion is a loss, or a loss and a metric, not {len(parts)} functions")
    found = [
        each if each is None or hasattr(each, "root_function") else combine([each], name=each.name) for each in parts
    ]
    return found[0], found[1] if len(found) == 2 else None


def summed(function: Any) -> Any:
    """Return the output of a Function as one number for each sample: the sum of its elements."""
    from cntk.ops import reduce_sum

    if function.output.shape == (1,):
        return _summed_once(function)
    return function.output if function.output.shape == () else _summed_once(reduce_sum(function))


def _summed_once(function: Any) -> Any:
    from cntk.ops import reshape

    return function.output if function.output.shape == () else reshape(function, ()).output


def reached(criterion: Any) -> set[Any]:
    """Return the nodes to which a gradient flows from a criterion's node."""
    found, left = {criterion}, [criterion]
    while left:
        node = left.pop()
        for place, child in enumerate(node.inputs):
            if child not in found and node.op.flows_to(place):
                found.add(child)
                left.append(child)
    return found


def beside(loss: Any, parameters: Sequence[Any]) -> Any:
    """Return a loss of the same value that depends on parameters to which no gradient of it flows.

    The original gives learners a gradient of zeros for them: they are regularized, and momentum goes on.
    """
    from cntk.ops import element_times, plus, reduce_sum

    found = summed(loss)
    for parameter in parameters:
        found = plus(found, element_times(0.0, reduce_sum(parameter)))
    return found


@attrs.define
class Sums:
    """Sums since the last summary."""

    loss: float = 0.0
    metric: float = 0.0
    samples: int = 0

    def add(self, loss: float, metric: float) -> None:
        """Add sums that are new."""
        self.loss += loss
        self.metric += metric
