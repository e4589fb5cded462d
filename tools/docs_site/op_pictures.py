"""Drawings of operations, as SVG that stands within a page and takes the colours of its scheme (``site.css``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CELL_WIDTH, CELL_HEIGHT, GAP = 46, 24, 30
MOST_ROWS, MOST_COLUMNS, MOST_PLANES = 6, 8, 2
"""Of an array that is drawn; what is beyond is not."""

CURVE_WIDTH, CURVE_HEIGHT, MARGIN = 460, 260, 34
STEEPEST = 4.0
"""Values beyond are not drawn in a curve."""

NARROWEST = 460
"""Pixels below which a drawing is moved sideways within a narrow page, and not made smaller."""

FRAME = '<div class="drawing-frame" role="region" aria-label="Drawing" tabindex="0">'
"""What moves sideways around a drawing; by keyboard too, for which it can be focused."""


def frame(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """Return a drawing, with a title for those who do not see it."""
    size = f'width="{width:g}" height="{height:g}" style="min-width:{min(width, NARROWEST):g}px"'
    return (
        f'{FRAME}<svg class="drawing" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {width:g} {height:g}" {size} '
        f'font-family="sans-serif" font-size="12">{"".join(parts)}</svg></div>'
    )


def text(x: float, y: float, words: str, *, anchor: str = "middle", colour: str = "currentColor") -> str:
    """Return words at a place."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" style="fill:{colour}">{escape(words)}</text>'


# ----------------------------------------------------------------------------------------------------------------------
# Curves


def curves(name: str, x: Array, value: Array, gradient: Array | None) -> str:
    """Draw a function of one number and its derivative.

    Args:
        name: of the operation.
        x: numbers, ascending.
        value: of the function there; what is not finite is left out.
        gradient: of the function there; None if none flows.
    """
    shown = [each for each in (value, gradient) if each is not None]
    known = np.concatenate([each[np.isfinite(each)] for each in shown])
    low = max(-STEEPEST, min(-0.25, float(known.min(initial=0.0)) - 0.1))
    high = min(STEEPEST, max(0.25, float(known.max(initial=0.0)) + 0.1))

    def place(at: float, of: float) -> tuple[float, float]:
        across = (at - x[0]) / (x[-1] - x[0]) * (CURVE_WIDTH - 2 * MARGIN)
        up = (of - low) / (high - low) * (CURVE_HEIGHT - 2 * MARGIN)
        return MARGIN + across, CURVE_HEIGHT - MARGIN - up

    parts = [_axis(place(x[0], 0.0), place(x[-1], 0.0)), _axis(place(0.0, low), place(0.0, high))]
    parts += [_tick(*place(at, 0.0), at) for at in _whole(float(x[0]), float(x[-1]))]
    parts += [_tick_up(*place(0.0, of), of) for of in _whole(low, high)]
    if gradient is not None:
        parts.append(_line(x, gradient, low, high, place, "var(--site-second)", "6 4"))
    parts.append(_line(x, value, low, high, place, "var(--site-first)", ""))
    parts.append(text(MARGIN, 16, f"{name}(x)", anchor="start", colour="var(--site-first)"))
    if gradient is not None:
        words = "its derivative (dashed)"
        parts.append(text(CURVE_WIDTH - MARGIN, 16, words, anchor="end", colour="var(--site-second)"))
    title = f"The values of {name} for x from {x[0]:g} to {x[-1]:g}"
    return frame(CURVE_WIDTH, CURVE_HEIGHT, title + (", and its derivative" if gradient is not None else ""), parts)


def _whole(low: float, high: float) -> list[float]:
    """Return the whole numbers between two, without 0."""
    return [float(number) for number in range(math.ceil(low), math.floor(high) + 1) if number]


def _line(x: Array, y: Array, low: float, high: float, place: Any, colour: str, dashes: str) -> str:
    """Return a line through points, broken where they are beyond the picture or far apart."""
    path, before = "", None
    for at, of in zip(x, y, strict=True):
        inside = bool(np.isfinite(of)) and low <= of <= high
        jump = before is not None and abs(of - before) > 0.4 * (high - low)
        if inside:
            across, up = place(at, of)
            path += f"{'M' if before is None or jump else 'L'}{across:.1f} {up:.1f}"
        before = of if inside else None
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{path}" fill="none" stroke-width="2.2" style="stroke:{colour}"{dashed}/>'


def _axis(start: tuple[float, float], end: tuple[float, float]) -> str:
    ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    return f'<line {ends} style="stroke:var(--site-line)"/>'


def _tick(across: float, up: float, number: float) -> str:
    return _axis((across, up - 3), (across, up + 3)) + text(across, up + 16, f"{number:g}", colour="var(--site-line)")


def _tick_up(across: float, up: float, number: float) -> str:
    words = text(across - 7, up + 4, f"{number:g}", anchor="end", colour="var(--site-line)")
    return _axis((across - 3, up), (across + 3, up)) + words


# ----------------------------------------------------------------------------------------------------------------------
# Arrays


