"""Let ranks fail in elastic trainings, and compare what the others make of it, byte by byte, with a restart.

    python tools/trials elastic --faults 40
    python tools/trials elastic --faults 5 --way mpi --strategy one-bit --fault stop --keep FOLDER

Each fault is a run of ``cntk train -n --elastic`` with a strategy and a number of ranks. One rank, of three and more
perhaps a second one later, is killed, stopped, told to end, exits or raises an error at one of its steps. Then

- the run must end with status 0 and the mark of completion, in time, and its log must name the ranks;
- virtual ranks, as many as are left, that go on from the checkpoint that the log names must come to the same model.

The exit status is 1 if one has not. Needs Linux, and MPI with ULFM or sockets.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import attrs
from figures import Figure, add_option, record
from ranks import STRATEGIES, FaultError, Trial, finish, load, write_recipe

from cntk_core.contract.parallel import Launcher
from cntk_core.plugins.registry import Registry

FAULTS = ("kill", "exception", "exit", "stop", "term")
WAYS = ("mpi", "sockets")
_EPOCHS, _MINIBATCHES = 3, 8
_PLUGIN = """
import os, shutil, signal, time
from pathlib import Path
from cntk_core.api import TrainingError, hookimpl

@hookimpl
def cntk_job_begin(job):
    # What each attempt begins with; the number of ranks is part of the name.
    place = Path(f"begun-{job.ranks}")
    if job.rank == 0 and not place.exists():
        place.mkdir()
        for path in Path().glob("net.dnn*"):
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            copy(path, place / path.name)

