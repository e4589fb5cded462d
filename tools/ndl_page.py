"""Write the table of functions in docs/ndl.md from the builder's own: ``python tools/ndl_page.py``.

The page's other parts are kept; what stands after the line ``<!-- generated -->`` is written anew.
"""

from __future__ import annotations

from pathlib import Path

import attrs
from cntk_builder_ndl.functions import FUNCTIONS, Function
from cntk_builder_ndl.making import camel_case

from cntk_core.api import NoAttributes, Op, core_ops

PAGE = Path(__file__).parents[1] / "docs" / "ndl.md"
MARK = "<!-- generated -->"


def calls_of(function: Function, op: Op) -> str:
    """How a function is called."""
    usage = function.usage or f"{function.name}({', '.join([*inputs_of(op), *options_of(op)])})"
    return "<br>".join(f"`{line}`" for line in usage.splitlines())


def inputs_of(op: Op) -> list[str]:
    """Names for the inputs of an op: ``x``, ``x, y``, ``x1, x2, ...``."""
    fewest, most = op.arity
    if most is None:
        return ["x1", "x2", "..."]
    names = ["x", "y", "z", "u"][:most] if most <= 4 else [f"x{index + 1}" for index in range(most)]
    return [name if index < fewest else f"[{name}]" for index, name in enumerate(names)]


def options_of(op: Op) -> list[str]:
    """The settings of an op as options of NDL."""
    if op.attributes is NoAttributes:
        return []
    return [f"{camel_case(field.name)}={_written(field.default)}" for field in attrs.fields(op.attributes)]


def _written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if isinstance(default, int | float) else ""


def table() -> str:
    """The table of all functions, by name."""
    ops = core_ops()
    lines = ["", "| function | other names | call | [operation](ops.md) |", "| --- | --- | --- | --- |"]
    for function in sorted(FUNCTIONS, key=lambda function: function.name.lower()):
        op = ops.find("ndl", function.op_name)
        assert op is not None, function.name
        aliases = ", ".join(f"`{alias}`" for alias in function.aliases)
        other = f"`{op.name}`" if op.name != function.name else ""
        cells = (f"`{function.name}`", aliases, calls_of(function, op), other)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def page(current: str) -> str:
    """The whole page: the text of the current one and a new table."""
    return current.partition(MARK)[0] + MARK + "\n" + table()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
