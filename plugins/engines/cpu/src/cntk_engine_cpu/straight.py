"""Calls one after the other, as generated code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cntk_engine_cpu.inputs import Ports
from cntk_engine_cpu.site import Call


def straight_line(calls: Sequence[Call], ports: Ports) -> Callable[[], None]:
    """Return a function that makes the calls one after the other: generated source, no loop, no look-ups.

    Arguments that lie in an input move with it.
    """
    names: dict[str, Any] = {}
    lines = []
    for index, call in enumerate(calls):
        names[f"f{index}"] = call.function
        arguments = {f"x{index}_{place}": argument for place, argument in enumerate(call.arguments)}
        names.update(arguments)
        for name, argument in arguments.items():
            if isinstance(argument, np.ndarray):
                ports.follow_view(argument, functools.partial(names.__setitem__, name))
        lines.append(f"    f{index}({', '.join(arguments)})")
    exec("\n".join(["def run():", *(lines or ["    pass"])]), names)
    run: Callable[[], None] = names["run"]
    return run
