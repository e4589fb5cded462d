"""Losses and metrics that an engine computes in one operation, in the place of blocks of several.

The original's cross entropy is a difference of two products for each sample. Where labels are one-hot, which each
minibatch is looked at for, its sum over the samples is what the operation ``CrossEntropyWithSoftmax`` gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk._graph.feeding import is_sparse
from cntk._graph.primitive import COMBINE
from cntk_core.api import StreamData

if TYPE_CHECKING:
    from cntk.variables import Variable

_SUM, _LOG_SUM = "ReduceElements Sum", "ReduceElements LogSum"
_FORMS = {
    f"Minus({_LOG_SUM}(0), TransposeTimes(1, 0))": ("CrossEntropyWithSoftmax", 1),
    "Minus(1.0, TransposeTimes(1, Hardmax(0)))": ("ClassificationError", 1),
    f"{_SUM}(ElementTimes(Minus(0, 1), Minus(0, 1)))": ("SquareError", None),
}
"""What a block computes of its operands, by their places; the operation, and which operand has to be one-hot."""


@attrs.frozen
class Fused:
    """A loss or metric as one operation.

    Attributes:
        op: its name.
        operands: labels first.
        labels: the input that has to be one-hot; None if any will do.
    """

    op: str
    operands: tuple[Variable, Variable]
    labels: Variable | None


def fused(output: Variable) -> Fused | None:
    """Return a loss or metric as one operation, None if it is something else.

    Args:
        output: of a Function.
    """
    owner = output._owner
    if owner is None or owner.inside is None:
        return None
    places: dict[Variable, str] = {}
    operands: list[Variable] = []
    for each in owner.inputs:
        is_one = each.is_constant and each._shape == () and float(each.value) == 1.0  # type: ignore[attr-defined]
        places[each] = "1.0" if is_one else str(len(operands))
        operands += [] if is_one else [each]
    op, hot = _FORMS.get(_told(output, places), ("", None))
    if not op or len(operands) != 2 or not _is_alike(*operands):
        return None
    scores, labels = operands
    if hot is not None and (labels._owner is not None or not labels.is_input or labels.needs_gradient):
        return None
    return Fused(op, (labels, scores), None if hot is None else labels)


def _is_alike(scores: Variable, labels: Variable) -> bool:
    """Whether both are vectors of one size, of the same samples, and something computes the scores."""
    shape = scores._shape or ()
    known = len(shape) == 1 and shape[0] > 0 and shape == labels._shape
    return known and bool(scores._axes) and scores._axes == labels._axes and scores._owner is not None


def _told(variable: Variable, places: Mapping[Variable, Any]) -> str:
    """Return what computes a variable as text; ``places`` are texts of variables, or what they stand for."""
    found = places.get(variable)
    if found is not None:
        return found if isinstance(found, str) else _told(found, places)
    owner = variable._owner
    if owner is None or owner.user is not None or owner.delays:
        return variable.uid
    if owner.inside is not None:
        return _told(owner.inside.roots[variable._index], {**places, **owner.inside.arguments})
    if owner.number == COMBINE:
        return variable.uid
    how = owner.attributes.get("reductionOpName", "")
    return f"{owner.kind}{' ' * bool(how)}{how}({', '.join(_told(each, places) for each in owner.inputs)})"


def is_one_hot(given: Any) -> bool:
    """Return whether all samples have one element that is 1, and all others 0.

    Args:
        given: samples ``(samples, size)``, a CSR matrix of them, or a list of such for sequences; packed or not.
    """
    if isinstance(given, StreamData):
        return is_one_hot(given.data)
    if isinstance(given, list):
        dense = bool(given) and all(isinstance(each, np.ndarray) and each.ndim == 2 for each in given)
        return is_one_hot(np.concatenate(given)) if dense else all(map(is_one_hot, given))
    if is_sparse(given):
        counts = np.diff(given.indptr)
        return bool((counts == 1).all() and (given.data == 1).all())
    if not isinstance(given, np.ndarray) or given.ndim < 2:
        return False
    rows = given.reshape(-1, given.shape[-1])
    count, size = rows.shape
    if np.count_nonzero(rows) != count:
        return False
    # If each sums up to 1, none has two, since another had none. Bytes are compared in a tenth of the time of numbers.
    return bool(rows.dot(_ones(size, rows.dtype)[0]).tobytes() == _ones(count, rows.dtype)[1])


@lru_cache(maxsize=64)
def _ones(size: int, dtype: np.dtype[Any]) -> tuple[NDArray[Any], bytes]:
    found = np.ones(size, dtype)
    return found, found.tobytes()
