"""Recipes in a notebook: ``from cntk_tool_curves.notebook import run; run("r.cntk", "Train=[SGD=[maxEpochs=5]]")``.

The cell shows the training while it goes on: how far it is, the curves of its criteria, the last epochs. For loops in
Python there is :class:`LiveCurves`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cntk_core.api import MissingPluginError
from cntk_core.api.recipes import Log, run_recipe
from cntk_tool_curves.live import LiveRun, ipython_display
from cntk_tool_curves.live_curves import LiveCurves

__all__ = ["LiveCurves", "LiveRun", "run"]


def run(
    recipe: str,
    *overrides: str,
    only: str | None = None,
    plugin_files: Sequence[str] = (),
    show: Callable[[object], Any] | None = None,
) -> LiveRun:
    """Run a recipe, and show its trainings in the cell while they go on.

    Args:
        recipe: file, or several joined with ``+``. Paths count from the current directory, as on the command line.
        overrides: ``key=value``, in place of the recipe's.
        only: run only this action (``train``).
        plugin_files: Python files with further components.
        show: puts an object on display and returns a handle with a method ``update``; default: the notebook's.

    Returns:
        What was shown: it has the curves, and the lines of the log unless the recipe sends them to a file.

    Raises:
        CntkError: the recipe or the data is wrong, or the run failed.
        MissingPluginError: this is no notebook, and there is no ``show``.
    """
    live = LiveRun(show or _display())
    log = _KeptLog(live.log)
    try:
        run_recipe([f"configFile={recipe}", *overrides], log, only=only, plugin_files=plugin_files, watchers=[live])
    finally:
        log.close()
    return live


def _display() -> Callable[[object], Any]:
    from importlib.util import find_spec

    if find_spec("IPython") is None:
        raise MissingPluginError(
            "a run is shown in a notebook, and IPython is not installed",
            hint="pip install ipython, or on a console: cntk train recipe.cntk",
        )
    return ipython_display


class _KeptLog(Log):
    """A log that keeps in a list what would go to the console."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def console(self, text: str) -> None:
        """Keep a line."""
        self._lines.append(text)
