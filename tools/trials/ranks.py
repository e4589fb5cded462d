"""Let ranks fail at random steps, let the training go on, and compare the final models byte by byte.

    python tools/trials ranks --faults 200
    python tools/trials ranks --faults 10 --way sockets --strategy one-bit --fault kill --keep FOLDER

Each fault is a training of its own, with a strategy, a number of ranks, data that are even or not, and a way to run
them: virtual ranks, ranks on sockets that nobody watches, and ``cntk train -n`` with ranks on sockets or MPI. A rank is
killed, stopped, told to end, exits or raises an error at one of its steps. Then

- all processes must end within the deadline and some seconds, with a code that is not 0 and a message with that rank;
- the same command must go on from the last checkpoint to the model that virtual ranks reach undisturbed.

The exit status is 1 if one has not. Needs Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import attrs
from figures import Figure, add_option, record

from cntk_core.contract.parallel import Launcher
from cntk_core.plugins.registry import Registry

MEMORY = "/dev/shm"
_RECIPE = """
command = Train
deviceId = cpu
engine = cpu
traceLevel = 1
parallelTrain = true
Train = [
    action = train
    modelPath = "net.dnn"
    SimpleNetworkBuilder = [
        layerSizes = 5:12:3 ; trainingCriterion = CrossEntropyWithSoftmax ; addDropoutNodes = true
    ]
    SGD = [
        maxEpochs = 3 ; minibatchSize = 12 ; learningRatesPerSample = 0.02 ; momentumPerMB = 0.9 ; dropoutRate = 0.1
        checkpointEverySamples = 30
        parallelTrain = [
            communicationTimeout = {deadline} ; stallReportAfter = 2 ; parallelizationMethod = {method}
        ]
    ]
    reader = [
        file = data.ctf ; randomize = {random}
        input = [ features = [ dim = 5 ; format = dense ] ; labels = [ dim = 3 ; format = sparse ] ]
    ]
]
"""
STRATEGIES = {
    "full": "DataParallelSGD",
    "buffered": "DataParallelSGD ; DataParallelSGD = [ useBufferedAsyncGradientAggregation = true ]",
    "one-bit": "DataParallelSGD ; DataParallelSGD = [ gradientBits = 1 ] ; parallelizationStartEpoch = 2",
    "block-momentum": "BlockMomentumSGD ; BlockMomentumSGD = [ blockSizePerWorker = 16 ; resetSGDMomentum = false ]",
    "asynchronous": "DataParallelASGD ; DataParallelASGD = [ syncPeriodPerWorker=8 ; simulatedTime=[ jitter=0.2 ] ]",
    "averaging": "ModelAveragingSGD ; ModelAveragingSGD = [ blockSizePerWorker = 12 ]",
}
_PLUGIN = """
import faulthandler, os, signal, time
from cntk_core.api import TrainingError, hookimpl

faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)

@hookimpl
def cntk_minibatch_end(job, result):
    place = f"{job.rank} {result.epoch} {result.minibatch}"
    kind, _, where = os.environ["RANK_FAULT"].partition(" ")
    if kind == "count":
        with open("steps", "a") as file:
            file.write(place + "\\n")
    if place != where or os.path.exists("injected"):
        return
    with open("injected", "w") as file:
        file.write(str(time.time()))
    if kind == "exception":
        raise TrainingError("this was injected")
    if kind == "exit":
        os._exit(3)
    if kind == "pause":
        if os.fork() == 0:
            time.sleep(1.5)
            os.kill(os.getppid(), signal.SIGCONT)
            os._exit(0)
        kind = "stop"
    os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "term": signal.SIGTERM}[kind])
