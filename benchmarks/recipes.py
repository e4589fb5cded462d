"""Time whole trainings, from the start of the process to the saved model, beside PyTorch's and the original's.

The data is made up, in the shapes and formats that people have (``end_to_end/data.py``). Each training is a process of
its own with one thread. The figure is the CPU time of the process and of those that it starts, which other load on the
machine disturbs least: ``cold`` is the first run of each, with an empty cache of compiled code, ``warm`` the least of
some rounds, all candidates in turn.

    python benchmarks/recipes.py [--recipe mlp tagger ...] [--rounds 3] [--peer-python PYTHON] [--original PYTHON]
        [--folder F] [--json F]

Peers whose interpreter is not named or that fail are left out, and named.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
from end_to_end import data

HERE = Path(__file__).resolve().parent / "end_to_end"
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@attrs.frozen
class Recipe:
    """A training.

    Attributes:
        recipe: its file, without ``.cntk``, and what the peers call it.
        make: makes its data in a folder.
        epochs: how long it trains.
        settings: further keys.
    """

    recipe: str
    make: Callable[[Path], None]
    epochs: int
    settings: tuple[tuple[str, str], ...] = ()


RECIPES = {
    "mlp": Recipe("mlp", data.digits, 5, (("scale", "0.00390625"),)),
    "mlp-saturated": Recipe("mlp", data.digits, 5, (("scale", "1"),)),
    "speech": Recipe("speech", data.speech, 3),
    "speech-lstm": Recipe("speech_lstm", data.utterances, 2),
    "tagger": Recipe("tagger", data.sentences, 1),
    "words": Recipe("words", data.words, 1),
    "images": Recipe("images", data.images, 2),
}


@attrs.frozen
class Spent:
    """What a process cost, in seconds, and the last lines that it wrote."""

    cpu: float
    wall: float
    said: str
    status: int


def measure(command: Sequence[str], folder: Path, **variables: str) -> Spent:
    """Run a command, and return the CPU time of it and of all processes that it waited for."""
    begin = time.perf_counter()
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **THREADS, **variables}, stdout=log, stderr=log
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    said = "\n".join((folder / "log.txt").read_text(errors="replace").splitlines()[-4:])
    return Spent(usage.ru_utime + usage.ru_stime, time.perf_counter() - begin, said, process.returncode)


def commands(recipe: Recipe, folder: Path, pythons: dict[str, str]) -> dict[str, list[str]]:
    """Return the command of each candidate."""
    keys = [
        f"{key}={value}" for key, value in (("folder", str(folder)), ("epochs", str(recipe.epochs)), *recipe.settings)
    ]
    start = "import sys; from cntk_kit_recipes.cli import main; sys.exit(main())"
    found = {"ours": [sys.executable, "-c", start, f"configFile={HERE / recipe.recipe}.cntk", *keys]}
    for name, python in pythons.items():
        values = [value for _, value in recipe.settings]
        found[name] = [python, str(HERE / f"{name}_peer.py"), recipe.recipe, str(folder), str(recipe.epochs), *values]
    return found


def compare(recipe: Recipe, folder: Path, pythons: dict[str, str], rounds: int) -> dict[str, float]:
    """Return the CPU seconds of ours, cold and warm, and of each peer."""
    recipe.make(folder)
    candidates = commands(recipe, folder, pythons)
    cache = folder / "cache"
    least: dict[str, float] = {}
    for number in range(rounds + 1):
        for name, command in list(candidates.items()):
            shutil.rmtree(folder / "model", ignore_errors=True)
            spent = measure(command, folder, CNTK_CACHE=str(cache))
            if spent.status:
                print(f"left out: {name} (exit status {spent.status})\n{spent.said}", flush=True)
                del candidates[name]
                continue
            # The first run of each finds nothing compiled, and its files not in memory.
            column = f"{name} cold" if number == 0 else f"{name} warm"
            least[column] = min(least.get(column, spent.cpu), spent.cpu)
    return least


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description="Whole trainings, ours and others'.")
    parser.add_argument("--recipe", nargs="*", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-python", help="an interpreter that has PyTorch and pandas")
    parser.add_argument("--original", help="an interpreter that has the original, release 2.7")
    parser.add_argument("--folder", type=Path, help="where data is made; a folder of the system's if not given")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    pythons = {"torch": given.peer_python, "original": given.original}
    pythons = {name: python for name, python in pythons.items() if python}
    results = {}
    for name in given.recipe:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            results[name] = compare(RECIPES[name], Path(folder), pythons, given.rounds)
        ours = results[name].get("ours warm", float("nan"))
        parts = [f"{column} {seconds:.2f} s ({seconds / ours:.2f})" for column, seconds in results[name].items()]
        print(f"{name}: {', '.join(parts)}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
