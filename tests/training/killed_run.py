"""A training that is killed.

``killed_run.py train FOLDER EPOCHS`` trains until somebody kills it. ``killed_run.py crash FOLDER STEPS`` trains once
for each operation on files, ends there as a power cut would, goes on, and prints the results.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from small import make_network, make_session

KILLED = 9


def train(folder: Path, epochs: int) -> None:
    """Train a network with dropout, momentum and a value computed beforehand."""
    make_session(
        folder,
        max_epochs=epochs,
        network=lambda: make_network(normalized=True, dropout=True),
        dropout_rate=0.25,
        gaussian_noise_inject_std=0.01,
        minibatch_size=22,
    ).run()


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


def crash(folder: Path, epochs: int, steps: int) -> None:
    """Print, for every operation on files, the fingerprint of a run that was cut off there and then went on."""
    operation = 1
    while True:
        target = folder / str(operation)
        child = os.fork()
        if child == 0:
            die_at(operation)
            train(target, epochs)
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
        train(target, epochs)
        print(operation, int(killed), digest(target), flush=True)
        if not killed:
            return
        operation += steps


if __name__ == "__main__":
    FOLDER = sys.argv[2]
    if sys.argv[1] == "crash":
        crash(Path(FOLDER), epochs=2, steps=int(sys.argv[3]))
    else:
        train(Path(FOLDER), epochs=int(sys.argv[3]))
