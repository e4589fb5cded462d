"""Write the table of CNTK 2's operations from what reads and writes them: ``python tools/cntk2_page.py``.

The page's text is kept; what stands after the line ``<!-- generated -->`` is written anew.
"""

from __future__ import annotations

from pathlib import Path

from cntk_model_cntk2.operations import OPERATIONS, REFUSED
from cntk_model_cntk2.save import NUMBERS

PAGE = Path(__file__).parents[1] / "docs" / "cntk2-models.md"
MARK = "<!-- generated -->"
LAST_OF_2_0 = 76


def table() -> str:
    """Return the table: number and name in the original, our operation, since when, whether it is written."""
    lines = ["| Number | CNTK 2 | here | since | written |", "| --- | --- | --- | --- | --- |"]
    names = {44: "Combine", 57: "Block", **REFUSED, **{number: one.name for number, one in OPERATIONS.items()}}
    for number, name in sorted(names.items()):
        since = "2.0" if number <= LAST_OF_2_0 else "2.7"
        operation = OPERATIONS.get(number)
        ours, written = "refused by name", "-"
        if operation is not None:
            ours = f"`{operation.ours}`"
            written = "yes" if NUMBERS[operation.ours] == number else f"as {names[NUMBERS[operation.ours]]}"
        elif number not in REFUSED:
            ours = "several outputs" if name == "Combine" else "a [block](blocks.md)"
            written = "yes" if name == "Combine" else "if asked for"
        lines.append(f"| {number} | `{name}` | {ours} | {since} | {written} |")
    others = sorted(f"`{ours}` (as `{names[number]}`)" for ours, number in NUMBERS.items() if ours not in _common())
    return "\n".join([*lines, "", f"Also written: {', '.join(others)}."])


def _common() -> set[str]:
    return {operation.ours for operation in OPERATIONS.values()}


def page(current: str) -> str:
    """Return the page with a table of today."""
    head, mark, _ = current.partition(MARK)
    return f"{head}{mark}\n\n{table()}\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
