"""Draw Figure 3 of the paper on the search of learning rates, for digits: ``python figure.py``.

Trains with five strategies and five seeds (``--seeds``), writes ``run/results.json`` and ``figure.svg``, and prints
tables: the cross entropy that each training ends with, the epochs that it needs to a given one, the cost of the search.
With ``--draw`` the figure is drawn again from the results. ``--recipe digits.cntk+mnist.cntk`` takes the four IDX files
of MNIST, which lie beside the recipe. Needs scikit-learn and matplotlib.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

STRATEGIES = {
    "proposed": ("proposed search", "tab:blue"),
    "fixedSearch": ("fixed rate, searched", "tab:orange"),
    "bestRate": ("best rate", "tab:green"),
    "overUnchanged": ("better than rate 0", "tab:purple"),
    "noSearch": ("no search", "tab:red"),
}
TARGET = 0.05
"""Cross entropy to which epochs are counted."""

_EPOCH = re.compile(r"\[Training\] ce = ([\d.eE+-]+) .*learningRatePerSample = ([\d.eE+-]+);")

Result = dict[str, Any]


def train(recipe: str, strategy: str, seed: int, *more: str) -> Result:
    """Train; return cross entropies and rates by epoch, the number of trials, the seconds of searches and epochs."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "cntk_core",
        f"configFile={recipe}",
        f"strategy={strategy}",
        f"seed={seed}",
    ]
    log = subprocess.run([*command, *more], capture_output=True, text=True, check=True).stderr
    found = [(float(entropy), float(rate)) for entropy, rate in _EPOCH.findall(log)]
    return {
        "entropy": [entropy for entropy, _ in found],
        "rate": [rate for _, rate in found],
        "trials": log.count("Finished Mini-Epoch"),
        "searching": sum(map(float, re.findall(r"searchTime=([\d.e+-]+)s", log))),
        "learning": sum(map(float, re.findall(r"epochTime=([\d.e+-]+)s", log))),
    }


def run(recipe: str, seeds: int, *more: str) -> Result:
    """Train with all strategies and seeds."""
    results: dict[str, list[Result]] = {name: [] for name in STRATEGIES}
    for seed in range(1, seeds + 1):
        for name in STRATEGIES:
            rate = [f"fixedRate={results['proposed'][-1]['rate'][0]:.9g}"] if name == "fixedSearch" else []
            results[name].append(train(recipe, name, seed, *rate, *more))
            print(f"seed {seed}, {STRATEGIES[name][0]}: {results[name][-1]['entropy'][-1]:.5f}", flush=True)
    return results


def overhead(results: Result) -> float:
    """Return what the search costs, as a share of the time of the epochs."""
    runs = results["proposed"]
    return sum(run["searching"] for run in runs) / sum(run["learning"] for run in runs)


def epochs_to(entropies: list[float], target: float = TARGET) -> int | None:
    """Return after how many epochs the cross entropy was at most a target; None if it never was."""
    return next((index + 1 for index, entropy in enumerate(entropies) if entropy <= target), None)


def tables(results: Result) -> str:
    """Return the tables of the page, in Markdown."""
    seeds = len(results["proposed"])
    head = " | ".join(f"seed {seed + 1}" for seed in range(seeds))
    lines = [f"| cross entropy at the end | {head} |", "| --- |" + " --- |" * seeds]
    for name, (title, _) in STRATEGIES.items():
        lines.append(f"| {title} | " + " | ".join(f"{run['entropy'][-1]:.5f}" for run in results[name]) + " |")
    lines += ["", f"| epochs to {TARGET:g} | {head} |", "| --- |" + " --- |" * seeds]
    for name, (title, _) in STRATEGIES.items():
        counts = (epochs_to(run["entropy"]) for run in results[name])
        lines.append(f"| {title} | " + " | ".join(str(count or "never") for count in counts) + " |")
    epochs = sum(len(run["entropy"]) for run in results["proposed"])
    trials = sum(run["trials"] for run in results["proposed"]) / epochs
    lines += [
        "",
        f"Trials per epoch: {trials:.1f}. Searching takes {100 * overhead(results):.0f} % of the time of learning.",
    ]
    return "\n".join(lines)


def draw(results: Result, path: Path) -> None:
    """Draw the two panels: cross entropy and rate by epoch, a line for each seed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, (title, color) in STRATEGIES.items():
        for index, one in enumerate(results[name]):
            epochs = range(1, len(one["entropy"]) + 1)
            label = title if index == 0 else None
            panels[0].semilogy(epochs, one["entropy"], color=color, alpha=0.7, linewidth=1.2, label=label)
            panels[1].semilogy(epochs, one["rate"], color=color, alpha=0.7, linewidth=1.2, label=label)
    panels[0].set(title="(a) training set", xlabel="epoch", ylabel="cross entropy per sample")
    panels[1].set(title="(b) learning rate", xlabel="epoch", ylabel="learning rate per sample")
    panels[0].legend()
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> None:
    """Train, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--recipe", default="digits.cntk")
    parser.add_argument("--draw", action="store_true", help="only draw, from run/results.json")
    parser.add_argument("--figure", type=Path, default=Path("figure.svg"))
    parser.add_argument("more", nargs="*", help="values of the recipe, key=value")
    chosen = parser.parse_args(arguments)
    kept = Path("run/results.json")
    if chosen.draw:
        results = json.loads(kept.read_text(encoding="utf-8"))
    else:
        results = run(chosen.recipe, chosen.seeds, *chosen.more)
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(tables(results))
    draw(results, chosen.figure)


if __name__ == "__main__":
    main()
