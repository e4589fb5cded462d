"""Show how often the network read before it answered, by how far the way is: a table, and run/readings.png.

python readings.py

The picture needs matplotlib: pip install "cntk-core[plot]".
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Answer(NamedTuple):
    """Edges of the shortest way (0: there is none), whether the answer was right, the mean number of readings."""

    distance: int
    right: bool
    readings: float


def numbers_in(path: Path) -> list[list[float]]:
    """Return the numbers of each line."""
    return [[float(text) for text in line.split()] for line in path.read_text(encoding="utf-8").splitlines() if line]


def answers_in(folder: Path, run: str) -> list[Answer]:
    """Read what a model answered to the questions of the test."""
    distances = [int(number) for (number,) in numbers_in(folder / "test.txt")]
    said, chances = (numbers_in(folder / "run" / run / f"out.{node}") for node in ("p", "chances"))
    return [
        Answer(distance, (yes > no) == (distance > 0), sum(place * chance for place, chance in enumerate(each, 1)))
        for distance, (no, yes), each in zip(distances, said, chances, strict=True)
    ]


def mean(numbers: list[float]) -> float:
    """Return the mean."""
    return sum(numbers) / len(numbers)


def table(folder: Path) -> dict[str, dict[int, tuple[float, float]]]:
    """Return for each model in ``run`` the percentage of mistakes and the mean number of readings, by distance."""
    found = {}
    for run in sorted(path.parent.name for path in folder.glob("run/*/out.p")):
        answers = answers_in(folder, run)
        groups = {key: [one for one in answers if one.distance == key] for key in sorted({a.distance for a in answers})}
        found[run] = {
            key: (100 * mean([not one.right for one in group]), mean([one.readings for one in group]))
            for key, group in groups.items()
        }
    return found


def draw(found: dict[str, dict[int, tuple[float, float]]], path: Path) -> None:
    """Draw readings and mistakes against the distance."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    for place, (panel, title) in enumerate(zip(figure.subplots(1, 2), ("mistakes in %", "readings"), strict=True)):
        for run, rows in found.items():
            panel.plot(range(len(rows)), [row[place] for row in rows.values()], marker="o", label=run)
            panel.set_xticks(range(len(rows)), [str(key) if key else "no way" for key in rows])
        panel.set_xlabel("edges of the shortest way")
        panel.set_title(title)
        panel.legend()
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=100)


def main(folder: Path) -> None:
    """Print the table, and draw it where matplotlib is."""
    found = table(folder)
    for run, rows in found.items():
        print(f"{run:12}" + "".join(f"{f'{key} edge' + 's' * (key > 1) if key else 'no way':>10}" for key in rows))
        print(f"  mistakes %{''.join(f'{mistakes:10.1f}' for mistakes, _ in rows.values())}")
        print(f"  readings  {''.join(f'{readings:10.2f}' for _, readings in rows.values())}")
    if found and find_spec("matplotlib"):
        draw(found, folder / "run" / "readings.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
