"""Parameters and constants: where their values are, and the core's parameters that they are in every network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk._graph.errors import GraphError, told
from cntk_core.api import Parameter as Kept

if TYPE_CHECKING:
    from cntk.variables import _Kept

_SHAPE_OPEN = "the shape of {} is not known yet, so that it has no value"


def is_known(shape: tuple[int, ...] | None) -> bool:
    """Whether all dimensions are said, or are free."""
    return shape is not None and -1 not in shape


def current_value(variable: _Kept) -> NDArray[Any]:
    """Return the value, which is made now if it was not needed before.

    Raises:
        GraphError: the shape is not known.
    """
    if variable._node is not None:
        value: NDArray[Any] | None = variable._node.value
        assert value is not None
        return value
    if variable._value is None:
        if not is_known(variable._shape):
            raise GraphError(_SHAPE_OPEN.format(variable))
        with told():
            variable._value = variable._first.values(variable._shape, variable._dtype)
    return variable._value


def node_of(variable: _Kept) -> Kept:
    """Return the core's parameter, which has the value from now on.

    Raises:
        GraphError: the shape is not known.
    """
    if variable._node is None:
        value = current_value(variable)
        wide = np.float32 if variable._dtype == np.float16 else variable._dtype
        assert variable._shape is not None
        rate = float(variable.is_parameter)
        made = Kept.make(variable.uid, variable._shape, value=value.astype(wide), learning_rate_multiplier=rate)
        made.needs_gradient = True
        variable._node = made
    found: Kept = variable._node
    return found


def set_value(variable: _Kept, value: NDArray[Any]) -> None:
    """Set the value; one number is the value of all elements.

    Raises:
        GraphError: it has another shape.
    """
    if not is_known(variable._shape):
        raise GraphError(_SHAPE_OPEN.format(variable))
    assert variable._shape is not None
    if value.size == 1 and value.shape != variable._shape:
        value = np.broadcast_to(value.reshape(()), variable._shape)
    if value.shape != variable._shape:
        raise GraphError(f"a value of the shape {value.shape} does not fit {variable}")
    if variable._node is None:
        variable._value = np.array(value, variable._dtype)
        return
    kept = variable._node.value
    assert kept is not None
    kept[...] = value
    if variable.is_constant:
        variable._node.value = np.array(kept)  # programs may have it in what they have computed from constants
