"""``cntk explain --time``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from cntk_core.api import ConfigError, UsageError
from cntk_core.api.engines import trace as trace_of
from cntk_core.api.recipes import open_recipe
from cntk_tool_inspect.timing.flame import flame_graph
from cntk_tool_inspect.timing.measure import Profile, profile
from cntk_tool_inspect.timing.table import table


def time_recipe(
    arguments: Sequence[str],
    *,
    section: str | None = None,
    steps: int = 50,
    flame: str = "",
    trace: str = "",
    plugin_files: Sequence[str] = (),
) -> int:
    """Measure the training of the first section that trains (or of the one that is named), and print a table.

    Args:
        arguments: ``configFile=...``, ``key=value``.
        section: the command section.
        steps: how many are measured.
        flame: SVG file for a flame graph; empty for none.
        trace: JSON file for a trace; empty for none.
        plugin_files: Python files with further components.

    Raises:
        CntkError: no section trains, or something is wrong with the recipe, the data or the files.
    """
    if steps < 1:
        raise UsageError(f"--steps {steps} makes no sense: at least 1 must be measured")
    context, sections = open_recipe(arguments, section, plugin_files)
    training = next((part for part in sections if part.get("SGD") is not None), None)
    if training is None:
        raise ConfigError("no section of the recipe trains a network", where=context.config.where)
    found = profile(context, training, steps)
    print("\n".join(table(found)))
    _write(flame, "flame graph", lambda path: path.write_text(flame_graph(found), encoding="utf-8"))
    _write(trace, "trace", lambda path: path.write_text(_trace(found), encoding="utf-8"))
    context.say_unread()
    return 0


def _trace(found: Profile) -> str:
    return json.dumps(trace_of(f"{found.section} ({found.engine})", found.runs, found.reads))


def _write(name: str, what: str, write: Callable[[Path], object]) -> None:
    if not name:
        return
    try:
        write(Path(name))
    except OSError as error:
        raise UsageError(f"the {what} '{name}' cannot be written: {error.strerror}") from None
    print(f"\n{what[0].upper()}{what[1:]}: {name}")
