"""Who started this process beside others, and recipes that several ranks run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cntk_core.contract.parallel import Communicator, Launcher
from cntk_core.errors import CntkError, PluginError, UnsupportedError, UsageError
from cntk_core.plugins.registry import Registry
from cntk_core.training.files.checkpoint import load_checkpoint
from cntk_kit_recipes.launch.launcher import launch
from cntk_kit_recipes.recipe import ranks as running
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_kit_recipes.recipe.rank_variables import all_rank_variables
from cntk_kit_recipes.recipe.ranks import (
    DONE,
    EXPECTED,
    REPORTS,
    THREADS,
    Launch,
    LaunchError,
    check_variables,
    connect,
    detect,
    end_all,
    share_processors,
)
from cntk_testing import VirtualRanks
from cntk_testing.virtual_ranks import VirtualCommunicator

RECIPE = """\
command = Train:Test:Write
modelPath = "model/net.dnn"
deviceId = -1
precision = double
traceLevel = 1
stderr = log
input = "input = [ features = [ dim = 3 ; format = dense ] ; labels = [ dim = 2 ; format = dense ] ]"
Train = [
    action = train
    SimpleNetworkBuilder = [
        layerSizes = 3:4:2 ; trainingCriterion = CrossEntropyWithSoftmax ; evalCriterion = ErrorPrediction
    ]
    SGD = [
        maxEpochs = 2 ; minibatchSize = 10 ; learningRatesPerSample = 0.05 ; momentumPerMB = 0
        parallelTrain = [ parallelizationMethod = DataParallelSGD ; checkParametersEvery = 1 ]
    ]
    reader = [ file = data.txt ; randomize = false ; $input$ ]
]
Test = [
    action = test
    minibatchSize = 10
    reader = [ file = data.txt ; $input$ ]
]
Write = [
    action = write ; outputPath = out ; minibatchSize = 10
    reader = [ file = data.txt ; $input$ ]
]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for each in all_rank_variables():
        for name in (each.rank, each.size):
            monkeypatch.delenv(name, raising=False)
    for name in (EXPECTED, REPORTS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(running, "_ACTIVE", [])
    return tmp_path


def write_data():
    random = np.random.default_rng(5)
    rows = [
        f"|features {' '.join(f'{value:.3f}' for value in x)} |labels {int(x[0] > 0)} {int(x[0] <= 0)}"
        for x in random.normal(size=(47, 3))
    ]
    Path("data.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    Path("r.cntk").write_text(RECIPE, encoding="utf-8")


def run_on(size, *arguments):
    def work(communicator):
        with closing(Log(quiet=True)) as log:
            run_recipe(["configFile=r.cntk", *arguments], log, communicator=communicator)

    VirtualRanks(size, deadline=120.0).run(work)


def finals(path="log"):
    return [
        line.partition("; epochTime")[0]
        for line in Path(path).read_text(encoding="utf-8").splitlines()
        if line.startswith(("Finished Epoch", "Final Results"))
    ]


def test_a_recipe_on_three_ranks(folder):
    write_data()
    with closing(Log(quiet=True)) as log:
        run_recipe(["configFile=r.cntk", "stderr=alone", "modelPath=alone.dnn", "outputPath=alone_out"], log)
    run_on(3)
    alone, together = finals("alone"), finals()
    assert [line.partition("Minibatch")[0] for line in together] == [line.partition("Minibatch")[0] for line in alone]
    for left, right in zip(alone, together, strict=True):
        assert left.rpartition("ce = ")[2][:9] == right.rpartition("ce = ")[2][:9]
    assert "Final Results: Minibatch[1-5]" in alone[-1]
    assert "Final Results: Minibatch[1-6]" in together[-1], "the step without data is counted, as in the original"
    assert (folder / "out").exists() or list(folder.glob("out.*"))
    assert {path.name for path in folder.iterdir()} >= {"log", "log.rank1", "log.rank2"}
    assert "__COMPLETED__" in (folder / "log").read_text(encoding="utf-8")
    assert "__COMPLETED__" not in (folder / "log.rank1").read_text(encoding="utf-8")
    assert "COMPLETED" not in (folder / "log.rank2").read_text(encoding="utf-8")


@pytest.mark.parametrize("sparse", [False, True])
def test_parameters_are_those_of_serial_training(folder, sparse):
    """Also where a rank has a gradient for other rows than the others."""
    write_data()
    if sparse:
        text = Path("data.txt").read_text(encoding="utf-8")
        labels = [line.partition("|labels")[2] for line in text.splitlines()]
        rows = [f"|features {index % 3}:{1 + index % 5} |labels{label}" for index, label in enumerate(labels)]
        Path("data.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
        recipe = Path("r.cntk").read_text(encoding="utf-8")
        recipe = recipe.replace("dim = 3 ; format = dense", "dim = 3 ; format = sparse")
        Path("r.cntk").write_text(recipe, encoding="utf-8")
    given = ["command=Train"]
    with closing(Log(quiet=True)) as log:
        run_recipe(["configFile=r.cntk", "stderr=alone", "modelPath=alone.dnn", *given], log)
    run_on(3, *given)
    alone = load_checkpoint(Path("alone.dnn.ckp")).arrays
    together = load_checkpoint(Path("model/net.dnn.ckp")).arrays
    for name, array in alone.items():
        np.testing.assert_allclose(together[name], array, rtol=1e-9, atol=1e-12, err_msg=name)


def test_ranks_without_a_method_are_told(folder):
    write_data()
    run_on(2, "command=Train", "Train=[SGD=[parallelTrain=[parallelizationMethod=none]]]")
    said = (
        "there are 2 ranks, but the SGD block names no parallelizationMethod: each of them trains on all the data. "
        "To share it, add parallelTrain = [ parallelizationMethod = DataParallelSGD ] to the SGD block, or start it "
        "with --data-parallel."
    )
    assert f"Warning: {said}" in (folder / "log").read_text(encoding="utf-8")


def test_one_process_does_a_serial_recipe(folder):
    write_data()
    run_on(2, "parallelTrain=false", "command=Train")
    assert (folder / "log").exists()
    assert not (folder / "log.rank1").exists()
    assert (folder / "model" / "net.dnn").exists()


def started(rank, size, by, communicator="mpi", otherwise=()):
    """What is said of a process in whose environment a launcher has set two variables."""
    return Launch(rank, size, "a launcher that sets {} and {}".format(*by.split()), communicator, otherwise)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Launch()),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"},
            started(2, 4, "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE"),
        ),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, started(0, 2, "PMI_RANK PMI_SIZE")),
        (
            {"SLURM_PROCID": "7", "SLURM_STEP_NUM_TASKS": "8"},
            started(7, 8, "SLURM_PROCID SLURM_STEP_NUM_TASKS", otherwise=("sockets",)),
        ),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, Launch()),  # a batch script, not a task of srun
        ({"RANK": "1", "WORLD_SIZE": "2"}, started(1, 2, "RANK WORLD_SIZE", "sockets")),
        ({"RANK": "gold", "WORLD_SIZE": "2"}, Launch()),
        ({"RANK": "2", "WORLD_SIZE": "2"}, Launch()),
    ],
)
def test_launchers(variables, expected):
    assert detect(variables) == expected


