"""A training that is killed.

``killed_run.py FOLDER STEPS RECIPE`` trains once for each operation on files (or each few), ends there as a power cut
would, goes on, and prints the results.
"""

from __future__ import annotations

import hashlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from small import Lines, make_network, make_session

from cntk_core.config import Schedule
from cntk_core.training.rates.auto_adjust import AutoAdjust

KILLED = 9
CRASH_EPOCHS = {"plain": 2, "inside": 2, "search": 3, "sizes": 3, "after": 6, "interval": 6}


SAMPLES = Schedule.constant(16)
RECIPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "search": {
        "auto_adjust": AutoAdjust(auto_adjust_lr="before", num_samples4_search=SAMPLES),
        "momentum_per_mb": 0.0,
        "dropout_rate": 0.0,
    },
    "sizes": {
        "auto_adjust": AutoAdjust(
            auto_adjust_minibatch=True, num_samples4_search=SAMPLES, minibatch_search_criterion_error_margin=50.0
        ),
        "minibatch_size": 4,
    },
    "inside": {"checkpoint_every_samples": 22},
    "after": {
        "checkpoint_every_samples": 22,
        "auto_adjust": AutoAdjust(auto_adjust_lr="after", learn_rate_decrease_factor=0.25),
        "learning_rates_per_sample": 0.5,
        "momentum_per_mb": 0.0,
    },
    "interval": {
        "auto_adjust": AutoAdjust(
            auto_adjust_lr="after", learn_rate_decrease_factor=0.125, learn_rate_adjust_interval=2
        ),
        "learning_rates_per_sample": 1.5,
        "momentum_per_mb": 0.0,
    },
}


def train(folder: Path, epochs: int, recipe: str = "plain", lines: Lines | None = None) -> None:
    """Train a network with dropout, momentum and a value computed beforehand."""
    given: dict[str, Any] = {"dropout_rate": 0.25, "gaussian_noise_inject_std": 0.01, "minibatch_size": 22}
    network = partial(make_network, normalized=True, dropout=True)
    make_session(folder, lines, max_epochs=epochs, network=network, **{**given, **RECIPES[recipe]}).run()


def digest(folder: Path) -> str:
    """Fingerprint of the final model."""
    return hashlib.sha256((folder / "net.dnn").read_bytes()).hexdigest()


def die_at(operation: int) -> None:
    """End this process at the n-th operation on files from now on, before it happens."""
    count = 0

    def counted(name: str, given: object) -> None:
        nonlocal count
        if name in (
            "open",
            "os.rename",
            "os.remove",
            "os.mkdir",
            "os.rmdir",
            "shutil.rmtree",
            "os.listdir",
            "os.scandir",
        ):
            if name == "open" and not str(given[0]).startswith(FOLDER):  # type: ignore[index]
                return
            count += 1
            if count == operation:
                os._exit(KILLED)

    sys.addaudithook(counted)


def crash(folder: Path, epochs: int, steps: int, recipe: str) -> None:
    """Print, for every operation on files, the fingerprint of a run that was cut off there and then went on."""
    operation = 1
    while True:
        target = folder / str(operation)
        child = os.fork()
        if child == 0:
            die_at(operation)
            train(target, epochs, recipe)
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
        train(target, epochs, recipe)
        print(operation, int(killed), digest(target), flush=True)
        if not killed:
            return
        operation += steps


if __name__ == "__main__":
    FOLDER = sys.argv[1]
    crash(Path(FOLDER), CRASH_EPOCHS[sys.argv[3]], int(sys.argv[2]), sys.argv[3])
