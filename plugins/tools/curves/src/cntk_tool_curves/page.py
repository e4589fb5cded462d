"""A run in progress as HTML: how far it is, its curves, the last epochs. It needs nothing but a browser."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from cntk_tool_curves.curves import Curves

WIDTH, HEIGHT = 360, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 26, 24
_TRAINING, _VALIDATION, _FAINT = "#2563eb", "#d97706", "#93c5fd"
_LAST = 5
"""Epochs in the table."""

Points = list[tuple[float, float]]


def progress(done: float, total: int) -> str:
    """Return a bar for so many of the epochs."""
    share = min(1.0, done / total) if total else 0.0
    return f'<progress max="1" value="{share:.4f}" style="width:{WIDTH}px"></progress>'


def charts(curves: Curves, epochs: int, unit: str = "epoch") -> str:
    """Return a chart for each criterion.

    Args:
        curves: what is known by now.
        epochs: how many there will be.
        unit: what an epoch is called.
    """
    return "".join(_chart(curves, name, epochs, unit) for name in curves.names())


def table(curves: Curves, unit: str = "epoch") -> str:
    """Return the criteria of the last epochs; nothing before the first has ended. Rates are there if one is known."""
    shown = curves.epochs[-_LAST:]
    if not shown:
        return ""
    held_out = any(epoch.validation for epoch in shown)
    rated = any(epoch.rate is not None for epoch in shown)
    names = curves.names()
    titles = [unit, *names, *(f"{name} (validation)" for name in names if held_out)]
    rows = [[*titles, *(["rate per sample"] if rated else []), "seconds"]]
    for epoch in shown:
        cells = [f"{epoch.number}", *(_number(epoch.criteria.get(name)) for name in names)]
        cells += [_number(epoch.validation.get(name)) for name in names if held_out]
        rows.append([*cells, *([_number(epoch.rate)] if rated else []), f"{epoch.seconds:.1f}"])
    head, *body = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table><tr>{head.replace('td>', 'th>')}</tr>{''.join(f'<tr>{row}</tr>' for row in body)}</table>"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _chart(curves: Curves, name: str, epochs: int, unit: str) -> str:
    within: Points = list(zip(*curves.reading_curve(name), strict=True))
    training = [(float(epoch.number), epoch.criteria[name]) for epoch in curves.epochs if name in epoch.criteria]
    held_out = [(float(epoch.number), epoch.validation[name]) for epoch in curves.epochs if name in epoch.validation]
    values = [value for _, value in [*within, *training, *held_out] if math.isfinite(value)]
    if not values:
        return ""
    plot = _Plot(max(epochs, 1), min(values), max(values), unit)
    parts = [
        f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(name)}</text>',
        *plot.frame(),
        *plot.lines(within, _FAINT, 1),
        *plot.lines(training, _TRAINING, 2, "training"),
        *plot.lines(held_out, _VALIDATION, 2, "validation"),
    ]
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    style = 'font-family="sans-serif" font-size="11" style="background:white"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>'


class _Plot:
    """Where values are in a chart from epoch 0 to ``epochs`` and from the least value to the largest."""

    def __init__(self, epochs: int, low: float, high: float, unit: str) -> None:
        self.unit = unit
        self.epochs = epochs
        self.low = low
        self.high = high

    def place(self, epoch: float, value: float) -> tuple[float, float]:
        """Return a point in pixels."""
        span = self.high - self.low
        up = (value - self.low) / span if span > 0 else 0.5
        across = epoch / self.epochs * (WIDTH - _LEFT - _RIGHT)
        return _LEFT + across, HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM)

    def frame(self) -> Iterator[str]:
        """The axes and their ends."""
        bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
        yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#64748b"/>'
        yield f'<text x="{_LEFT - 4}" y="{_TOP + 8}" text-anchor="end">{self.high:.3g}</text>'
        if self.high > self.low:
            yield f'<text x="{_LEFT - 4}" y="{bottom}" text-anchor="end">{self.low:.3g}</text>'
        yield f'<text x="{right}" y="{HEIGHT - 8}" text-anchor="end">{escape(self.unit)} {self.epochs}</text>'

    def lines(self, points: Sequence[tuple[float, float]], color: str, width: int, title: str = "") -> Iterator[str]:
        """A line through the points, interrupted where a value is no number."""
        hint = f"<title>{title}</title>" if title else ""
        for piece in _pieces(points):
            placed = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.place(*point) for point in piece))
            style = f'fill="none" stroke="{color}" stroke-width="{width}"'
            yield f'<polyline points="{placed}" {style}>{hint}</polyline>'
            if title:
                x, y = self.place(*piece[-1])
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}">{hint}</circle>'


def _pieces(points: Sequence[tuple[float, float]]) -> Iterator[Points]:
    piece: Points = []
    for epoch, value in points:
        if math.isfinite(value):
            piece.append((epoch, value))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece
