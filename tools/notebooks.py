"""Keeps the notebooks in one form, and makes pages of them.

    python tools/notebooks.py                      # write all in the normal form: what ran in them is left out
    python tools/notebooks.py --check              # only say which are not
    python tools/notebooks.py --html FOLDER        # run them with a kernel; write pages, and them with what came out
    python tools/notebooks.py --html FOLDER docs/notebooks/08-gan.ipynb

A notebook is stored without outputs: pictures and times would differ in each run, and nobody reads such a change. The
pages need the dependency group `notebooks`; ``make notebooks`` installs it. ``make site`` shows what came out if
notebooks that ran lie in ``build/notebooks``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""What is kept of a notebook's own settings; versions of the machine that saved it are not."""

LONGEST = 900
"""Seconds that a cell may take."""


def notebooks(root: Path = ROOT) -> list[Path]:
    """Return the notebooks of the repository: the tutorials, and those of examples."""
    return sorted([*(root / "docs/notebooks").glob("*.ipynb"), *(root / "examples").glob("*/*.ipynb")])


def normal(text: str) -> str:
    """Return a notebook in the form in which it is stored.

    Cells keep their source and id; outputs, counters and settings are left out.

    Args:
        text: JSON, as Jupyter writes it.
    """
    read = json.loads(text)
    cells = [_cell(cell) for cell in read["cells"]]
    made = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    kept = {"cell_type": cell["cell_type"], "id": cell["id"], "metadata": {}}
    kept["source"] = source.strip("\n").splitlines(keepends=True)
    return {**kept, "execution_count": None, "outputs": []} if cell["cell_type"] == "code" else kept


def run(notebook: Path) -> Any:
    """Run a notebook with a kernel, and return it with what came out.

    It runs in a copy of its folder, because an example has scripts beside it.

    Raises:
        CellExecutionError: a cell fails, or what it asserts does not hold.
    """
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call, unused-ignore]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(notebook.parent, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.ipynb", "run"))
        place = {"metadata": {"path": folder}}
        NotebookClient(content, timeout=LONGEST, kernel_name="python3", resources=place).execute()
    return content


def write_pages(folder: Path, chosen: Sequence[Path]) -> int:
    """Run notebooks, and write each as a page and as it is then; say which fail, and return how many."""
    import nbformat
    from nbconvert import HTMLExporter

    failed = 0
    exporter = HTMLExporter()  # type: ignore[no-untyped-call, unused-ignore]
    folder.mkdir(parents=True, exist_ok=True)
    for notebook in chosen:
        try:
            content = run(notebook)
            (folder / f"{notebook.stem}.html").write_text(exporter.from_notebook_node(content)[0], encoding="utf-8")
            nbformat.write(content, folder / notebook.name)  # type: ignore[no-untyped-call, unused-ignore]
            print(f"{notebook.relative_to(ROOT)}: {folder / notebook.stem}.html")
        except Exception as error:
            failed += 1
            print(f"{notebook.relative_to(ROOT)}: {error}", file=sys.stderr)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return how many notebooks are wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="notebooks; all by default")
    parser.add_argument("--check", action="store_true", help="change nothing, say which are not in the normal form")
    parser.add_argument("--html", type=Path, metavar="FOLDER", help="run them with a kernel and write pages there")
    options = parser.parse_args(arguments)
    chosen = [file.resolve() for file in options.files] or notebooks()
    if options.html is not None:
        return write_pages(options.html, chosen)
    wrong = 0
    for file in chosen:
        text = file.read_text(encoding="utf-8")
        if text == normal(text):
            continue
        wrong += 1
        if options.check:
            print(f"{file.relative_to(ROOT)} has outputs or settings: python tools/notebooks.py")
        else:
            file.write_text(normal(text), encoding="utf-8")
    return wrong if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
