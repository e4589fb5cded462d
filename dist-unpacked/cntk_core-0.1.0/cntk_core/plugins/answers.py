"""What an answer to a hook must be, so that a wrong one is the fault of the plugin that gave it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cntk_core.errors import shown


def same_kind(argument: str) -> Any:
    """Return a check: the answer is of the same class as the argument that it replaces."""

    def check(told: Mapping[str, Any], answer: Any) -> str:
        wanted = type(told[argument])
        return "" if isinstance(answer, wanted) else f"it answered {shown(answer)}, not a {wanted.__name__}"

    return check


def rate(told: Mapping[str, Any], answer: Any) -> str:
    """A learning rate is a number that is not negative."""
    good = type(answer) is not bool and isinstance(answer, int | float | np.number) and 0 <= answer < math.inf
    return "" if good else f"it answered {shown(answer)}, which is no learning rate"


def minibatch(told: Mapping[str, Any], answer: Any) -> str:
    """A minibatch has the streams of the one that it replaces, with the same sequences and shapes."""
    before = told["minibatch"]
    if not isinstance(answer, type(before)):
        return f"it answered {shown(answer)}, not a Minibatch"
    if set(answer.streams) != set(before.streams):
        return f"its streams are {', '.join(sorted(answer.streams))}, not {', '.join(sorted(before.streams))}"
    for name, stream in before.streams.items():
        found = answer.streams[name]
        if found.data.shape != stream.data.shape or found.layout.frames != stream.layout.frames:
            return f"its stream '{name}' has the shape {found.data.shape}, not {stream.data.shape}"
    return ""


def gradients(told: Mapping[str, Any], answer: Any) -> str:
    """Gradients are by the names that there are, each in the shape of its parameter."""
    before = told["gradients"]
    if not isinstance(answer, Mapping):
        return f"it answered {shown(answer)}, not gradients by name"
    for name, found in answer.items():
        if name not in before:
            return f"it answered a gradient of '{name}', which is no parameter that is trained"
        if getattr(found, "shape", None) != before[name].shape:
            shape = getattr(found, "shape", type(found).__name__)
            return f"its gradient of '{name}' has the shape {shape}, not {before[name].shape}"
    return ""