@pytest.mark.parametrize(
    ("rank", "size"), [("gold", "2"), ("2", "2"), ("-1", "2"), ("", "2"), ("0", "-3"), ("0", "two"), ("1", "1")]
)
def test_ranks_do_not_train_alone_because_their_variables_are_broken(monkeypatch, rank, size):
    """Each of them would, all into the same files."""
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    with pytest.raises(LaunchError) as caught, closing(Log(quiet=True)) as log:
        run_recipe(["configFile=none.cntk"], log)
    assert str(caught.value) == (
        f"RANK={rank!r} and WORLD_SIZE={size!r} in the environment make no sense together\n"
        "    What starts the ranks sets them: RANK is a number from 0 up to WORLD_SIZE - 1. A single process "
        "needs neither."
    )


@pytest.mark.parametrize(
    "variables",
    [
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": "5"},
        {"WORLD_SIZE": "1"},
        {"WORLD_SIZE": "large"},
        {"RANK": "", "WORLD_SIZE": ""},
        {"PMI_RANK": "0", "PMI_SIZE": "1", "RANK": "x", "WORLD_SIZE": "7"},
    ],
)
def test_variables_that_mean_a_single_process(variables):
    check_variables(variables)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs affinities")
@pytest.mark.parametrize(
    ("given", "own", "all_of_them", "threads"),
    [
        ({}, 8, 8, None),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, 8, 8, None),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 8, 8, "2"),
        ({"MPI_LOCALNRANKS": "3"}, 8, 8, "2"),
        ({"LOCAL_WORLD_SIZE": "16"}, 8, 8, "1"),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 1, 8, "1"),  # bound to one
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 4, 8, "4"),  # bound to a half
    ],
)
def test_ranks_share_the_processors(monkeypatch, given, own, all_of_them, threads):
    usable = {0: own, os.getppid(): all_of_them}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(usable[process])))
    environment = dict(given)
    share_processors(environment)
    assert environment == {**given, **({} if threads is None else dict.fromkeys(THREADS, threads))}
    environment = {**given, "OMP_NUM_THREADS": "7"}
    share_processors(environment)
    assert environment["OMP_NUM_THREADS"] == "7"


