"""A network as an SVG picture: data flows from top to bottom, parameters stand in the box that uses them."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import attrs

from cntk_core.network.inference import is_delay
from cntk_core.network.network import Network
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.language.shapes import show
from cntk_kit_builders.arrange import Arrangement, Box, arrange
from cntk_kit_builders.collapse import collapse

_MARGIN = 24.0
_GAP = 28.0
_LAYER_GAP = 44.0
_PADDING = 12.0
_LONGEST = 34

_FONT = "font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\""


@attrs.frozen
class _Style:
    label: str
    fill: str
    stroke: str


_STYLES = {
    "feature": _Style("feature", "#dbeafe", "#2563eb"),
    "label": _Style("label", "#fef3c7", "#b45309"),
    "input": _Style("input", "#e0f2fe", "#0369a1"),
    "operation": _Style("operation", "#f8fafc", "#64748b"),
    "parameter": _Style("parameter", "#f1f5f9", "#94a3b8"),
    "placeholder": _Style("placeholder", "#fff7ed", "#c2410c"),
    "block": _Style("block", "#eef2ff", "#4338ca"),
    "precompute": _Style("computed before training", "#ccfbf1", "#0f766e"),
    "delay": _Style("delay", "#ede9fe", "#6d28d9"),
    "criterion": _Style("training criterion", "#fee2e2", "#b91c1c"),
    "evaluation": _Style("evaluation", "#fce7f3", "#be185d"),
    "output": _Style("output", "#dcfce7", "#15803d"),
}


@attrs.frozen
class _Line:
    text: str
    size: float
    weight: str
    color: str

    @property
    def width(self) -> float:
        return len(self.text) * self.size * 0.61  # a character of a monospace font is 0.6 em wide

    @property
    def height(self) -> float:
        return self.size * 1.42


@attrs.frozen(eq=False)
class _Figure:
    """A box to be drawn: its node and its lines of text."""

    node: Node
    style: _Style
    lines: tuple[_Line, ...]

    @property
    def width(self) -> float:
        return max(line.width for line in self.lines) + 2 * _PADDING

    @property
    def height(self) -> float:
        return sum(line.height for line in self.lines) + 2 * (_PADDING - 4)


def to_svg(network: Network, depth: int = 0) -> str:
    """Return the network as an SVG document.

    Boxes are coloured by role (a legend names the colours); long names are shortened, and a box's tooltip has it all.

    Args:
        network: what is drawn.
        depth: how far blocks are open, as in :func:`~cntk_kit_builders.collapse.collapse`: 0 draws each as one box.
    """
    network = collapse(network, depth)
    roles = {node: role for role in reversed(network.roots) for node in network.roots[role]}
    nodes = _drawn(network)
    figures = [_figure(node, roles.get(node)) for node in nodes]
    index = {node: position for position, node in enumerate(nodes)}
    edges, backward = _edges(nodes, index)
    arrangement = arrange([figure.width for figure in figures], edges, gap=_GAP, dummy=10.0)
    return _Picture(figures, arrangement, backward).svg()


def _drawn(network: Network) -> list[Node]:
    """All nodes but parameters that an operation uses, which stand in its box."""
    used = {child for node in network for child in node.inputs}
    return [node for node in network if not isinstance(node, Parameter) or node not in used]


def _figure(node: Node, role: str | None) -> _Figure:
    style = _STYLES[role or ("delay" if is_delay(node) else node.op.role)]
    shape = show(node.shape, framed=bool(node.framed)) if node.shape is not None else ""
    lines = [
        _Line(_shorten(node.name), 13.0, "600", "#0f172a"),
        _Line(f"{node.op.name} {shape}".strip(), 11.0, "400", style.stroke),
    ]
    for child in dict.fromkeys(node.inputs):
        if isinstance(child, Parameter):
            size = show(child.shape) if child.shape is not None else ""
            lines.append(_Line(f"{_shorten(child.name)} {size}".strip(), 10.5, "400", "#475569"))
    return _Figure(node, style, tuple(lines))


def _shorten(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2 - 1]}…{name[-_LONGEST // 2 :]}"


def _edges(nodes: list[Node], index: dict[Node, int]) -> tuple[list[tuple[int, int]], set[int]]:
    """Edges from an input down to its user; a delay's edge runs upward, so it is turned round and noted."""
    edges: dict[tuple[int, int], bool] = {}
    for node in nodes:
        for child in node.inputs:
            if child not in index:
                continue
            if is_delay(node):
                edges.setdefault((index[node], index[child]), True)
            else:
                edges.setdefault((index[child], index[node]), False)
    found = list(edges)
    return found, {position for position, edge in enumerate(found) if edges[edge]}


