"""Drawing learning curves with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cntk_tool_curves.curves import Curves, unique

RATE = "learningRatePerSample"

_COLORS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f", "#78716c", "#1e293b")
_DARK = "#1e293b"
_LEGENDS = 2
"""Runs with whose names each panel has room for a legend; those of more stand once, below all panels."""

_LINE = 0.19
"""Height of a line of a legend, in inches."""

_GRID = "#e2e8f0"


def draw_curves(
    runs: Mapping[str, Curves],
    names: Sequence[str],
    path: Path,
    *,
    logarithmic: bool = False,
    minibatches: bool = False,
) -> None:
    """Draw runs into a file, with a panel for each criterion, and one for the learning rate if it changes.

    Args:
        runs: the curves by the name that the legend shows.
        names: the criteria to show.
        path: the file; its suffix says the format.
        logarithmic: the criteria on a logarithmic scale.
        minibatches: also what was shown within the epochs, as thin lines.

    Raises:
        OSError: the file cannot be written.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [*names, *([RATE] if _rate_changes(runs.values()) else [])]
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    # Names stay text in an SVG file, and the same curves give the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "cntk"}):
        below = len(runs) if len(runs) > _LEGENDS else 0
        figure = Figure(figsize=(4.8 * columns, 3.9 * rows + _LINE * below), dpi=130, layout="constrained")
        FigureCanvasAgg(figure)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axis, name in zip(axes, panels, strict=False):
            if name == RATE:
                _draw_rates(axis, runs)
            else:
                _draw_criterion(axis, runs, name, minibatches=minibatches)
            _decorate(axis, name, logarithmic=logarithmic or name == RATE, legend=not below)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        if below:
            _legend_below(figure, axes[: len(names)])
        undated = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, metadata=undated)


def _rate_changes(runs: Any) -> bool:
    return any(len({epoch.rate for epoch in curves.epochs if epoch.rate}) > 1 for curves in runs)


def _draw_criterion(axis: Any, runs: Mapping[str, Curves], name: str, *, minibatches: bool) -> None:
    for index, (label, curves) in enumerate(runs.items()):
        color = _COLORS[index % len(_COLORS)]
        if minibatches:
            axis.plot(*curves.reading_curve(name), color=color, linewidth=0.8, alpha=0.45)
        shown = [(epoch.number, epoch.criteria[name]) for epoch in curves.epochs if name in epoch.criteria]
        held_out = [(epoch.number, epoch.validation[name]) for epoch in curves.epochs if name in epoch.validation]
        _line(axis, shown, f"{label}: training", color=color)
        _line(axis, held_out, f"{label}: validation", color=color, linestyle="--")


def _draw_rates(axis: Any, runs: Mapping[str, Curves]) -> None:
    for index, (label, curves) in enumerate(runs.items()):
        points = [(epoch.number, epoch.rate) for epoch in curves.epochs if epoch.rate]
        _line(axis, points, label, color=_COLORS[index % len(_COLORS)], drawstyle="steps-mid")


def _line(axis: Any, points: Sequence[tuple[int, float]], label: str, **style: Any) -> None:
    if points:
        numbers, values = zip(*points, strict=True)
        axis.plot(numbers, values, linewidth=1.8, marker="o", markersize=2.8, label=label, **style)


def _legend_below(figure: Any, axes: Sequence[Any]) -> None:
    """Name the curves of all panels once, those of a run in one line."""
    named = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if named:
        columns = 2 if any(label.endswith(": validation") for label in named) else 1
        # Legends are filled column by column.
        labels = sorted(named, key=lambda label: label.endswith(": validation")) if columns == 2 else list(named)
        handles = [named[label] for label in labels]
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def _decorate(axis: Any, title: str, *, logarithmic: bool, legend: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_title(title, loc="left", color=_DARK, fontsize=11, fontweight="bold")
    axis.set_xlabel("epoch", color=_DARK)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    if logarithmic:
        axis.set_yscale("log")
    axis.grid(color=_GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    if legend and axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False, fontsize=8)


def criteria_of(runs: Mapping[str, Curves]) -> list[str]:
    """Names of all criteria of the runs, each once."""
    return unique(name for curves in runs.values() for name in curves.names())