class Alone(VirtualCommunicator):
    """The only rank there is."""

    def __init__(self):
        super().__init__(VirtualRanks(1), 0)

    @classmethod
    def launcher(cls, ranks):
        return Launcher((sys.executable, "-c", COMMAND), {"LAUNCHED": str(ranks)}, "Python")


COMMAND = "import os, sys; exec(os.environ['DO'])"
"""Stands for the processes that a launcher starts."""


def registry_of(kind=Alone):
    registry = Registry()
    registry.communicators.add("mpi", kind)
    return registry


def test_processes_that_do_not_find_each_other():
    with pytest.raises(LaunchError) as caught:
        connect(Launch(1, 4, "mpiexec", "mpi"), registry_of())
    assert str(caught.value) == (
        "mpiexec started 4 processes, but this one is rank 0 of 1 for the communicator 'mpi'\n"
        "    They do not belong together, as a launcher of another MPI library than mpi4py's. "
        "'cntk train recipe.cntk -n 4' takes one that does."
    )


def test_another_number_of_ranks_than_asked_for(monkeypatch):
    monkeypatch.setenv(EXPECTED, "4")
    with pytest.raises(LaunchError, match="4 ranks were asked for, but there are 1"):
        connect(Launch(communicator="mpi"), registry_of())


def test_a_communicator_can_be_named():
    class Named(Alone):
        pass

    registry = registry_of()
    registry.communicators.add("pigeons", Named)
    with disconnected():
        launch = Launch(communicator="mpi")
        assert type(connect(launch, registry)) is Alone
        assert type(connect(launch, registry, "pigeons")) is Named
        with pytest.raises(PluginError, match="pigeon"):
            connect(launch, registry, "pigeon")


@contextmanager
def disconnected():
    """Nothing is connected afterwards."""
    try:
        yield
    finally:
        running._ACTIVE.clear()


@pytest.fixture
def launched(monkeypatch):
    """Run a program in the place of the ranks: ``launched(program, ranks)``."""

    class Plugins:
        registry = registry_of()

    monkeypatch.setattr("cntk_kit_recipes.recipe.run_plugins.make_plugins", lambda *_: Plugins())

    def run(program, ranks=3, arguments=("train", "r.cntk")):
        monkeypatch.setenv("DO", program)
        return launch(ranks, arguments)

    return run


def test_ranks_that_succeed(launched, capfd):
    threads = max(1, (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) // 3)
    check = (
        f"e = os.environ; assert (e['{EXPECTED}'], e['LAUNCHED']) == ('3', '3')\n"
        f"assert e['OMP_NUM_THREADS'] == '{threads}'\n"
        f"assert sys.argv[1:] == [sys.executable, '-P', '-m', 'cntk_core', 'train', 'r.cntk'], sys.argv\n"
        f"open(os.path.join(e['{REPORTS}'], '{DONE}'), 'w').close()"
    )
    assert launched(check) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("sys.exit(0)", 1, "\na rank ended before the work was done, without a message (Python gave the code 0)\n"),
        ("sys.exit(7)", 7, "\na rank ended before the work was done, without a message (Python gave the code 7)\n"),
        (
            f"os.kill(os.getpid(), {int(signal.SIGTERM)})",
            1,
            "\na rank was ended by signal 15; what was saved before is kept, and the same command goes on from it\n",
        ),
        (
            f"open(os.path.join(os.environ['{REPORTS}'], 'rank-2.txt'), 'w').write('no luck\\n'); sys.exit(1)",
            1,
            "\nrank 2 failed first:\nno luck\n",
        ),
    ],
)
def test_ranks_that_fail(launched, capfd, program, code, said):
    assert launched(program) == code
    assert capfd.readouterr().err == said