class _Picture:
    """Writes the SVG of an arrangement."""

    def __init__(self, figures: list[_Figure], arrangement: Arrangement, backward: set[int]) -> None:
        self.figures = figures
        self.arrangement = arrangement
        self.backward = backward
        self.tops: list[float] = []
        self.heights: list[float] = []
        top = _MARGIN
        for layer in arrangement.layers:
            height = max((self._figure_of(box).height for box in layer if box.item is not None), default=0.0)
            self.tops.append(top)
            self.heights.append(height)
            top += height + _LAYER_GAP
        self.bottom = top - _LAYER_GAP if arrangement.layers else top
        self.legend = [style for style in _STYLES.values() if any(figure.style is style for figure in figures)]

    def _figure_of(self, box: Box) -> _Figure:
        assert isinstance(box.item, int)
        return self.figures[box.item]

    def svg(self) -> str:
        """Return the document."""
        legend = self._legend_lines()
        width = max([self.arrangement.width, *(self._legend_width(row) for row in legend)]) + 2 * _MARGIN
        height = self.bottom + _MARGIN + 22.0 * len(legend) + 8
        shift = (width - self.arrangement.width) / 2
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" {_FONT}>',
            "<title>Network</title>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0.8 L7.5 4 L0 7.2 z" fill="#64748b"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<g transform="translate({shift:.1f} 0)">',
            *self._paths(),
            *(self._box(box) for layer in self.arrangement.layers for box in layer if box.item is not None),
            "</g>",
            *self._legend(legend, width),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _paths(self) -> Iterator[str]:
        for position, route in enumerate(self.arrangement.routes):
            mark = "marker-start" if position in self.backward else "marker-end"
            dash = ' stroke-dasharray="5 4"' if position in self.backward else ""
            yield (
                f'<path d="{self._curve(route)}" fill="none" stroke="#64748b" stroke-width="1.3"{dash} '
                f'{mark}="url(#arrow)"/>'
            )

    def _curve(self, route: tuple[Box, ...]) -> str:
        first, *middle, last = route
        x = first.x
        y = self._top_of(first) + self._figure_of(first).height
        text = f"M{x:.1f} {y:.1f}"
        for box in middle:
            top, bottom = self.tops[box.layer], self.tops[box.layer] + self.heights[box.layer]
            text += f" {_bend(x, y, box.x, top)} L{box.x:.1f} {bottom:.1f}"
            x, y = box.x, bottom
        return f"{text} {_bend(x, y, last.x, self._top_of(last))}"

    def _top_of(self, box: Box) -> float:
        """Boxes stand in the middle of their layer."""
        return self.tops[box.layer] + (self.heights[box.layer] - self._figure_of(box).height) / 2

    def _box(self, box: Box) -> str:
        figure = self._figure_of(box)
        left, top = box.x - figure.width / 2, self._top_of(box)
        inputs = ", ".join(child.name for child in figure.node.inputs)
        parts = [
            f"<g><title>{escape(figure.node.name)} = {escape(figure.node.op.name)}({escape(inputs)})</title>",
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{figure.width:.1f}" height="{figure.height:.1f}" rx="7" '
            f'fill="{figure.style.fill}" stroke="{figure.style.stroke}" stroke-width="1.3"/>',
        ]
        y = top + _PADDING - 4
        for line in figure.lines:
            parts.append(
                f'<text x="{box.x:.1f}" y="{y + line.size * 1.05:.1f}" font-size="{line.size}" '
                f'font-weight="{line.weight}" fill="{line.color}" text-anchor="middle">{escape(line.text)}</text>'
            )
            y += line.height
        return "".join([*parts, "</g>"])

    def _legend_lines(self) -> list[list[_Style]]:
        widest = max(self.arrangement.width, 420.0)
        rows: list[list[_Style]] = []
        for style in self.legend:
            if not rows or self._legend_width([*rows[-1], style]) > widest:
                rows.append([])
            rows[-1].append(style)
        return rows

    def _legend_width(self, row: list[_Style]) -> float:
        return sum(len(style.label) * 6.7 + 36 for style in row) - 16

    def _legend(self, rows: list[list[_Style]], width: float) -> Iterator[str]:
        for number, row in enumerate(rows):
            x = (width - self._legend_width(row)) / 2
            y = self.bottom + _MARGIN + 22.0 * number
            for style in row:
                yield (
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="12" height="12" rx="3" fill="{style.fill}" '
                    f'stroke="{style.stroke}"/><text x="{x + 18:.1f}" y="{y + 10:.1f}" font-size="11" '
                    f'fill="#334155">{escape(style.label)}</text>'
                )
                x += len(style.label) * 6.7 + 36


def _bend(x0: float, y0: float, x1: float, y1: float) -> str:
    middle = (y0 + y1) / 2
    return f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
