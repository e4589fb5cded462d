"""What ops of other wheels give, checked: they may give anything, and NumPy would broadcast much of it in silence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from cntk_core.errors import WrongResult, shown
from cntk_core.network.node import Node
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.sparse_rows import is_sparse

Shape = tuple[int, ...]


@lru_cache(maxsize=1024)
def is_foreign(op: Op) -> bool:
    """Whether an op has a function of its own that is none of the core's."""
    return op.forward is not None and not getattr(op.forward, "__module__", "").startswith("cntk_core.")


def foreign_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes whose values :func:`check_value` has to look at."""
    return tuple(node for node in nodes if is_foreign(node.op))


def check_value(op: Op, result: Any, wanted: Shape) -> None:
    """See that what an op gives is an array of the shape that it has to be, frames included.

    Raises:
        WrongResult: it is something else. An array of one element may have any shape where one is wanted.
    """
    if not _fits(result, wanted):
        raise wrong_value(op, result, wanted)


def wrong_value(op: Op, result: Any, wanted: Shape) -> WrongResult:
    """Return the error that says that an op gave no array of a shape."""
    return WrongResult(op.forward, f"returned {shown(result)}, not one of {wanted}")


def check_gradients(op: Op, results: Sequence[Any], inputs: Sequence[Any]) -> None:
    """See that the gradients that an op gives have the shapes of its inputs, those of which it gives none left out.

    Raises:
        WrongResult: one has another shape.
    """
    for number, (result, value) in enumerate(zip(results, inputs, strict=True), start=1):
        if result is not None and not is_sparse(value) and not _fits(result, tuple(value.shape)):
            text = f"as the gradient of input {number} of {op.name}, not one of {tuple(value.shape)}"
            raise WrongResult(op.gradient, f"returned {shown(result)} {text}")


def _fits(result: Any, wanted: Shape) -> bool:
    shape = getattr(result, "shape", None)
    return shape is not None and (tuple(shape) == wanted or math.prod(shape) == 1 == math.prod(wanted))