GONE = f"""
import time
folder = os.environ['{REPORTS}']
child = os.fork()
if not child:
    time.sleep(60)
open(os.path.join(folder, 'rank-2.pid'), 'w').write(str(child))
open(os.path.join(folder, 'rank-0.pid'), 'w').write(str(os.getpid()))
time.sleep(0.5)
"""
"""Two ranks, of which 0 is the launcher, too."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        (
            f"os.kill(child, {int(signal.SIGKILL)}); os.wait(); time.sleep(0.5); sys.exit(137)",
            137,
            "\nrank 2 was ended by signal 9; what was saved before is kept, and the same command goes on from it\n",
        ),
        (
            f"os.kill(child, {int(signal.SIGKILL)}); os.wait()\n"
            "open(os.path.join(folder, 'after-0.txt'), 'w').write('rank 2 is gone'); sys.exit(1)",
            1,
            "\nrank 2 ended before the work was done, without a message (Python gave the code 1)\n",
        ),
        (
            f"open(os.path.join(folder, 'rank-2.txt'), 'w').write('no luck')\n"
            f"os.kill(child, {int(signal.SIGKILL)}); os.wait(); sys.exit(1)",
            1,
            "\nrank 2 failed first:\nno luck\n",
        ),
    ],
)
@pytest.mark.sampled(3)
def test_the_rank_that_ended_first_is_named(launched, capfd, program, code, said):
    assert launched(GONE + program) == code
    assert capfd.readouterr().err == said


def test_a_report_of_a_rank_that_is_gone_is_better_than_none(launched, capfd):
    program = f"open(os.path.join(os.environ['{REPORTS}'], 'after-1.txt'), 'w').write('rank 0 is gone'); sys.exit(1)"
    assert launched(program) == 1
    assert capfd.readouterr().err == "\nrank 1 failed first:\nrank 0 is gone\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_ranks_are_told_when_the_launcher_is(launched, capfd, request, number):
    """The rank, not its launcher, gets the signal, and has time to save."""
    before = signal.signal(number, signal.SIG_DFL)  # what is ignored, as under nohup, would be by the ranks, too
    request.addfinalizer(lambda: signal.signal(number, before))
    program = (
        GONE.replace("time.sleep(60)", "signal.pause()").replace("import time", "import signal, time")
        + f"signal.signal({int(number)}, lambda *_: None)\n"
        f"os.kill(os.getppid(), {int(number)})\n"
        "ended = os.waitstatus_to_exitcode(os.wait()[1])\n"
        "print(ended, file=sys.stderr, flush=True); sys.exit(1)"
    )
    assert launched(program) == 128 + number
    assert capfd.readouterr().err.startswith(f"-{int(number)}\n")


def test_without_mpi_the_ranks_meet_on_sockets(monkeypatch, capfd):
    class Useless(Alone):
        @classmethod
        def launcher(cls, ranks):
            raise UnsupportedError("there is no mpiexec here")

    for kinds, message in (
        ({"sockets": Alone}, None),
        ({"mpi": Useless, "sockets": Alone}, None),
        ({"mpi": Useless}, "there is no mpiexec here"),
        ({}, "no communicator that could be taken is installed: install one of ours"),
    ):
        registry = Registry()
        for name, kind in kinds.items():
            registry.communicators.add(name, kind)
        monkeypatch.setattr(
            "cntk_kit_recipes.recipe.run_plugins.make_plugins", lambda *_, r=registry: SimpleNamespace(registry=r)
        )
        monkeypatch.setenv("DO", f"open(os.path.join(os.environ['{REPORTS}'], '{DONE}'), 'w').close()")
        if message is None:
            assert launch(2, []) == 0
        else:
            with pytest.raises(CntkError, match=message):
                launch(2, [])


@pytest.mark.parametrize("ranks", [0, -2])
def test_numbers_of_ranks_that_make_no_sense(ranks):
    with pytest.raises(UsageError, match=f"-n {ranks} makes no sense: the number of ranks is at least 1"):
        launch(ranks, [])


def test_a_rank_launches_no_ranks(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(
        UsageError,
        match="-n 4 is given to a process that a launcher that sets PMI_RANK and PMI_SIZE has started as one of 2",
    ):
        launch(4, [])


def test_a_communicator_that_starts_nothing():
    with pytest.raises(Exception, match="the communicator VirtualCommunicator starts no processes"):
        VirtualCommunicator.launcher(2)
    assert issubclass(VirtualCommunicator, Communicator)


def test_a_failing_rank_leaves_a_report(monkeypatch, tmp_path):
    monkeypatch.setenv(REPORTS, str(tmp_path))
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    said = []

    class Listening(Alone):
        def abort(self, reason):
            said.append(reason)

    running._ACTIVE.append(Listening())
    end_all("no luck\nat all", "details\n")
    assert (tmp_path / "rank-1.txt").read_text(encoding="utf-8") == "details\nno luck\nat all"
    assert said == ["no luck"]


def test_lines_of_other_ranks_are_labelled(tmp_path):
    program = (
        "import sys; from cntk_kit_recipes.recipe.ranks import *\n"
        "label_output(Launch(3, 4)); label_output(Launch(3, 4))\n"
        "print('one'); sys.stderr.write('two\\nth'); sys.stderr.write('ree\\n'); sys.stderr.flush()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "rank 3: one\n"
    assert done.stderr == "rank 3: two\nrank 3: three\n"
