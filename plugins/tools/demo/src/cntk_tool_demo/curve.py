"""The learning curve: criterion and errors by epoch, on the training set and on held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cntk_core.api import EpochSummary

_TRAINING = "#2563eb"
_HELD_OUT = "#d97706"
_DARK = "#1e293b"
_GRID = "#e2e8f0"


def draw_curve(epochs: Sequence[EpochSummary], paths: Sequence[Path]) -> None:
    """Draw the curves of a training into files; the suffix of each says the format."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(epochs[0].criteria)[:2]
    figure = Figure(figsize=(4.8 * len(names), 3.9), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for index, (axis, name) in enumerate(zip(axes, names, strict=True)):
        _panel(axis, epochs, name, is_error=index > 0)
    for path in paths:
        figure.savefig(path)


def _panel(axis: Any, epochs: Sequence[EpochSummary], name: str, *, is_error: bool) -> None:
    scale = 100.0 if is_error else 1.0
    numbers = [epoch.epoch + 1 for epoch in epochs]
    curves = [("training", _TRAINING, [epoch.criteria[name] * scale for epoch in epochs])]
    if all(name in epoch.validation for epoch in epochs):
        curves.append(("held out", _HELD_OUT, [epoch.validation[name] * scale for epoch in epochs]))
    form = "{}: {:.1f} % at the end" if is_error else "{}: {:.3f} at the end"
    for label, color, values in curves:
        text = form.format(label, values[-1])
        axis.plot(numbers, values, color=color, linewidth=2, marker="o", markersize=3.2, label=text)
    _decorate(axis, "wrong digits, %" if is_error else "cross entropy per digit", len(numbers))


def _decorate(axis: Any, title: str, epochs: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_title(title, loc="left", color=_DARK, fontsize=11, fontweight="bold")
    axis.set_xlabel("epoch", color=_DARK)
    axis.set_xlim(0, epochs + 1)
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(color=_GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.legend(frameon=False, loc="upper right")