@hookimpl
def cntk_minibatch_end(job, result):
    for number, fault in enumerate(os.environ["RANK_FAULT"].split(";")):
        kind, _, where = fault.partition(" ")
        if where != f"{job.ranks} {job.rank} {result.epoch} {result.minibatch}":
            continue
        with open(f"injected-{number}", "w") as file:
            file.write(str(time.time()))
        if kind == "exception":
            raise TrainingError("this was injected")
        if kind == "exit":
            os._exit(3)
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "term": signal.SIGTERM}[kind])
"""


@attrs.frozen
class Fault:
    """What is done to a rank: a word of ``FAULTS``, and when: ranks, rank, epoch and minibatch of that time."""

    kind: str
    ranks: int
    rank: int
    epoch: int
    minibatch: int

    def __str__(self) -> str:
        return f"{self.kind} {self.ranks} {self.rank} {self.epoch} {self.minibatch}"


def _write(folder: Path, trial: Trial, deadline: float) -> None:
    folder.mkdir(parents=True)
    write_recipe(folder, trial, deadline)
    (folder / "fault.py").write_text(_PLUGIN, encoding="utf-8")


def _start(folder: Path, trial: Trial, fault: str, log: str, *, elastic: bool) -> list[int]:
    """Begin a run in a process of its own session."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return [child]
    status = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.environ["RANK_FAULT"] = fault
        with open(log, "a", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        status = _elastic(trial) if elastic else _virtual(trial.ranks)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _elastic(trial: Trial) -> int:
    from cntk_kit_recipes.cli import main
    from cntk_kit_recipes.launch import launcher as launch

    def find(registry: Registry, ranks: int, *, elastic: bool) -> Launcher:
        return registry.communicators.get(trial.way).launcher(ranks, elastic=elastic)

    with patch.object(launch, "_find_launcher", find):
        return main(["train", "r.cntk", "--plugin", "fault.py", "-n", str(trial.ranks), "--elastic"])


def _virtual(ranks: int) -> int:
    from cntk_kit_recipes.recipe.driver import run_recipe
    from cntk_kit_recipes.recipe.log import Log
    from cntk_testing import VirtualRanks

    if ranks == 1:
        run_recipe(["configFile=r.cntk"], Log())
        return 0
    VirtualRanks(ranks, deadline=300).run(
        lambda communicator: run_recipe(["configFile=r.cntk"], Log(), communicator=communicator)
    )
    return 0


def disturb(folder: Path, trial: Trial, faults: Sequence[Fault], deadline: float, slack: float) -> float:
    """Do a run with faults, and check what came of it; return the seconds that it took.

    Raises:
        FaultError: something is not as it must be.
    """
    elastic = folder / "elastic"
    _write(elastic, trial, deadline)
    begun = time.monotonic()
    started = _start(elastic, trial, ";".join(map(str, faults)), "log.txt", elastic=True)
    codes, _ = finish(started, elastic / "nothing", 0.0, len(faults) * 2 * deadline + slack)
    seconds = time.monotonic() - begun
    log = (elastic / "log.txt").read_text(encoding="utf-8", errors="replace")
    _check_log(elastic, faults, codes, log)
    left = trial.ranks - len(faults)
    again = folder / "again"
    _write(again, trial, deadline)
    for path in (elastic / f"begun-{left}").iterdir():
        copy = shutil.copytree if path.is_dir() else shutil.copy2
        copy(path, again / path.name)
    codes, _ = finish(_start(again, attrs.evolve(trial, ranks=left), "", "log.txt", elastic=False), again, 0.0, 300.0)
    if any(codes):
        raise FaultError(f"the restart ended with {codes}:\n{(again / 'log.txt').read_text()[-1500:]}")
    if (elastic / "net.dnn").read_bytes() != (again / "net.dnn").read_bytes():
        raise FaultError("the model differs from that of a restart")
    return seconds


def _check_log(folder: Path, faults: Sequence[Fault], codes: Sequence[int], log: str) -> None:
    if not all((folder / f"injected-{number}").exists() for number in range(len(faults))):
        raise FaultError(f"a fault did not happen; the run ended with {codes}:\n{log[-1500:]}")
    if any(codes) or "COMPLETED" not in log:
        raise FaultError(f"it ended with {codes}:\n{log[-2500:]}")
    lost = set(re.findall(r"rank (\d+) is lost", log))
    called = {str(one) for one in _called(faults)}
    if lost != called:
        raise FaultError(f"the log says that ranks {lost} are lost, not {called}:\n{log[-1500:]}")


def _called(faults: Sequence[Fault]) -> list[int]:
    """What the launcher calls the ranks that are lost: those that are left get new numbers."""
    left, lost = list(range(faults[0].ranks)), []
    for fault in faults:
        lost.append(left.pop(fault.rank))
    return lost


def draw(chosen: random.Random, options: argparse.Namespace) -> tuple[Trial, list[Fault]]:
    """Draw a run and its faults."""
    way = chosen.choice([one for one in WAYS if options.way in ("all", one)])
    strategy = chosen.choice([one for one in STRATEGIES if options.strategy in ("all", one)])
    ranks = chosen.choice((2, 3, 4))
    kinds = [one for one in FAULTS if options.fault in ("all", one)]
    epochs = sorted(chosen.randrange(_EPOCHS) for _ in range(2 if ranks > 2 and chosen.random() < 0.3 else 1))
    faults = [
        Fault(chosen.choice(kinds), ranks - number, chosen.randrange(ranks - number), epoch, _minibatch(chosen, ranks))
        for number, epoch in enumerate(epochs)
    ]
    return Trial(way, strategy, faults[0].kind, ranks, uneven=False), faults


def _minibatch(chosen: random.Random, ranks: int) -> int:
    """Draw a minibatch; with a model scheme a rank has at least so many."""
    return chosen.randrange(max(1, _MINIBATCHES // ranks))


def run_all(folder: Path, options: argparse.Namespace) -> bool:
    """Do all faults; return whether all went well."""
    chosen, done = random.Random(options.seed), Counter[str]()
    failed, longest, begun = 0, 0.0, time.monotonic()
    for number in range(1, options.faults + 1):
        trial, faults = draw(chosen, options)
        place = folder / f"{number}-{trial.way}-{trial.strategy}"
        done.update([trial.way, trial.strategy, f"{trial.ranks} ranks", *(fault.kind for fault in faults)])
        try:
            longest = max(longest, disturb(place, trial, faults, options.deadline, options.slack))
        except FaultError as error:
            failed += 1
            print(f"{number}: {trial} {'; '.join(map(str, faults))}: {error}", flush=True)
            continue
        if options.keep is None:
            shutil.rmtree(place)
        if number % 10 == 0:
            print(f"{number} of {options.faults}, {failed} failures", flush=True)
    print(", ".join(f"{name} {count}" for name, count in sorted(done.items())))
    print(f"{options.faults} elastic runs, {failed} failures; the longest took {longest:.1f} s")
    seen = f"models identical to those of a restart; the longest run took {longest:.0f} s"
    seconds = time.monotonic() - begun
    record(options.record, Figure("elastic runs that lose ranks", options.faults, failed, seen, seconds))
    return failed == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--faults", type=int, default=20, help="how many runs")
    parser.add_argument("--way", choices=("all", *WAYS), default="all", help="how the ranks are connected")
    parser.add_argument("--strategy", choices=("all", *STRATEGIES), default="all")
    parser.add_argument("--fault", choices=("all", *FAULTS), default="all", help="only this one")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of trials")
    parser.add_argument("--deadline", type=float, default=6.0, help="communicationTimeout of the ranks, in seconds")
    parser.add_argument("--slack", type=float, default=90.0, help="seconds that a run may take beside its deadlines")
    parser.add_argument("--keep", type=Path, help="a new folder that is kept")
    add_option(parser)
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"  # a fork has none of the threads of its parent
    load(options.strategy)
    if options.keep is not None:
        options.keep.mkdir(parents=True)
        return 0 if run_all(options.keep, options) else 1
    with suppress(OSError), tempfile.TemporaryDirectory(prefix="elastic-faults-") as folder:
        return 0 if run_all(Path(folder), options) else 1
    return 1


if __name__ == "__main__":
    sys.exit(main())
