"""Draw the pictures of explanations: ``python tools/drawings.py`` writes ``docs/drawings/*.svg``.

A drawing takes the colours of the light or dark scheme that its reader's system asks for; within the site, whose hooks
put it into the page, those of the site (``tools/docs_site/theme/assets/site.css``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "drawings"

NARROWEST = 480
"""Pixels below which a drawing is moved sideways within a narrow page, and not made smaller."""

COLOURS = {
    "text": ("--site-text", "#24292f", "#d5dbe3"),
    "line": ("--site-line", "#5b6570", "#9aa7b5"),
    "plain": ("--site-line", "#5b6570", "#9aa7b5"),
    "first": ("--site-first", "#1a5a96", "#8cc4ff"),
    "second": ("--site-second", "#a8480b", "#ffb27a"),
    "third": ("--site-third", "#2e7031", "#8fd694"),
}
"""What a part of a drawing may be called: the site's variable, and what it is without, light and dark."""


def style() -> str:
    """Return the rules for the colours."""
    light = "".join(f".{name}{{--c:var({variable},{colour})}}" for name, (variable, colour, _) in COLOURS.items())
    dark = "".join(f".{name}{{--c:var({variable},{colour})}}" for name, (variable, _, colour) in COLOURS.items())
    shapes = "text{fill:var(--c);font:13px sans-serif}.f{fill:var(--c)}.s{stroke:var(--c);fill:none;stroke-width:1.5}"
    shapes += ".w{fill:var(--c);fill-opacity:.16;stroke:var(--c)}.d{stroke-dasharray:5 4}"
    return f"<style>{shapes}{light}@media(prefers-color-scheme:dark){{{dark}}}</style>"


