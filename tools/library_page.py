"""Write the reference page of BrainScript's core library: ``python tools/library_page.py``.

The page's introduction is kept; the tables after the line ``<!-- generated -->`` are written anew.
"""

from __future__ import annotations

from pathlib import Path

from cntk_builder_brainscript.library_table import Definition, definitions

PAGE = Path(__file__).parents[1] / "docs" / "brainscript-library.md"
MARK = "<!-- generated -->"


def cells(definition: Definition) -> tuple[str, str, str, str]:
    """Name, parameters, meaning and example."""
    parameters = f"`{definition.parameters}`" if definition.parameters else ""
    example = f"`{definition.example}` gives `{definition.result}`"
    return f"`{definition.name}`", parameters, definition.meaning, example


def tables() -> str:
    """The tables of all sections."""
    lines: list[str] = []
    section = ""
    for definition in definitions():
        if definition.section != section:
            section = definition.section
            lines += ["", f"## {section}", "", "| Name | Parameters | Meaning | Example |", "| --- | --- | --- | --- |"]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells(definition)) + " |")
    return "\n".join(lines) + "\n"


def page(current: str) -> str:
    """The whole page: the introduction of the current one and new tables."""
    introduction = current.partition(MARK)[0]
    return introduction + MARK + "\n" + tables()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