"""
FAULTS = ("kill", "exception", "exit", "stop", "term", "pause", "none")
"""What is done to a rank. With ``none`` the data are uneven, with ``pause`` a rank is stopped for less than the
deadline: then training must come to its end."""
WAYS = {"virtual": 2, "alone": 4, "sockets": 1, "mpi": 1}
"""Ways to run ranks, and how often each is drawn."""


class FaultError(Exception):
    """A run did not do what it must."""


@attrs.frozen
class Trial:
    """One fault.

    Attributes:
        way, strategy, fault: what the tables above have.
        ranks: how many.
        uneven: some ranks have less data than others.
    """

    way: str
    strategy: str
    fault: str
    ranks: int
    uneven: bool

    @property
    def reference(self) -> tuple[str, int, bool]:
        """What the final model depends on."""
        return self.strategy, self.ranks, self.uneven


@attrs.frozen
class Reference:
    """A run that was not disturbed: its model, and the steps of each rank."""

    model: bytes
    steps: Mapping[int, Sequence[str]]


# -- one run ----------------------------------------------------------------------------------------------


def write_recipe(folder: Path, trial: Trial, deadline: float) -> None:
    """Write a recipe, its data and the plugin that does the fault."""
    text = _RECIPE.format(
        method=STRATEGIES[trial.strategy], random="false" if trial.uneven else "true", deadline=deadline
    )
    numbers, rows = random.Random(3), []
    lengths = [31, 2, 1, 28, 5, 3, 25] if trial.uneven else [1] * 96
    for sequence, length in enumerate(lengths):
        for _ in range(length):
            values = [numbers.uniform(-1, 1) for _ in range(5)]
            shown = " ".join(f"{value:.4f}" for value in values)
            rows.append(f"{sequence} |features {shown} |labels {int(values[0] > 0) + int(values[1] > 0)}:1\n")
    (folder / "r.cntk").write_text(text, encoding="utf-8")
    (folder / "data.ctf").write_text("".join(rows), encoding="utf-8")
    (folder / "fault.py").write_text(_PLUGIN, encoding="utf-8")


def load(strategy: str) -> None:
    """Train once with a strategy, or with all, so that forks have what is imported and compiled, and begin at once."""
    import importlib

    for module in ("scipy.sparse", "cntk_kit_recipes.cli", "cntk_kit_recipes.launch.launcher"):
        importlib.import_module(module)
    os.environ["RANK_FAULT"] = "nothing"
    for name in STRATEGIES if strategy == "all" else [strategy]:
        with tempfile.TemporaryDirectory(prefix="rank-faults-") as folder, contextlib.chdir(folder):
            write_recipe(Path(folder), Trial("virtual", name, "none", 2, uneven=False), 300.0)
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = _virtual(2)
            if status:
                raise FaultError(f"a run that must succeed ended with {status}:\n{said.getvalue()[-1500:]}")


def _fork(folder: Path, log: str, fault: str, work: Callable[[], int], environment: Mapping[str, str]) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.update({**environment, "RANK_FAULT": fault})
        with open(log, "a", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        status = work()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _virtual(ranks: int) -> int:
    from cntk_kit_recipes.recipe.driver import run_recipe
    from cntk_kit_recipes.recipe.log import Log
    from cntk_testing import VirtualRanks

    try:
        VirtualRanks(ranks, deadline=300).run(
            lambda communicator: run_recipe(
                ["configFile=r.cntk"], Log(), plugin_files=["fault.py"], communicator=communicator
            )
        )
    except Exception as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _train(*arguments: str) -> int:
    from cntk_kit_recipes.cli import main

    return main(["train", "r.cntk", "--plugin", "fault.py", *arguments])


def _launched(ranks: int, communicator: str) -> int:
    from cntk_kit_recipes.launch import launcher as launch

    def find(registry: Registry, count: int, **_: bool) -> Launcher:
        return registry.communicators.get(communicator).launcher(count)

    with patch.object(launch, "_find_launcher", find):
        return _train("-n", str(ranks))


def start(folder: Path, trial: Trial, fault: str, log: str) -> list[int]:
    """Start the processes of a run; return those that are ours to wait for."""
    if trial.way == "virtual":
        return [_fork(folder, log, fault, lambda: _virtual(trial.ranks), {})]
    if trial.way != "alone":
        return [_fork(folder, log, fault, lambda: _launched(trial.ranks, trial.way), {})]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(trial.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        _fork(folder, log, fault, _train, {**common, "RANK": str(rank), "CNTK_SECRET": "s"})
        for rank in range(trial.ranks)
    ]


def _members(sessions: Sequence[int]) -> dict[int, str]:
    """Processes of the sessions that still run, and their states."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) in sessions and state not in "ZX":
            found[int(path.parent.name)] = state
    return found


