"""Kill trainings with SIGKILL at random moments, let them go on, and compare the final models byte by byte.

    python tools/trials kills --recipe all --kills 300
    python tools/trials kills --recipe lstm --kills 10 --seed 7 --keep FOLDER

Each kill is one training of its own: it is begun, killed, begun again and run to its end; its final model must have
the bytes of one that was never stopped. The exit status is 1 if one has not, or if a run that goes on fails. Processes
are forked from one that has loaded everything, so that kills fall into the training and not into the start of Python.
Needs a system with fork.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
from figures import Figure, add_option, record

EPOCHS = 4
MEMORY = "/dev/shm"
"""Where runs are by default, if it is there: a kill cannot tell it from a disk, and flushing takes no time."""
_COMMON = """
command = Train
precision = {precision}
deviceId = cpu
numCPUThreads = 1
traceLevel = 1
modelPath = "net.dnn"
"""
_MLP = """
Train = [
    action = train
    NDLNetworkBuilder = [
        run = net
        net = [
            features = Input(16)
            labels = Input(4)
            W0 = Parameter(24, 16)
            b0 = Parameter(24, 1)
            h = Dropout(Sigmoid(Plus(Times(W0, features), b0)))
            W1 = Parameter(4, 24)
            b1 = Parameter(4, 1)
            z = Plus(Times(W1, h), b1)
            ce = CrossEntropyWithSoftmax(labels, z)
            errs = ClassificationError(labels, z)
            FeatureNodes = (features)
            LabelNodes = (labels)
            CriterionNodes = (ce)
            EvalNodes = (errs)
        ]
    ]
    SGD = [ maxEpochs={epochs} ; {sgd} ; numMBsToShowResult=5 ]
    reader = [
        readerType = CNTKTextFormatReader
        file = "frames.ctf"
        randomize = true
        input = [ features=[ dim=16 ; format=dense ] ; labels=[ dim=4 ; format=sparse ] ]
    ]
]
"""
_DIGITS = """
Train = [
    action = train
    SimpleNetworkBuilder = [
        layerSizes = 64:64:10
        layerTypes = Sigmoid
        trainingCriterion = CrossEntropyWithSoftmax
        evalCriterion = ClassificationError
        applyMeanVarNorm = true
        needPrior = false
    ]
    SGD = [ maxEpochs={epochs} ; {sgd} ; numMBsToShowResult=5 ]
    reader = [
        readerType = CNTKTextFormatReader
        file = "digits.ctf"
        randomize = true
        input = [ features=[ dim=64 ; format=dense ] ; labels=[ dim=10 ; format=sparse ] ]
    ]
]
"""
_LSTM = """
truncated = true
Train = [
    action = train
    BrainScriptNetworkBuilder = {{
        features = Input {{3}}
        labels = Input {{2}}
        model = Sequential (RecurrentLSTMLayer {{8}} : LinearLayer {{2}})
        z = model (features)
        ce = CrossEntropyWithSoftmax (labels, z)
        featureNodes = (features)
        labelNodes = (labels)
        criterionNodes = (ce)
        outputNodes = (z)
    }}
    SGD = [ maxEpochs={epochs} ; {sgd} ; numMBsToShowResult=5 ]
    reader = [
        randomize = true
        truncationLength = 5
        deserializers = ([
            type = CNTKTextFormatDeserializer
            file = "sequences.ctf"
            input = [ features=[ dim=3 ; format=dense ] ; labels=[ dim=2 ; format=sparse ] ]
        ])
    ]
]
"""


@attrs.frozen
class Recipe:
    """A training.

    Attributes:
        network: its text.
        sgd: keys of the SGD block.
        precision: of the network.
        epochs: how many.
    """

    network: str
    sgd: str
    precision: str = "float"
    epochs: int = EPOCHS

    @property
    def text(self) -> str:
        """The whole recipe."""
        return _COMMON.format(precision=self.precision) + self.network.format(epochs=self.epochs, sgd=self.sgd)


RECIPES = {
    "digits": Recipe(
        _DIGITS,
        "minibatchSize=16 ; learningRatesPerSample=0.01 ; momentumPerMB=0.9 ; dropoutRate=0.2 ; "
        "gaussianNoiseInjectStd=0.001 ; checkpointEverySamples=300",
    ),
    "lstm": Recipe(
        _LSTM,
        "minibatchSize=30 ; learningRatesPerSample=0.02 ; momentumPerMB=0.5 ; gradUpdateType=fsadagrad ; "
        "checkpointEverySamples=200",
    ),
    "search": Recipe(
        _MLP,
        "minibatchSize=16 ; momentumPerMB=0.5 ; dropoutRate=0.1 ; checkpointEveryMinutes=0.001 ; "
        "autoAdjust=[ autoAdjustLR=searchBeforeEpoch ; numMiniBatch4LRSearch=10 ]",
    ),
    "sizes": Recipe(
        _MLP,
        "minibatchSize=16 ; learningRatesPerSample=0.02 ; checkpointEverySamples=250 ; autoAdjust=[ "
        "autoAdjustMinibatch=true ; numMiniBatch4LRSearch=10 ; minibatchSizeTuningMax=256 ; "
        "minibatchSearchCriterionErrorMargin=20 ]",
    ),
}
"""By name: a digits MLP, an LSTM with truncated sequences, a search of rates, a search of minibatch sizes."""


def write_data(folder: Path, network: str) -> None:
    """Write what a recipe reads."""
    if network == _DIGITS:
        from cntk_tool_demo.data import write_digits

        write_digits(folder)
        (folder / "train.ctf").rename(folder / "digits.ctf")
        (folder / "test.ctf").unlink()
        return
    numbers = random.Random(5)
    if network == _LSTM:
        rows = []
        for sequence in range(60):
            total = 0.0
            for _ in range(numbers.randint(3, 40)):
                values = [numbers.uniform(-1, 1) for _ in range(3)]
                total = 0.8 * total + values[0]
                shown = " ".join(f"{value:.4f}" for value in values)
                rows.append(f"{sequence} |features {shown} |labels {int(total > 0)}:1\n")
        (folder / "sequences.ctf").write_text("".join(rows), encoding="utf-8")
        return
    rows = []
    for _ in range(1000):
        values = [numbers.uniform(-1, 1) for _ in range(16)]
        label = 2 * (values[0] + values[1] > 0) + (values[2] * values[3] > 0)
        rows.append(f"|features {' '.join(f'{value:.4f}' for value in values)} |labels {label}:1\n")
    (folder / "frames.ctf").write_text("".join(rows), encoding="utf-8")


def load(names: Sequence[str] = ()) -> None:
    """Train each recipe, or these, once, so that forks have all that is imported and compiled, and begin at once.

    Raises:
        RuntimeError: a training failed.
        SystemExit: there are threads, which would not survive a fork.
    """
    from cntk_kit_recipes.cli import main

    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    for name in names or RECIPES:
        said = io.StringIO()
        with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
            place = prepared(Path(folder) / "run", name)
            streams = contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)
            with contextlib.chdir(place), streams[0], streams[1]:
                status = main(["configFile=r.cntk"])
        if status:
            raise RuntimeError(f"a run that must succeed ended with {status}:\n{said.getvalue()[-1500:]}")
    if threading.active_count() > 1:
        raise SystemExit(f"these would not survive a fork: {threading.enumerate()}")


def in_memory() -> str | None:
    """Return a folder in memory, if there is one."""
    return MEMORY if Path(MEMORY).is_dir() else None


def begin(
    folder: Path,
    log: str | Path,
    prepare: Callable[[], object] | None = None,
    words: Sequence[str] = (),
    after: Callable[[], object] | None = None,
) -> int:
    """Fork a process that trains in a folder; return its id.

    Args:
        folder: where there is a recipe ``r.cntk``.
        log: what it says, a name in the folder or elsewhere.
        prepare: called by the new process before it trains.
        words: what else its command line has.
        after: called by it when it has trained.
    """
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.chdir(folder)
        with open(log, "a", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        from cntk_kit_recipes.cli import main

        if prepare is not None:
            prepare()
        status = main(["configFile=r.cntk", *words])
        if after is not None:
            after()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def wait(child: int, seconds: float) -> int:
    """Wait for a process and return its exit code; one that has not ended after so many seconds is killed.

    Raises:
        RuntimeError: it had to be killed.
    """
    until = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise RuntimeError(f"it had not ended after {seconds:.0f} s")
        time.sleep(0.005)


def prepared(folder: Path, name: str, extra: str = "") -> Path:
    """Make a folder with a recipe and what it reads; ``extra`` are further keys of its SGD block."""
    recipe = RECIPES[name]
    folder.mkdir(parents=True)
    write_data(folder, recipe.network)
    sgd = f"{recipe.sgd} ; {extra}" if extra else recipe.sgd
    (folder / "r.cntk").write_text(attrs.evolve(recipe, sgd=sgd).text, encoding="utf-8")
    return folder


def run(folder: Path, log: str = "log.txt") -> None:
    """Train to the end.

    Raises:
        RuntimeError: it failed.
    """
    status = os.waitstatus_to_exitcode(os.waitpid(begin(folder, log), 0)[1])
    if status:
        raise RuntimeError(f"the run in '{folder}' ended with {status}:\n{(folder / log).read_text()[-2000:]}")


def digest(folder: Path) -> str:
    """Fingerprint of the final model."""
    return hashlib.sha256((folder / "net.dnn").read_bytes()).hexdigest()


@attrs.define
class Outcome:
    """What became of the kills of one recipe."""

    kills: int = 0
    identical: int = 0
    inside: int = 0
    failures: list[str] = attrs.field(factory=list)

    @property
    def good(self) -> bool:
        """Whether every model is the same."""
        return self.kills == self.identical and not self.failures


def kill_and_resume(
    name: str, kills: int, folder: Path, *, seed: int = 1, say: Callable[[str], None] = print, keep: bool = False
) -> Outcome:
    """Kill so many trainings of a recipe, and compare the models.

    Args:
        name: of the recipe.
        kills: how many.
        folder: where they run.
        seed: of the moments.
        say: told about each failure.
        keep: keep the folders of those that failed.
    """
    moments = random.Random(f"{name} {seed}")
    data = prepared(folder / f"{name}-straight", name)
    inputs = [path.name for path in data.iterdir()]
    straight = folder / f"{name}-whole"
    shutil.copytree(data, straight)
    run(straight)  # fills caches of compiled code, too
    seconds = _seconds(data)
    expected, outcome = digest(data), Outcome()
    if digest(straight) != expected:
        outcome.failures.append("two runs that were not stopped differ")
    trial = 0
    while outcome.kills < kills and trial < 5 * kills + 20:
        trial += 1
        target = folder / f"{name}-{trial}"
        target.mkdir()
        for file in inputs:
            shutil.copy(data / file, target)
        if not _killed(target, moments.uniform(0.0, seconds)):
            shutil.rmtree(target)
            continue
        outcome.kills += 1
        if outcome.kills % 10 == 0:
            say(f"{name}: {outcome.kills} of {kills}, {outcome.identical} identical before the last")
        try:
            run(target, "resumed.txt")
            outcome.inside += "minibatches of the next epoch" in (target / "resumed.txt").read_text()
            if digest(target) != expected:
                raise RuntimeError(f"the model in '{target}' differs")
            outcome.identical += 1
        except (RuntimeError, OSError) as error:
            outcome.failures.append(str(error))
            say(f"{name}: {error}")
            if keep:
                continue
        shutil.rmtree(target)
    return outcome


def wait_for_start(folder: Path, child: int) -> bool:
    """Wait until the initial model is there; False if the process ended before."""
    while not (folder / "net.dnn.0").exists():
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return False
        time.sleep(0.001)
    return True


def _seconds(folder: Path) -> float:
    """Train to the end; return how long that took from the initial model on."""
    child = begin(folder, "log.txt")
    wait_for_start(folder, child)
    began = time.monotonic()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise RuntimeError(f"the run in '{folder}' ended with {status}:\n{(folder / 'log.txt').read_text()[-2000:]}")
    return time.monotonic() - began


def stop_after(folder: Path, child: int, seconds: float) -> bool:
    """Kill a training so long after its initial model is there; False if it had ended."""
    if wait_for_start(folder, child):
        time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def _killed(folder: Path, seconds: float) -> bool:
    """Begin a training and kill it so long after its initial model is there; False if it had ended."""
    return stop_after(folder, begin(folder, "killed.txt"), seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipe", default="all", choices=["all", *RECIPES])
    parser.add_argument("--kills", type=int, default=40, help="in all; they are shared among the recipes")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--keep", type=Path, help="an empty folder to run in; what failed stays there")
    add_option(parser)
    options = parser.parse_args(arguments)
    names = list(RECIPES) if options.recipe == "all" else [options.recipe]
    load(names)
    begun, outcomes = time.monotonic(), list[Outcome]()

    def say(text: str) -> None:
        print(text, flush=True)

    with tempfile.TemporaryDirectory(dir=in_memory()) as temporary:
        folder = options.keep or Path(temporary)
        for index, name in enumerate(names):
            share = options.kills // len(names) + (index < options.kills % len(names))
            began = time.monotonic()
            outcome = kill_and_resume(name, share, folder, seed=options.seed, say=say, keep=options.keep is not None)
            print(
                f"{name}: {outcome.kills} killed, {outcome.inside} of them went on inside an epoch, "
                f"{outcome.identical} identical, {time.monotonic() - began:.0f} s",
                flush=True,
            )
            outcomes.append(outcome)
    killed, identical = (sum(getattr(one, name) for one in outcomes) for name in ("kills", "identical"))
    failed = max(killed - identical, sum(len(one.failures) for one in outcomes))
    inside = sum(one.inside for one in outcomes)
    seen = f"{identical} final models identical; {inside} went on inside an epoch"
    record(options.record, Figure("kill -9, one process", killed, failed, seen, time.monotonic() - begun))
    return 0 if killed == options.kills and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
