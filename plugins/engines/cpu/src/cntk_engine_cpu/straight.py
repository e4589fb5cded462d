"""Calls one after the other, as generated code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cntk_core.api.engines import Native
from cntk_engine_cpu.inputs import Ports, address_of
from cntk_engine_cpu.site import Array, Call


def straight_line(calls: Sequence[Call], ports: Ports) -> Callable[[], None]:
    """Return a function that makes the calls one after the other: generated source, no loop, no look-ups.

    Arguments that lie in an input move with it.
    """
    names: dict[str, Any] = {}
    lines = []
    for index, call in enumerate(calls):
        if isinstance(call.function, Native):
            block = call.function.block(*call.arguments)
            _follow(call.function, block, call.arguments, ports)
            names.update({f"f{index}": call.function.run, f"k{index}": (block, call.arguments)})
            lines.append(f"    f{index}({address_of(block)})")
            continue
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


def _follow(function: Native, block: Array, arguments: Sequence[Any], ports: Ports) -> None:
    """Have the addresses in a block follow the inputs that its arguments lie in."""
    for place, argument in zip(function.places, arguments, strict=True):
        if isinstance(argument, np.ndarray):
            ports.follow(argument, functools.partial(_move, block, place))


def _move(block: Array, place: int, _array: Array, address: int, offset: int) -> None:
    block[place] = address + offset
