"""Calls one after the other, as generated code; those of compiled functions in a row as one call.

A compiled function has all that it is called with in a block. So a table of functions and blocks is all that a compiled
loop needs to call them, and Python has to write only what has changed since the last time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cntk_core.api.engines import Native, native_function
from cntk_engine_cpu.inputs import Ports, address_of
from cntk_engine_cpu.rows import Row, Rows
from cntk_engine_cpu.site import Call

_RUN = """
def run(table):
    for row in range(len(table)):
        foreign(table[row, 0], "void(ptr)", table[row, 1])
"""


def straight_line(calls: Sequence[Call], ports: Ports) -> Callable[[], None]:
    """Return a function that makes the calls one after the other: generated source, no loop, no look-ups.

    Arguments that lie in an input move with it.
    """
    names: dict[str, Any] = {}
    lines: list[str] = []
    together: list[Row] = []
    for index, call in enumerate(calls):
        found = _rows(call, ports)
        if found is None:
            lines += _end(together, names)
            lines.append(_python_call(index, call, ports, names))
            continue
        prepare = getattr(call.function, "prepare", None)
        if prepare is not None:
            names[f"p{index}"] = prepare
            lines.append(f"    p{index}()")
        together += found
    lines += _end(together, names)
    exec("\n".join(["def run():", *(lines or ["    pass"])]), names)
    run: Callable[[], None] = names["run"]
    return run


def _rows(call: Call, ports: Ports) -> Sequence[Row] | None:
    """The compiled functions that do what a call does; None if there are none."""
    function: Any = call.function
    if isinstance(function, Native):
        block = function.block(*call.arguments)
        kept = []
        for place, argument in zip(function.places, call.arguments, strict=True):
            # The array of an input is the reader's, who may want to have it back.
            if isinstance(argument, np.ndarray) and not ports.follow_in(argument, block, place):
                kept.append(argument)
        return [Row(function, block, kept)]
    return function.rows(*call.arguments) if isinstance(function, Rows) else None


def _end(together: list[Row], names: dict[str, Any]) -> list[str]:
    """The line that calls the functions that have come together; there are none then."""
    if not together:
        return []
    name = f"t{len(names)}"
    kept: list[Any] = [*together]
    if len(together) == 1:
        function, block = together[0].function, together[0].block
    else:
        table = np.array([(row.function.address, address_of(row.block)) for row in together], np.int64)
        function = native_function(_RUN, "run", "void(int64[:, ::1])")
        block = function.block(table)
        kept.append(table)
    names[name], names[f"{name}_kept"] = function.run, [*kept, block]
    together.clear()
    return [f"    {name}({address_of(block)})"]


def _python_call(index: int, call: Call, ports: Ports, names: dict[str, Any]) -> str:
    names[f"f{index}"] = call.function
    arguments = {f"x{index}_{place}": argument for place, argument in enumerate(call.arguments)}
    names.update(arguments)
    for name, argument in arguments.items():
        if isinstance(argument, np.ndarray):
            ports.follow_view(argument, functools.partial(names.__setitem__, name))
    return f"    f{index}({', '.join(arguments)})"