def finish(started: Sequence[int], folder: Path, limit: float, seconds: float) -> tuple[list[int], float]:
    """Wait for processes; kill what has not ended in time, and ranks that are stopped and that nobody watches.

    Args:
        started: the processes.
        folder: where the fault leaves its time.
        limit: seconds after the fault.
        seconds: without a fault.

    Returns:
        The exit codes, and how many seconds after the fault all had ended.

    Raises:
        FaultError: some have not.
    """
    begun = time.time()
    codes: dict[int, int] = {}
    while True:
        for process in started:
            if process not in codes and (ended := os.waitpid(process, os.WNOHANG))[0]:
                codes[process] = os.waitstatus_to_exitcode(ended[1])
        running = _members(started)
        since, now = _injected(folder), time.time()
        if not running and len(codes) == len(started):
            return [codes[process] for process in started], now - (since or now)
        stopped = set(running) <= set(started) and set(running.values()) == {"T"}
        late = now > (since + limit if since else begun + seconds)
        if late:
            for process in running:
                os.kill(process, signal.SIGUSR1)  # the log shows where it is
            time.sleep(1.0)
        if late or (len(started) > 1 and stopped):
            for process in _members(started):
                os.kill(process, signal.SIGKILL)
        if late:
            for process in set(started) - set(codes):
                os.waitpid(process, 0)
            raise FaultError(f"{len(running)} processes have not ended in time")
        time.sleep(0.02)


def _injected(folder: Path) -> float:
    path = folder / "injected"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return float(text or 0)


# -- one trial --------------------------------------------------------------------------------------------


def make_reference(folder: Path, trial: Trial, deadline: float) -> Reference:
    """Train without a fault, on virtual ranks, and count the steps."""
    folder.mkdir(parents=True)
    write_recipe(folder, trial, deadline)
    _go_through(folder, attrs.evolve(trial, way="virtual"), "count", "log.txt")
    steps: dict[int, list[str]] = {}
    for line in (folder / "steps").read_text(encoding="utf-8").splitlines():
        steps.setdefault(int(line.split()[0]), []).append(line)
    return Reference((folder / "net.dnn").read_bytes(), steps)


def _go_through(folder: Path, trial: Trial, fault: str, log: str) -> None:
    codes, _ = finish(start(folder, trial, fault, log), folder / "nothing", 0.0, 300.0)
    if any(codes):
        raise FaultError(f"a run that must succeed ended with {codes}:\n{(folder / log).read_text()[-1500:]}")


@attrs.frozen
class Outcome:
    """What came of a fault.

    Attributes:
        seconds: until all had ended.
        went_on: from where training went on.
    """

    seconds: float
    went_on: str = "not at all"


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-5000:] if log.exists() else ""


def _begun_at(log: str) -> str:
    """Say from where a training went on."""
    if "Final model exists" in log:
        return "the end"
    if "Restored from" not in log:
        return "the beginning"
    return "inside an epoch" if "minibatches of the next epoch" in log else "the end of an epoch"


def disturb(
    folder: Path, trial: Trial, reference: Reference, chosen: random.Random, deadline: float, slack: float
) -> Outcome:
    """Do one fault and check what follows.

    Raises:
        FaultError: something is not as it must be.
    """
    folder.mkdir(parents=True)
    write_recipe(folder, trial, deadline)
    rank = chosen.randrange(trial.ranks)
    fault = f"{trial.fault} {chosen.choice(reference.steps[rank])}"
    codes, seconds = finish(start(folder, trial, fault, "log.txt"), folder, deadline + slack, 300.0)
    outcome = Outcome(seconds)
    log = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    if trial.fault not in ("none", "pause"):
        _check_end(folder, trial, rank, codes, log)
        checkpoints = list(folder.glob("net.dnn*.ckp"))
        _go_through(folder, trial, "nothing", "again.txt")
        again = (folder / "again.txt").read_text(encoding="utf-8", errors="replace")
        outcome = Outcome(seconds, _begun_at(again))
        if checkpoints and outcome.went_on == "the beginning":
            raise FaultError(f"{fault}: there was a checkpoint, but training began anew")
    elif any(codes):
        raise FaultError(f"{trial.fault}: it ended with {codes}")
    if (folder / "net.dnn").read_bytes() != reference.model:
        raise FaultError(f"{fault}: the model differs")
    return outcome


