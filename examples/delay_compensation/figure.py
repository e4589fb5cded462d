"""Compare asynchronous SGD with and without delay compensation to serial training: ``python figure.py``.

Trains with 4, 8 and 16 workers, which are threads of this process, and three seeds (``--seeds``); writes
``run/results.json`` and ``figure.svg``, and prints a table. With ``--draw`` the figure is drawn again from the results.
Needs scikit-learn (for the data) and matplotlib.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from statistics import mean
from typing import Any

MODES = {
    "none": ("asynchronous", "tab:red"),
    "constant": ("compensated, constant", "tab:orange"),
    "adaptive": ("compensated, adaptive", "tab:blue"),
}
SERIAL = ("serial", "black")
WORKERS = (4, 8, 16)
SAMPLES = 8
"""Of a worker's minibatch."""

DIGITS, SECONDS = 1347, 0.001
"""Samples of an epoch, and what one takes on average in the recipe's simulated time; serial training has no clock."""

_TRAINED = re.compile(r"Finished Epoch\[.*\[Training\] ce = ([\d.eE+-]+|-?nan|inf)", re.IGNORECASE)
_TESTED = re.compile(r"\[Validate\].* errs = ([\d.]+)%")
_TIME = re.compile(r"simulated time ([\d.]+) s")

Result = dict[str, list[float]]


def curves(log: str) -> Result:
    """Return by epoch what a log says: training cross entropy, test error in percent, simulated seconds at the end."""
    found: Result = {"entropy": [], "error": [], "seconds": []}
    now = 0.0
    for line in log.splitlines():
        if match := _TIME.search(line):
            now = float(match[1])
        if match := _TRAINED.search(line):
            found["entropy"].append(float(match[1]))
            found["seconds"].append(now)
        if match := _TESTED.search(line):
            found["error"].append(float(match[1]))
    return found


def train(workers: int, mode: str, seed: int, *more: str) -> Result:
    """Train; one worker is serial training."""
    from cntk_kit_recipes.recipe.driver import run_recipe
    from cntk_kit_recipes.recipe.log import Log
    from cntk_testing import VirtualRanks

    class Kept(Log):
        """Keeps its lines."""

        def __init__(self) -> None:
            super().__init__(quiet=True)
            self.lines: list[str] = []

        def plain(self, text: str = "") -> None:
            """Keep a line."""
            self.lines.append(text)

    logs = [Kept() for _ in range(workers)]
    recipe = ["configFile=digits.cntk", f"workers={workers}", f"minibatch={SAMPLES * workers}", f"seed={seed}"]
    recipe += [f"compensation={mode}", *more]

    def work(communicator: Any) -> None:
        run_recipe(recipe, logs[communicator.rank], communicator=communicator)

    VirtualRanks(workers, deadline=3600).run(work)
    found = curves("\n".join(logs[0].lines))
    if workers == 1:
        found["seconds"] = [DIGITS * SECONDS * (epoch + 1) for epoch in range(len(found["entropy"]))]
    return found


def run(seeds: int, *more: str) -> dict[str, list[Result]]:
    """Train in all ways and with all seeds; results by workers and mode."""
    jobs = [(1, "none"), *((workers, mode) for workers in WORKERS for mode in MODES)]
    results: dict[str, list[Result]] = {f"{workers} {mode}": [] for workers, mode in jobs}
    for seed in range(1, seeds + 1):
        for workers, mode in jobs:
            found = train(workers, mode, seed, *more)
            results[f"{workers} {mode}"].append(found)
            print(f"seed {seed}, {workers} workers, {mode}: {found['error'][-1]:.2f} % errors", flush=True)
    return results


def table(results: dict[str, list[Result]]) -> str:
    """Return the table of the page, in Markdown: means over the seeds after the last epoch."""
    lines = ["| workers | | training cross entropy | test errors | simulated time |", "| --- | --- | --- | --- | --- |"]
    for name, runs in results.items():
        workers, mode = name.split()
        title = SERIAL[0] if workers == "1" else MODES[mode][0]
        entropy, error, seconds = (mean(one[key][-1] for one in runs) for key in ("entropy", "error", "seconds"))
        lines.append(f"| {workers} | {title} | {entropy:.4f} | {error:.2f} % | {seconds:.2f} s |")
    return "\n".join(lines)


def draw(results: dict[str, list[Result]], path: Path) -> None:
    """Draw accuracy over epochs (above) and over simulated time (below), one column for each number of workers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, len(WORKERS), figsize=(12, 7), sharey=True, layout="constrained")
    for column, workers in enumerate(WORKERS):
        above, below = panels[0][column], panels[1][column]
        lines = [("1 none", *SERIAL), *((f"{workers} {mode}", *style) for mode, style in MODES.items())]
        for name, title, color in lines:
            accuracy = [100 - mean(values) for values in zip(*(one["error"] for one in results[name]), strict=True)]
            seconds = [mean(values) for values in zip(*(one["seconds"] for one in results[name]), strict=True)]
            above.plot(range(1, len(accuracy) + 1), accuracy, color=color, label=title)
            below.plot(seconds, accuracy, color=color, label=title)
        above.set(title=f"{workers} workers", xlabel="epoch")
        below.set(xlabel="simulated seconds", xscale="log")
    for row in panels:
        row[0].set(ylabel="correct on the test set, %", ylim=(88, 98.5))
    panels[0][0].legend()
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> None:
    """Train, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draw", action="store_true", help="only draw, from run/results.json")
    parser.add_argument("--figure", type=Path, default=Path("figure.svg"))
    parser.add_argument("more", nargs="*", help="values of the recipe, key=value")
    chosen = parser.parse_args(arguments)
    kept = Path("run/results.json")
    if chosen.draw:
        results = json.loads(kept.read_text(encoding="utf-8"))
    else:
        results = run(chosen.seeds, *chosen.more)
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(table(results))
    draw(results, chosen.figure)


if __name__ == "__main__":
    main()
