"""``cntk plot`` and ``cntk dump``: a model as a picture and as text."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cntk_core.api import ConfigError, ModelFormatError, Network, UsageError, did_you_mean
from cntk_core.api.builders import collapse, dump, to_dot, to_svg, write_text
from cntk_core.api.recipes import ModelFiles, open_recipe

STDOUT = "-"
FORMATS: dict[str, Callable[[Network, int], str]] = {".svg": to_svg, ".dot": to_dot, ".gv": to_dot}
"""Suffix of a file to what writes it."""


def plot(
    source: str,
    overrides: Sequence[str] = (),
    *,
    output: str = "",
    section: str | None = None,
    depth: int = 0,
    plugin_files: Sequence[str] = (),
) -> int:
    """Draw the network of a model file or of a recipe.

    Args:
        source: the model, or a recipe.
        overrides: ``key=value`` for a recipe.
        output: the file; its suffix says what is written. Empty: an SVG file of the source's name, in the
            current directory. ``-``: SVG on standard output.
        section: the command section of a recipe; by default the first that describes a network.
        depth: how far blocks are drawn open; -1 all the way.
        plugin_files: Python files with further components.

    Raises:
        CntkError: the source cannot be read or describes no network, or the file cannot be written.
    """
    target = output or f"{Path(source).name}.svg"
    suffix = ".svg" if target == STDOUT else Path(target).suffix.lower()
    form = FORMATS.get(suffix)
    if form is None:
        raise UsageError(
            f"'{target}' cannot be drawn: the suffix of the file says what is written",
            hint=f"{', '.join(FORMATS)}; for a bitmap give the .dot file to graphviz: dot -Tpng net.dot -o net.png",
        )
    network = _network(source, overrides, section, plugin_files)
    _write(target, form(network, depth))
    if target != STDOUT:
        print(f"{target}: {len(network)} nodes")
    return 0


def _network(source: str, overrides: Sequence[str], section: str | None, plugin_files: Sequence[str]) -> Network:
    files = model_files(plugin_files)
    if files.is_model(source):
        return files.load(source)
    context, sections = open_recipe([f"configFile={source}", *overrides], section, plugin_files)
    described = [part for part in sections if context.builder_value(part) is not None]
    if not described:
        raise ConfigError("no section of the recipe describes a network", where=context.config.where)
    network = context.describe_network(described[0])
    network.infer()
    return network


def load_any_model(path: str, plugin_files: Sequence[str], dtype: str | None = None) -> Network:
    """Load a model, by default in its own precision.

    Raises:
        ModelFormatError: there is no such file, or it is no model.
    """
    if not Path(path).is_file():
        raise ModelFormatError(f"the model '{path}' does not exist{did_you_mean(path, _beside(path))}")
    return model_files(plugin_files).load(path, dtype)


def model_files(plugin_files: Sequence[str]) -> ModelFiles:
    """Return what reads and writes models with the formats and operations that are installed."""
    from cntk_core.api.recipes import PluginManager

    return ModelFiles(PluginManager(plugin_files).registry)


def _beside(path: str) -> list[str]:
    folder = Path(path).parent
    return sorted(str(entry) for entry in folder.iterdir()) if folder.is_dir() else []


def _write(target: str, text: str) -> None:
    if target == STDOUT:
        sys.stdout.write(text)
    else:
        write_text(target, text)


def dump_model(
    path: str,
    *,
    pattern: str = "",
    values: bool = True,
    output: str = STDOUT,
    depth: int = 0,
    plugin_files: Sequence[str] = (),
) -> int:
    """Print the nodes of a model, in the format of the action dumpNodes.

    Args:
        path: the model.
        pattern: only nodes whose whole name matches this regular expression, inside blocks too.
        values: also the values of parameters.
        output: the file, ``-`` is standard output.
        depth: how far blocks are open, if there is no pattern; a closed one is a node of its kind.
        plugin_files: Python files with further operations.

    Raises:
        CntkError: the model cannot be read, or no node matches.
    """
    try:
        wanted = re.compile(pattern or ".*", re.DOTALL)
    except re.error as error:
        raise UsageError(f"'{pattern}' is not a regular expression: {error}") from None
    network = load_any_model(path, plugin_files)
    shown = network if pattern else collapse(network, depth)
    nodes = [node for node in shown if wanted.fullmatch(node.name)]
    if not nodes:
        names = [node.name for node in network]
        raise UsageError(
            f"no node matches '{pattern}'{did_you_mean(pattern, names)}", hint=f"Nodes: {', '.join(names)}"
        )
    text = "".join(dump(sorted(nodes, key=lambda node: node.name.lower()), values=values))
    _write(output, text.lstrip(" \n") + "\n" if output == STDOUT else text)
    return 0