def _check_end(folder: Path, trial: Trial, rank: int, codes: Sequence[int], log: str) -> None:
    if not _injected(folder):
        raise FaultError("the fault did not happen")
    if not all(codes):
        raise FaultError(f"{trial.fault} on rank {rank}: it ended with {codes}")
    if trial.way == "virtual":  # a process that is killed says nothing, and its shell names it
        named = trial.fault != "exception" or "this was injected" in log
    else:
        said = log if trial.way == "alone" else log[log.rfind("\nrank ") :]
        named = re.search(rf"\brank (\d+, )*{rank}\b", said) is not None
    if not named:
        raise FaultError(f"{trial.fault} on rank {rank}: no message names the rank:\n{log[-1500:]}")


# -- all of them ------------------------------------------------------------------------------------------


def _draw(chosen: random.Random, options: argparse.Namespace) -> Trial:
    ways = {way: weight for way, weight in WAYS.items() if options.way in ("all", way)}
    [way] = chosen.choices(list(ways), list(ways.values()))
    faults = [one for one in FAULTS if options.fault in ("all", one)]
    if way == "virtual":  # a thread cannot be stopped, nor told to end
        faults = [one for one in faults if one not in ("stop", "term", "pause")] or ["kill"]
    fault = chosen.choice(faults)
    strategy = chosen.choice([one for one in STRATEGIES if options.strategy in ("all", one)])
    return Trial(way, strategy, fault, chosen.choice((2, 3, 4)), fault == "none" or chosen.random() < 0.3)


def run_all(folder: Path, options: argparse.Namespace) -> bool:
    """Do all faults; return whether all went well."""
    chosen, references = random.Random(options.seed), dict[tuple[str, int, bool], Reference]()
    done, went_on = Counter[str](), Counter[str]()
    failed, longest, begun = 0, 0.0, time.monotonic()
    for number in range(1, options.faults + 1):
        trial = _draw(chosen, options)
        if trial.reference not in references:
            place = folder / "reference-{}-{}-{}".format(*trial.reference)
            references[trial.reference] = make_reference(place, trial, options.deadline)
        place = folder / f"{number}-{trial.way}-{trial.strategy}-{trial.fault}"
        done.update([trial.way, trial.strategy, trial.fault])
        try:
            outcome = disturb(place, trial, references[trial.reference], chosen, options.deadline, options.slack)
        except FaultError as error:
            failed += 1
            print(f"{number}: {trial}: {error}\n{_tail(place / 'log.txt')}", flush=True)
            continue
        longest = max(longest, outcome.seconds)
        went_on[outcome.went_on] += 1
        if options.keep is None:
            shutil.rmtree(place)
        if number % 10 == 0:
            print(f"{number} of {options.faults}, {failed} failures, {time.monotonic() - begun:.0f} s", flush=True)
    print(", ".join(f"{name} {count}" for name, count in sorted(done.items())))
    print("Trainings went on from: " + ", ".join(f"{name} {count}" for name, count in sorted(went_on.items())))
    print(
        f"{options.faults} faults, {failed} failures; the longest took {longest:.1f} s to end, with a deadline of "
        f"{options.deadline:g} s"
    )
    part = "2 to 4 ranks, all strategies: " + ("kill -9" if options.fault == "kill" else "faults of a rank")
    seen = f"went on inside an epoch {went_on['inside an epoch']}, at its end {went_on['the end of an epoch']}; "
    seen += f"ended at most {longest:.1f} s after the fault"
    record(options.record, Figure(part, options.faults, failed, seen, time.monotonic() - begun))
    return not failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--faults", type=int, default=20, help="how many trainings are disturbed")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    parser.add_argument("--way", choices=["all", *WAYS], default="all", help="how ranks are run")
    parser.add_argument("--strategy", choices=["all", *STRATEGIES], default="all")
    parser.add_argument("--fault", choices=["all", *FAULTS], default="all")
    parser.add_argument("--deadline", type=float, default=8.0, help="communicationTimeout, in seconds")
    parser.add_argument("--slack", type=float, default=5.0, help="seconds after the deadline in which all must end")
    parser.add_argument("--keep", type=Path, help="a new folder that is kept")
    add_option(parser)
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"  # a fork has none of the threads of its parent
    load(options.strategy)
    if options.keep is not None:
        options.keep.mkdir(parents=True)
        return 0 if run_all(options.keep.resolve(), options) else 1
    with tempfile.TemporaryDirectory(prefix="rank-faults-", dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
        return 0 if run_all(Path(folder), options) else 1


if __name__ == "__main__":
    sys.exit(main())
