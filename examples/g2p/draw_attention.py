"""Draw which letters the decoder attends to when it gives a phone, for some words: run/attention/window.png.

python draw_attention.py [WORD ...]

Needs matplotlib: pip install "cntk-core[plot]".
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
END = "</s>"


def read_windows(path: Path) -> list[list[list[float]]]:
    """Return for each word the weights of its letters, from the last to the first, at each phone."""
    words: list[list[list[float]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        weights = [float(weight) for weight in line.split()]
        if len(weights) > 1:
            words[-1].append(weights)
        else:  # the number of the word stands before it
            words.append([])
    return words


def windows_of(folder: Path) -> dict[str, tuple[list[str], list[list[float]]]]:
    """Return for each word its phones with the end, and the weights of its letters with the end, first to last."""
    tested = [line.split("\t") for line in (folder / "test.txt").read_text(encoding="utf-8").splitlines()]
    windows = read_windows(folder / "run" / "attention" / "window.decoder.aux.attentionWeights.P")
    found = {}
    for (word, phones), rows in zip(tested, windows, strict=True):
        # The window begins at the last letter and goes back; beyond the first one weights are 0.
        found[word] = ([*phones.split(), END], [row[len(word) :: -1] for row in rows])
    return found


def draw(folder: Path, words: list[str]) -> Path:
    """Draw one picture with a panel for each word and return its path."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    windows = windows_of(folder)
    chosen = words or sorted(windows, key=len)[-3:]
    figure = Figure(figsize=(4.5 * len(chosen), 4.5), layout="constrained")
    for panel, word in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen, strict=True):
        phones, rows = windows[word]
        panel.imshow(rows, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        panel.set_xticks(range(len(word) + 1), [*word, END])
        panel.set_yticks(range(len(phones)), phones)
        panel.set_title(word)
    path = folder / "run" / "attention" / "window.png"
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=100)
    return path


if __name__ == "__main__":
    print(draw(HERE, sys.argv[1:]))
