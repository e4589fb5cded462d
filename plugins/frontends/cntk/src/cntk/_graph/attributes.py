"""Attributes of functions that can be changed afterwards."""

from __future__ import annotations

from typing import Any

from cntk_model_cntk2.values import SizeT

from cntk._graph.errors import GraphError
from cntk._graph.primitive import Primitive

_CHANGEABLE = {"dropoutRate": float, "rngSeed": int}


def change(primitive: Primitive, name: str, value: Any) -> None:
    """Change an attribute of a function.

    Raises:
        GraphError: it has no such attribute, or another one cannot be changed.
    """
    if name not in _CHANGEABLE or name not in primitive.attributes:
        can = ", ".join(key for key in _CHANGEABLE if key in primitive.attributes) or "none"
        raise GraphError(f"'{name}' of {primitive.called} cannot be changed; what can be is: {can}")
    primitive.attributes[name] = SizeT(int(value)) if name == "rngSeed" else float(value)
    primitive.stamp += 1
