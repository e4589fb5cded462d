"""Runs the cells of a notebook in this process, by IPython's shell and without a kernel."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any


class CellError(Exception):
    """A cell failed."""


def cells(notebook: Path) -> Iterator[tuple[int, str, str]]:
    """The place (from 1), the kind and the source of each cell."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for place, cell in enumerate(content["cells"], start=1):
        yield place, cell["cell_type"], "".join(cell["source"])


def play(notebook: Path, folder: Path) -> dict[str, Any]:
    """Run all cells in a folder, one after the other, and return the names that they leave.

    Raises:
        CellError: one failed; its cause is what was raised.
    """
    with _shell(folder) as shell:
        for place, kind, source in cells(notebook):
            if kind != "code":
                continue
            result = shell.run_cell(source, store_history=False)
            error = result.error_before_exec or result.error_in_exec
            if error is not None:
                raise CellError(f"{notebook.name}, cell {place}: {type(error).__name__}: {error}\n{source}") from error
        return dict(shell.user_ns)


@contextlib.contextmanager
def _shell(folder: Path) -> Iterator[Any]:
    """A shell whose names are those of a module of its own: ``__main__`` stays what it is."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    module = ModuleType(f"cells_{folder.name.replace('-', '_')}")
    settings = Config({"HistoryManager": {"enabled": False}})
    before = set(sys.modules)
    shell = InteractiveShell(user_module=module, ipython_dir=str(folder / ".ipython"), config=settings)
    sys.path.insert(0, str(folder))
    try:
        with contextlib.chdir(folder), capture_output():
            yield shell
    finally:
        sys.path.remove(str(folder))
        shell.restore_sys_module_state()
        for name in set(sys.modules) - before:
            if name == module.__name__ or str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
