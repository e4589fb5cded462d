"""Drawing what simulations give: speed-up and efficiency by the number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cntk_core.api import ConfigError, MissingPluginError, UsageError
from cntk_tool_scaling.outcome import Outcome

FORMATS = (".svg", ".png", ".pdf")

_COLORS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f", "#78716c", "#1e293b")
_DARK, _GRID = "#1e293b", "#e2e8f0"
_MARKERS = "osD^vPX*<>"


def check_drawable(output: str) -> None:
    """Raise if a figure cannot be drawn into a file.

    Raises:
        UsageError: its suffix names no format.
        MissingPluginError: matplotlib is not installed.
    """
    if Path(output).suffix.lower() not in FORMATS:
        raise UsageError(
            f"'{output}' cannot be drawn: the suffix of the file says what is written", hint=", ".join(FORMATS)
        )
    if find_spec("matplotlib") is None:
        raise MissingPluginError("cntk simulate --plot needs matplotlib", hint='pip install "cntk-core[plot]"')


def draw(outcomes: Sequence[Outcome], path: Path, title: str) -> None:
    """Draw speed-up and efficiency into a file.

    Args:
        outcomes: of one or several methods.
        path: the file; its suffix says the format.
        title: of the figure.

    Raises:
        ConfigError: the file cannot be written.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Names stay text in an SVG file, and the same numbers give the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "cntk"}):
        figure = Figure(figsize=(10.5, 4.4), dpi=130, layout="constrained")
        FigureCanvasAgg(figure)
        speed, efficiency = figure.subplots(1, 2)
        ranks = sorted({one.ranks for one in outcomes})
        speed.plot(ranks, ranks, color=_DARK, linewidth=0.9, linestyle=":", label="as many times as ranks")
        for index, method in enumerate(dict.fromkeys(one.method for one in outcomes)):
            own = sorted((one for one in outcomes if one.method == method), key=lambda one: one.ranks)
            style = {"color": _COLORS[index % len(_COLORS)], "marker": _MARKERS[index % len(_MARKERS)]}
            at = [one.ranks for one in own]
            speed.plot(at, [one.speedup for one in own], label=method, markersize=4, linewidth=1.4, **style)
            efficiency.plot(at, [100 * one.efficiency for one in own], markersize=4, linewidth=1.4, **style)
        _decorate(speed, ranks, "speed-up")
        speed.set_yscale("log", base=2)
        speed.yaxis.set_major_formatter("{x:g}")
        speed.legend(fontsize=7.5, frameon=False)
        _decorate(efficiency, ranks, "efficiency, %")
        efficiency.set_ylim(0, 105)
        figure.suptitle(title, fontsize=10, color=_DARK)
        undated: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, metadata=undated)
        except OSError as error:
            raise ConfigError(f"the picture '{path}' cannot be written: {error.strerror}") from None


def _decorate(axis: Any, ranks: Sequence[int], title: str) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(ranks, [str(one) for one in ranks])
    axis.minorticks_off()
    axis.set_xlabel("ranks", color=_DARK)
    axis.set_title(title, fontsize=10, color=_DARK)
    axis.grid(color=_GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
