"""A profile as a flame graph: a bar for each part of a step, above it its lines of the recipe, above them its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import attrs

from cntk_core.api.engines import describe_step, places_of_step
from cntk_tool_inspect.timing.measure import Profile
from cntk_tool_inspect.timing.table import text_of

# Brendan Gregg, The Flame Graph, ACM Queue 14 (2), 2016: widths are times, what stands on a bar is a part of it.

_WIDTH, _ROW, _LETTER, _MARGIN = 1200, 20, 6.6, 10
_COLOURS = ("#e8e8e8", "#f2c28b", "#efb06a", "#f5dcb8")
"""Of the levels, from below: dark letters can be read on all of them."""


@attrs.define(eq=False)
class Bar:
    """A bar and those that stand on it.

    Attributes:
        text: what it is.
        title: the same in full, shown by a browser when the pointer is on it.
        seconds: its width; at least those of the bars on it.
        inner: the bars on it, by text.
    """

    text: str
    title: str = ""
    seconds: float = 0.0
    inner: dict[str, Bar] = attrs.field(factory=dict)

    def add(self, path: tuple[tuple[str, str], ...], seconds: float) -> None:
        """Add a time to this bar, and to those that a path of texts and titles leads over."""
        self.seconds += seconds
        if path:
            (text, title), *rest = path
            self.inner.setdefault(text, Bar(text, title)).add(tuple(rest), seconds)


def bars(profile: Profile) -> Bar:
    """Return the bars of a profile, the whole step at the bottom."""
    whole = Bar(f"a step of {profile.section}, engine={profile.engine}")
    for share in profile.shares:
        path = [(share.part, share.part)]
        if share.step is not None:
            places = places_of_step(share.step)
            if places:
                place = f"{Path(places[0].file).name}:{places[0].line}"
                path.append((place, f"{place}: {text_of(places[0].file, places[0].line)}"))
            path.append((describe_step(share.step), describe_step(share.step)))
        whole.add(tuple(path), share.seconds)
    return whole


def flame_graph(profile: Profile) -> str:
    """Return an SVG."""
    whole = bars(profile)
    levels = _height(whole)
    height = levels * _ROW + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" font-family="monospace" font-size="11">',
        f"<title>{escape(whole.text)}: {_amount(whole.seconds)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    scale = (_WIDTH - 2 * _MARGIN) / whole.seconds if whole.seconds else 0.0
    lines += _draw(whole, _MARGIN, 0, levels, scale, whole.seconds)
    return "\n".join([*lines, "</svg>", ""])


def _height(bar: Bar) -> int:
    return 1 + max(map(_height, bar.inner.values()), default=0)


def _draw(bar: Bar, left: float, level: int, levels: int, scale: float, whole: float) -> Iterator[str]:
    width = bar.seconds * scale
    if width < 0.5:  # half a dot cannot be seen
        return
    top = _MARGIN + (levels - 1 - level) * _ROW
    share = f"{100 * bar.seconds / whole:.1f} %"
    colour = _COLOURS[min(level, len(_COLOURS) - 1)]
    letters = int((width - 6) / _LETTER)
    text = bar.text if len(bar.text) <= letters else f"{bar.text[: letters - 2]}.." if letters > 4 else ""
    yield f"<g><title>{escape(bar.title or bar.text)}: {_amount(bar.seconds)}, {share}</title>"
    yield (
        f'<rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{_ROW - 1}" fill="{colour}" stroke="white" '
        'stroke-width="0.5"/>'
    )
    if text:
        yield f'<text x="{left + 3:.2f}" y="{top + 14}" fill="#222">{escape(text)}</text>'
    yield "</g>"
    inner: Mapping[str, Bar] = bar.inner
    for each in sorted(inner.values(), key=lambda one: -one.seconds):
        yield from _draw(each, left, level + 1, levels, scale, whole)
        left += each.seconds * scale


def _amount(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms"
