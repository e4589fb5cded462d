"""Pages that are made of other files than Markdown: notebooks, and folders of examples."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from docs_site.pages import ROOT

RAN = Path("build/notebooks")
"""Where ``make notebooks`` leaves notebooks with what came out, relative to the repository."""

LANGUAGES = {".py": "python", ".cntk": "text", ".mel": "text", ".ndl": "text", ".txt": "text"}
"""Files of an example that its page shows, and how they are coloured."""

LONGEST = 4000
"""Characters of a text that came out, after which it is cut."""

DOWNLOAD = '<a href="{name}" download>%s</a>'
"""HTML, since a link of Markdown is led to the page that is made of the notebook."""

# Two blanks: `pages.parts` makes four of them, and of four eight, which are code.
NOT_RUN = (
    f"!!! note\n  This notebook is shown without what comes out of it. {DOWNLOAD % 'Download it'} and run it, or\n"
    "  build the site after `make notebooks`, which runs them all.\n"
)
HAS_RUN = f"!!! note\n  What came out of each cell was made with the site. {DOWNLOAD % 'Download the notebook'}.\n"


def notebook_page(path: str, root: Path = ROOT) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and the pictures that it shows, by their names beside the page.

    Args:
        path: the notebook's in the repository.
        root: the repository. The notebook that ran is shown in place of the stored one, if it is of the same cells.
    """
    stored = json.loads((root / path).read_text(encoding="utf-8"))
    ran = root / RAN / Path(path).name
    shown = json.loads(ran.read_text(encoding="utf-8")) if ran.is_file() else stored
    if [source(cell) for cell in shown["cells"]] != [source(cell) for cell in stored["cells"]]:
        shown = stored
    stem = Path(path).stem
    pictures: dict[str, bytes] = {}
    texts: list[str] = []
    for cell in shown["cells"]:
        if cell["cell_type"] == "markdown":
            texts.append(source(cell))
        elif cell["cell_type"] == "code":
            texts.append(fenced(source(cell), "python"))
            texts += [text for output in cell["outputs"] if (text := output_text(output, stem, pictures))]
    note = (NOT_RUN if shown is stored else HAS_RUN).format(name=Path(path).name)
    return "\n\n".join([*texts[:1], note, *texts[1:]]) + "\n", pictures


def source(cell: dict[str, Any]) -> str:
    """Return the text of a cell, which is one string or a list of lines."""
    return text_of(cell["source"]).strip("\n")


def text_of(given: str | list[str]) -> str:
    """Return a text that a notebook may have in lines."""
    return given if isinstance(given, str) else "".join(given)


def output_text(output: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> str:
    """Return what came out of a cell as Markdown; empty if the page cannot show it. Pictures are added to those."""
    if output["output_type"] == "stream":
        return fenced(text_of(output["text"])[:LONGEST], "text")
    data = output.get("data", {})
    if "image/svg+xml" in data:
        name = f"{stem}-{len(pictures) + 1}.svg"
        pictures[name] = text_of(data["image/svg+xml"]).encode()
        return f"![what came out]({name})"
    if "image/png" in data:
        name = f"{stem}-{len(pictures) + 1}.png"
        pictures[name] = base64.b64decode(text_of(data["image/png"]))
        return f"![what came out]({name})"
    return fenced(text_of(data["text/plain"])[:LONGEST], "text") if "text/plain" in data else ""


def folder_page(path: str, root: Path = ROOT) -> str:
    """Return a page with the files of an example."""
    folder = root / path
    texts = [f"# Example: {Path(path).name.replace('_', ' ').replace('-', ' ')}"]
    for file in sorted(folder.iterdir()):
        if file.suffix in LANGUAGES:
            texts += [f"## `{file.name}`", fenced(file.read_text(encoding="utf-8").rstrip(), LANGUAGES[file.suffix])]
    return "\n\n".join(texts) + "\n"


def fenced(text: str, language: str) -> str:
    """Return a text as a block of Markdown, whatever is in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