def drawing(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """Return a drawing with a title for those who do not see it."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" role="img" viewBox="0 0 {width} {height}"'
    size = f' width="{width}" height="{height}" style="min-width:{min(width, NARROWEST)}px"'
    return f"{head}{size}><title>{escape(title)}</title>{style()}\n" + "\n".join(parts) + "\n</svg>\n"


def words(x: float, y: float, text: str, colour: str = "text", anchor: str = "start") -> str:
    """Return a line of text."""
    return f'<text x="{x:g}" y="{y:g}" class="{colour}" text-anchor="{anchor}">{escape(text)}</text>'


def box(x: float, y: float, width: float, height: float, text: str, colour: str = "first") -> str:
    """Return a box with words in its middle."""
    shape = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="w {colour}"/>'
    return shape + words(x + width / 2, y + height / 2 + 4.5, text, "text", "middle")


def arrow(x: float, y: float, to_x: float, to_y: float, colour: str = "line", dashed: bool = False) -> str:
    """Return an arrow."""
    length = float(np.hypot(to_x - x, to_y - y))
    along = ((to_x - x) / length, (to_y - y) / length)
    back = (to_x - 8 * along[0], to_y - 8 * along[1])
    sides = [(back[0] - 4 * s * along[1], back[1] + 4 * s * along[0]) for s in (1, -1)]
    head = f"M{to_x:.1f} {to_y:.1f}L{sides[0][0]:.1f} {sides[0][1]:.1f}L{sides[1][0]:.1f} {sides[1][1]:.1f}z"
    line = f'<path d="M{x:g} {y:g}L{back[0]:.1f} {back[1]:.1f}" class="s {colour}{" d" if dashed else ""}"/>'
    return line + f'<path d="{head}" class="f {colour}"/>'


# ----------------------------------------------------------------------------------------------------------------------


def packed_sequences() -> str:
    """Three sequences of different lengths, and the rows of the minibatch in which they lie."""
    lengths = {"A": (4, "first"), "B": (2, "second"), "C": (3, "third")}
    parts = [words(10, 20, "three sequences"), words(330, 20, "time steps, the longest sequence first")]
    for row, (name, (length, colour)) in enumerate(lengths.items()):
        parts += [box(10 + 50 * step, 34 + 40 * row, 46, 30, f"{name}{step + 1}", colour) for step in range(length)]
    column = 330.0
    order: list[tuple[str, str]] = []
    for step in range(4):
        parts.append(words(column + 23, 174, f"step {step + 1}", "line", "middle"))
        longest = sorted(lengths.items(), key=lambda item: -item[1][0])
        there = [(name, colour) for name, (length, colour) in longest if step < length]
        for row, (name, colour) in enumerate(there):
            parts.append(box(column, 34 + 40 * row, 46, 30, f"{name}{step + 1}", colour))
            order.append((f"{name}{step + 1}", colour))
        column += 60
    parts += [arrow(230, 90, 316, 90), arrow(430, 186, 430, 216), words(10, 240, "rows of one matrix:")]
    parts += [box(150 + 46 * place, 222, 44, 30, name, colour) for place, (name, colour) in enumerate(order)]
    parts.append(
        words(10, 284, "A product with weights is one for all nine rows; a loop takes the three rows of step 1, then")
    )
    parts.append(words(10, 302, "those of step 2, and so on. Nothing is computed for places where no frame is."))
    return drawing(620, 314, "Frames of three sequences, put beside each other step by step", parts)


def plan() -> str:
    """The network of the digits and the steps of its plan."""
    nodes = [
        ("features", "plain"), ("normalized", "first"), ("W0 · x", "first"), ("+ B0", "first"), ("Sigmoid", "first"),
        ("W1 · h", "first"), ("+ B1", "first"), ("criterion", "second"),
    ]  # fmt: skip
    parts = [words(10, 20, "network: nodes"), words(235, 20, "plan: steps in order"), words(510, 20, "buffers")]
    for row, (name, colour) in enumerate(nodes):
        top = 34 + 40 * row
        parts.append(box(10, top, 110, 28, name, colour))
        if row:
            parts.append(arrow(65, top - 12, 65, top))
    steps = [
        (1, 1, "0  normalize", "b0"), (2, 2, "1  product", "b1"), (3, 4, "2  fused: plus, sigmoid", "b1 again"),
        (5, 5, "3  product", "b2"), (6, 6, "4  plus", "b2 again"), (7, 7, "5  criterion", "b3"),
    ]  # fmt: skip
    for first, last, name, buffer in steps:
        top, bottom = 34 + 40 * first, 34 + 40 * last + 28
        parts += [box(235, top, 200, bottom - top, name, "third"), box(510, top, 90, bottom - top, buffer, "plain")]
        parts += [
            arrow(124, top + 14, 228, (top + bottom) / 2),
            arrow(440, (top + bottom) / 2, 504, (top + bottom) / 2),
        ]
    parts += [
        arrow(335, 366, 335, 388, "second"),
        box(185, 392, 300, 28, "gradients: 5 steps, the other way", "second"),
    ]
    parts.append(
        words(10, 446, "The gradient of the sigmoid's input takes b1 once more: its value is not read any longer.")
    )
    return drawing(620, 458, "Nodes of a network, the steps of its plan, and the buffers that they share", parts)


COLUMN = (0.9, -0.2, 0.4, -1.1, 0.1, -0.5)
"""A column of a gradient, as it is quantized in the drawing."""


def one_bit() -> str:
    """A column of a gradient: what is sent of it, and what is kept."""
    v = np.array(COLUMN)
    bits = v >= 0
    high, low = v[bits].mean(), v[~bits].mean()
    stands = np.where(bits, high, low)
    rows = [
        ("v = gradient + what was kept", v, "first"),
        ("bits: is v >= 0?", bits.astype(int), "plain"),
        ("what they stand for", stands, "third"),
        ("kept: v minus that", v - stands, "second"),
    ]
    parts: list[str] = []
    for row, (name, values, colour) in enumerate(rows):
        top = 14 + 56 * row
        parts.append(words(10, top + 20, name))
        texts = [f"{value:d}" if colour == "plain" else f"{value:+.2f}" for value in values]
        parts += [box(225 + 60 * place, top, 56, 30, text, colour) for place, text in enumerate(texts)]
    parts += [arrow(400, 46, 400, 66), arrow(400, 102, 400, 122), arrow(400, 158, 400, 178)]
    parts.append('<path d="M590 197H608V29H596" class="s second d"/><path d="M588 29l8-4v8z" class="f second"/>')
    parts.append(
        words(
            10,
            254,
            f"Sent: six bits and the two means, {high:+.3f} and {low:+.3f}. In full precision: six numbers of 32 bits.",
        )
    )
    parts.append(
        words(10, 272, "What is kept is added to the next gradient (dashed), so nothing is lost, it only comes later.")
    )
    return drawing(
        620, 284, "A column of a gradient becomes bits and two means; the rest is kept for the next one", parts
    )


def block_momentum() -> str:
    """Three workers that train alone for a block, and the step of the common model."""
    parts: list[str] = []
    for block, left in enumerate((10, 310)):
        parts.append(words(left + 80, 20, f"block {block + 1}: each trains alone", "line"))
        for worker, name in enumerate(("worker 1", "worker 2", "worker 3")):
            top = 34 + 44 * worker
            parts.append(box(left + 90, top, 130, 30, name, "first"))
            parts += [arrow(left + 62, 93, left + 88, top + 15), arrow(left + 222, top + 15, left + 250, 93)]
    parts += [box(10, 72, 62, 42, "W", "third"), box(262, 72, 110, 42, "mean, step", "second")]
    parts.append(box(562, 72, 110, 42, "mean, step", "second"))
    parts.append(
        '<path d="M317 116C317 190 617 190 617 122" class="s second d"/><path d="M617 114l-4 8h8z" class="f second"/>'
    )
    parts.append(words(467, 190, "velocity: goes on from block to block", "second", "middle"))
    lines = (
        "At the end of a block G is the mean of W - Wᵢ: how far the workers went, on average.",
        "It is taken for a gradient: V = b V + r G, then W = W - V.",
        "Without b this is averaging of models; with b = 1 - 1/n all n blocks count in full.",
    )
    parts += [words(10, 222 + 20 * number, line) for number, line in enumerate(lines)]
    return drawing(
        690, 274, "Workers train alone for a block; then the model moves by their mean, with momentum", parts
    )


def configuration() -> str:
    """The parts of a recipe inside each other, from where a value is looked for, and what wins."""
    parts = [
        words(10, 20, "where minibatchSize is looked for"),
        words(392, 20, "what is read first, and what wins"),
        '<rect x="10" y="34" width="350" height="230" rx="6" class="w plain"/>',
        words(22, 56, "top level:  minibatchSize = 256"),
        '<rect x="34" y="70" width="314" height="180" rx="6" class="w first"/>',
        words(46, 92, "Train = [ ... ]"),
        box(58, 106, 200, 58, "SGD = [ maxEpochs = 10 ]", "third"),
        box(58, 178, 200, 58, "reader = [ file = ... ]", "third"),
        arrow(268, 135, 308, 100, "second"),
        words(270, 160, "not here,", "second"),
        words(270, 176, "nor in Train", "second"),
        arrow(312, 92, 312, 58, "second"),
    ]
    order = [
        ("default of the key", "plain"),
        ("first.cntk", "first"),
        ("second.cntk", "first"),
        ("Train=[SGD=[maxEpochs=2]]", "second"),
    ]
    for row, (name, colour) in enumerate(order):
        top = 34 + 60 * row
        parts.append(box(392, top, 216, 36, name, colour))
        if row:
            parts.append(arrow(500, top - 22, 500, top - 2))
    lines = (
        "A key that a block lacks is taken from the block around it, up to the top level.",
        "Each file and argument is laid over those before it: a value replaces a value, a section is merged into",
        "a section. Then $names$ are filled in: with the top level's value first, then from inside out.",
    )
    parts += [words(10, 294 + 20 * number, line) for number, line in enumerate(lines)]
    return drawing(660, 346, "Blocks inside each other, and files and arguments laid over each other", parts)


def recipe() -> str:
    """The way of a recipe: configuration, network, plan, run."""
    steps = [
        ("files, arguments", "first", "text: recipe.cntk, key=value", ""),
        ("configuration", "first", "each value with the line it came from", "cntk config show"),
        ("network", "third", "a builder makes nodes of its block", "cntk plot, cntk dump"),
        ("plan", "third", "steps in order, buffers, gradients", "cntk explain"),
        ("run", "second", "an engine, a reader, a learner", "cntk train"),
        ("model, log", "second", "models of epochs, checkpoints, log", "cntk plot-log"),
    ]
    parts = [
        words(10, 20, "what there is"),
        words(190, 20, "what it consists of"),
        words(466, 20, "the command that shows it"),
    ]
    for row, (name, colour, what, command) in enumerate(steps):
        top = 34 + 52 * row
        parts += [
            box(10, top, 150, 34, name, colour),
            words(190, top + 22, what),
            words(466, top + 22, command, "first"),
        ]
        if row:
            parts.append(arrow(85, top - 16, 85, top - 2))
    lines = (
        "What is wrong is told before a run begins: in the text by line and column, in blocks by the keys that they",
        "know, in the network by its shapes. Reader, builder, engine and learner are plugins that the blocks name.",
    )
    parts += [words(10, 366 + 20 * number, line) for number, line in enumerate(lines)]
    return drawing(660, 396, "How a recipe becomes configuration, network, plan and run", parts)


DRAWINGS: dict[str, Callable[[], str]] = {
    "packed-sequences.svg": packed_sequences,
    "plan.svg": plan,
    "one-bit.svg": one_bit,
    "block-momentum.svg": block_momentum,
    "configuration.svg": configuration,
    "recipe.svg": recipe,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
