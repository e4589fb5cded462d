"""Looking at graphs and at what they compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cntk._inherited import inherit
from cntk.debugging.debug import (
    DEBUG_USAGE,
    debug_model,
    save_as_legacy_model,
    set_checked_mode,
    set_computation_network_trace_level,
    set_node_timing,
)
from cntk.debugging.profiler import disable_profiler, enable_profiler, start_profiler, stop_profiler

__all__ = [
    "DEBUG_USAGE",
    "debug_model",
    "disable_profiler",
    "dump_function",
    "dump_signature",
    "enable_profiler",
    "force_deterministic",
    "save_as_legacy_model",
    "set_checked_mode",
    "set_computation_network_trace_level",
    "set_node_timing",
    "start_profiler",
    "stop_profiler",
]

_LETTERS = 26
_FIRST_AXIS = 12
"""Axes are named from the letter m on."""


def force_deterministic(seed: int) -> None:
    """Take a seed for everything that is random. Engines here compute the same at each run anyway."""
    from cntk.cntk_py import set_fixed_random_seed

    set_fixed_random_seed(seed)


def dump_signature(root: Any, tag: str | None = None) -> None:
    """Print the signature of a Function."""
    print(str(root))


def dump_function(root: Any, tag: str | None = None) -> None:
    """Print the functions and variables that a Function is made of, the inside of blocks, too."""
    dump_signature(root, tag)
    names = _Names()
    for line in names.lines(root):
        print(line)


class _Names:
    """Names of things and axes that have none: a, b, c, ..."""

    def __init__(self) -> None:
        self._items: dict[str, str] = {}
        self._axes: dict[str, str] = {}

    def lines(self, root: Any) -> Iterator[str]:
        """Yield a line for each function and variable, behind those of the axes that it is the first to have."""
        from cntk.logging.graph import depth_first_search

        def wanted(item: Any) -> bool:
            return hasattr(item, "root_function") or not item.is_output

        for item in depth_first_search(root.root_function, wanted, -1):
            before = dict(self._axes)
            text = self._line(item)
            yield from (f"  Axis {axis} == {name}" for axis, name in self._axes.items() if axis not in before)
            yield text

    def _line(self, item: Any) -> str:
        if not hasattr(item, "root_function"):
            kind = next(k for k in ("Parameter", "Placeholder", "Input", "Constant", "Variable") if self._is(item, k))
            return f"  {kind:20} {self._name(item) + ' ' + item.uid:30}  {self._type(item)}"
        root = item.root_function
        reads, makes = (
            "(" + ", ".join(f"{self._name(each)}:{self._type(each)}" for each in several) + ")"
            for several in (root.inputs, root.outputs)
        )
        return f"  {item.op_name:20} {self._name(item):30} {reads} -> {makes}"

    @staticmethod
    def _is(item: Any, kind: str) -> bool:
        return kind == "Variable" or bool(getattr(item, f"is_{kind.lower()}"))

    def _name(self, item: Any) -> str:
        return str(item.name) or self._items.setdefault(item.uid, _letters(len(self._items)))

    def _type(self, variable: Any) -> str:
        axes = ",".join(self._axis(axis.name) for axis in variable.dynamic_axes)
        return (f"[{axes}]" if axes else "") + str(variable.shape)

    def _axis(self, name: str) -> str:
        if name in ("UnknownAxes", "defaultBatchAxis"):
            return "?" if name == "UnknownAxes" else "b*"
        return self._axes.setdefault(name, _letters(len(self._axes) + _FIRST_AXIS) + "*")


def _letters(number: int) -> str:
    """Return a, b, ..., z, ba, bb, ..."""
    before, last = divmod(number, _LETTERS)
    return (_letters(before) if before else "") + chr(ord("a") + last)


inherit(__name__)