def flow(name: str, inputs: Sequence[tuple[str, Array, bool]], value: Array, framed: bool) -> str:
    """Draw arrays that go into an operation, and the one that comes out.

    Args:
        name: of the operation.
        inputs: name, values, and whether the first axis is the samples'.
        value: what comes out.
        framed: whether its first axis is the samples'.
    """
    blocks = [_block(label, array, has) for label, array, has in inputs]
    result = _block("result", value, framed)
    wide = max(width for width, _, _ in blocks)
    tall = sum(height for _, height, _ in blocks) + GAP * (len(blocks) - 1)
    height = max(tall, result[1]) + 16
    parts: list[str] = []
    top = 8 + (height - 16 - tall) / 2
    arrow = wide + 16
    middle = height / 2
    label = max(90, 8 * len(name) + 24)
    for width, high, drawn in blocks:
        parts.append(f'<g transform="translate({8 + wide - width:g} {top:g})">{drawn}</g>')
        parts.append(_axis((wide + 10, top + high / 2 + 8), (arrow + 14, middle)))
        top += high + GAP
    parts.append(_box(arrow + 14, middle - 15, label, name))
    after = arrow + 14 + label
    parts.append(_axis((after, middle), (after + 26, middle)))
    parts.append(f'<path d="M{after + 26:g} {middle:g}l-8 -4v8z" style="fill:var(--site-line)"/>')
    parts.append(f'<g transform="translate({after + 32:g} {(height - result[1]) / 2:g})">{result[2]}</g>')
    total = after + 40 + result[0]
    shapes = ", ".join(f"{each} {list(array.shape)}" for each, array, _ in inputs)
    return frame(total, height, f"{name} of {shapes} gives {list(value.shape)}", parts)


def _box(left: float, top: float, width: float, words: str) -> str:
    look = 'rx="6" style="fill:var(--site-fill);stroke:var(--site-line)"'
    return f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="30" {look}/>' + text(
        left + width / 2, top + 19, words
    )


def _block(label: str, array: Array, framed: bool) -> tuple[float, float, str]:
    """Return width, height and drawing of an array: its last two axes as a table, of further ones the first places."""
    planes = array.reshape((-1, *array.shape[-2:])) if array.ndim > 2 else array.reshape((1, *_two(array)))
    parts: list[str] = []
    top = 18.0
    for plane in planes[:MOST_PLANES]:
        for row, values in enumerate(plane[:MOST_ROWS]):
            for column, number in enumerate(values[:MOST_COLUMNS]):
                parts.append(_cell(column * CELL_WIDTH, top + row * CELL_HEIGHT, float(number), array))
        top += min(len(plane), MOST_ROWS) * CELL_HEIGHT + 6
    rows, columns = planes.shape[1:]
    cut = rows > MOST_ROWS or columns > MOST_COLUMNS or len(planes) > MOST_PLANES
    width = max(min(columns, MOST_COLUMNS) * CELL_WIDTH, 7.0 * len(_caption(label, array, framed, cut)))
    parts.append(text(0, 12, _caption(label, array, framed, cut), anchor="start"))
    return width, top, "".join(parts)


def _two(array: Array) -> tuple[int, int]:
    return (1, array.size) if array.ndim < 2 else (array.shape[0], array.shape[1])


def _caption(label: str, array: Array, framed: bool, cut: bool) -> str:
    shape = array.shape[1:] if framed else array.shape
    samples = f", {array.shape[0]} samples" if framed else ""
    return f"{label} {shape}{samples}{' (a part)' if cut else ''}"


def _cell(left: float, top: float, number: float, array: Array) -> str:
    finite = np.abs(array[np.isfinite(array)])
    most = float(finite.max(initial=0.0)) or 1.0
    strength = 0.5 * min(1.0, abs(number) / most) if np.isfinite(number) else 0.0
    colour = f"rgba(var(--site-{'plus' if number >= 0 else 'minus'}), {strength:.2f})"
    size = f'width="{CELL_WIDTH}" height="{CELL_HEIGHT}"'
    box = f'<rect x="{left:g}" y="{top:g}" {size} style="fill:{colour};stroke:var(--site-line)" stroke-width="0.5"/>'
    return box + text(left + CELL_WIDTH / 2, top + 16, short(number))


def short(number: float) -> str:
    """Return a number as a cell shows it."""
    rounded = f"{number:.2f}".rstrip("0").rstrip(".") if abs(number) < 1000 else f"{number:.3g}"
    return {"-0": "0"}.get(rounded, rounded)


# ----------------------------------------------------------------------------------------------------------------------
# Networks


def boxes(name: str, inputs: Sequence[str]) -> str:
    """Draw an operation with what goes into it, without values."""
    height = 44.0 * max(1, len(inputs))
    wide = max([90.0, *(8.0 * len(each) + 24 for each in inputs)])
    label = max(90.0, 8.0 * len(name) + 24)
    parts = []
    for number, each in enumerate(inputs):
        top = 7 + 44.0 * number
        parts += [_box(8, top, wide, each), _axis((8 + wide, top + 15), (8 + wide + 50, height / 2))]
    left = 8 + (wide + 50 if inputs else 0)
    parts.append(_box(left, height / 2 - 15, label, name))
    parts.append(_axis((left + label, height / 2), (left + label + 36, height / 2)))
    parts.append(f'<path d="M{left + label + 36:g} {height / 2:g}l-8 -4v8z" style="fill:var(--site-line)"/>')
    return frame(left + label + 44, height, f"{name} takes {', '.join(inputs) or 'nothing'}", parts)
