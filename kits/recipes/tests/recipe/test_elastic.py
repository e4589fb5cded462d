"""``--elastic``: when ranks are lost, those that are left do what a restart with as many ranks would do."""

from __future__ import annotations

import re
import threading
from contextlib import closing
from threading import Event
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from cntk_core.config import load_recipe
from cntk_core.contract.builder import SeedNumbers
from cntk_core.contract.parallel import Communicator
from cntk_core.errors import ConfigError, RankGone, TrainingError, UnsupportedError
from cntk_core.network.tensor_file import read_tensors
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.markers import hookimpl
from cntk_core.training.files.checkpoint import load_checkpoint
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.elastic import Work, asked_in_recipe, min_ranks, persevere
from cntk_kit_recipes.recipe.jobs import find_jobs
from cntk_kit_recipes.recipe.log import Log
from cntk_kit_recipes.recipe.lost_ranks import Loss
from cntk_kit_recipes.recipe.ranks import ELASTIC
from cntk_kit_recipes.session.stop_request import Stopped, StopRequest
from cntk_testing import VirtualRanks
from cntk_testing.virtual_ranks import VirtualCommunicator

RECIPE = """\
command = Train:Test:Write
modelPath = "net.dnn"
deviceId = -1
traceLevel = 1
stderr = log
input = "input = [ features = [ dim = 3 ; format = dense ] ; labels = [ dim = 2 ; format = dense ] ]"
Train = [
    action = train
    SimpleNetworkBuilder = [
        layerSizes = 3:6:2 ; trainingCriterion = CrossEntropyWithSoftmax ; evalCriterion = ErrorPrediction
        addDropoutNodes = true
    ]
    SGD = [
        maxEpochs = 3 ; minibatchSize = 10 ; learningRatesPerSample = 0.05 ; momentumPerMB = 0.5 ; dropoutRate = 0.2
        parallelTrain = [ elastic = true ; parallelizationMethod = %METHOD% ]
    ]
    reader = [ file = data.txt ; $input$ ]
]
Test = [ action = test ; minibatchSize = 10 ; reader = [ file = data.txt ; $input$ ] ]
Write = [ action = write ; outputPath = out ; minibatchSize = 10 ; reader = [ file = data.txt ; $input$ ] ]
"""

METHODS = {
    "full": "DataParallelSGD",
    "one-bit": "DataParallelSGD ; DataParallelSGD = [ gradientBits = 1 ]",
    "block-momentum": "BlockMomentumSGD ; BlockMomentumSGD = [ blockSizePerWorker = 10 ]",
    "asynchronous": "DataParallelASGD ; DataParallelASGD = [ syncPeriodPerWorker = 8 ; simulatedTime = [ ] ]",
}


class Fault:
    """A listener that ends a rank at a minibatch, once each."""

    def __init__(self, *places):
        self.places = list(places)

    @hookimpl
    def cntk_minibatch_end(self, job, result):
        place = (job.rank, result.epoch, result.minibatch)
        if place in self.places:
            self.places.remove(place)
            raise TrainingError("this was injected")


def prepare(folder, method="full"):
    random = np.random.default_rng(5)
    rows = [
        f"|features {' '.join(f'{value:.3f}' for value in x)} |labels {'1 0' if x.sum() > 0 else '0 1'}\n"
        for x in random.normal(size=(60, 3))
    ]
    folder.mkdir(exist_ok=True)
    (folder / "data.txt").write_text("".join(rows), encoding="utf-8")
    (folder / "r.cntk").write_text(RECIPE.replace("%METHOD%", METHODS[method]), encoding="utf-8")


def run(folder, monkeypatch, ranks, *arguments, fault=None):
    """Run the recipe on virtual ranks; return these."""
    monkeypatch.chdir(folder)
    group = VirtualRanks(ranks, deadline=120.0)

    def work(communicator):
        with closing(Log(quiet=True)) as log:
            listeners = [fault] if fault is not None else []
            run_recipe(["configFile=r.cntk", *arguments], log, communicator=communicator, listeners=listeners)

    group.run(work)
    return group


RIGID = "Train=[SGD=[parallelTrain=[elastic=false]]]"


def log_of(folder):
    return (folder / "log").read_text(encoding="utf-8")


def assert_same_training(one, other):
    models = [read_tensors(folder / "net.dnn") for folder in (one, other)]
    for model in models:
        model.metadata.pop("plugins")  # one rank alone needs no strategy
    assert models[0].metadata == models[1].metadata
    assert {k: v.tobytes() for k, v in models[0].arrays.items()} == {
        k: v.tobytes() for k, v in models[1].arrays.items()
    }
    found, expected = (load_checkpoint(folder / "net.dnn.ckp").arrays for folder in (one, other))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.sampled(4, later=2)
@pytest.mark.parametrize(
    ("method", "ranks", "lost"),
    [("one-bit", 3, 0), ("full", 3, 1), ("block-momentum", 2, 1), ("asynchronous", 3, 2)],
)
def test_the_same_as_a_restart_with_those_that_are_left(tmp_path, monkeypatch, method, ranks, lost):
    place = (lost, 1, 1)
    one, other = tmp_path / "elastic", tmp_path / "restarted"
    prepare(one, method)
    prepare(other, method)
    group = run(one, monkeypatch, ranks, fault=Fault(place))
    assert list(group.lost) == [lost]
    with pytest.raises(TrainingError, match="this was injected"):
        run(other, monkeypatch, ranks, RIGID, fault=Fault(place))
    assert not (other / "net.dnn").exists()
    run(other, monkeypatch, ranks - 1, RIGID)
    assert_same_training(one, other)
    # The log goes on in the same file, whoever writes it, up to the results of the test and the mark of completion.
    left = "ranks " + ", ".join(str(rank) for rank in range(ranks) if rank != lost) + " are"
    left = left if ranks > 2 else "rank 0 is"
    expected = rf"\nWarning: rank {lost} is lost \(.* of epoch 2\); {ranks - 1} of {ranks} ranks go on: {left} left\. "
    expected += r"Training goes on from 'net\.dnn\.1\.ckp', after 1 epochs \(60 samples\)\.\n"
    assert re.search(expected, log_of(one))
    assert log_of(one).count("Starting Epoch 1:") == 1
    assert log_of(one).rstrip().endswith("__COMPLETED__")
    assert list(one.glob("out*"))


def test_before_the_first_checkpoint_training_begins_again(tmp_path, monkeypatch):
    one, other = tmp_path / "elastic", tmp_path / "alone"
    prepare(one)
    prepare(other)
    # The rank that becomes the first one is lost, too, in the first epoch of the second attempt.
    group = run(one, monkeypatch, 3, fault=Fault((0, 0, 1), (0, 0, 1)))
    assert list(group.lost) == [0, 1]
    run(other, monkeypatch, 1, RIGID)
    assert_same_training(one, other)
    lost = "{} is lost (minibatch 3 of epoch 1); {} left. Training begins again.\n"
    assert lost.format("rank 0", "2 of 3 ranks go on: ranks 1, 2 are") in log_of(one)
    assert lost.format("rank 1", "1 of 2 ranks go on: rank 2 is") in log_of(one)


@pytest.mark.slow
def test_a_training_that_began_anew_does_not_do_so_again(tmp_path, monkeypatch):
    prepare(tmp_path)
    run(tmp_path, monkeypatch, 1)
    group = run(tmp_path, monkeypatch, 3, "makeMode=false", fault=Fault((1, 2, 0)))
    assert list(group.lost) == [1]
    assert "Training goes on from 'net.dnn.2.ckp', after 2 epochs (120 samples)." in log_of(tmp_path)
    assert log_of(tmp_path).count("makeMode=false: removed") == 1
    assert log_of(tmp_path).count("Starting Epoch 1:") == 1


def test_too_few_are_left(tmp_path, monkeypatch):
    prepare(tmp_path)
    minimum = "Train=[SGD=[parallelTrain=[minRanks=2]]]"
    monkeypatch.chdir(tmp_path)
    group = VirtualRanks(2, deadline=120.0)

    def work(communicator):
        with closing(Log(quiet=True)) as log:
            run_recipe(["configFile=r.cntk", minimum], log, communicator=communicator, listeners=[Fault((1, 2, 0))])

    with pytest.raises(TrainingError, match="this was injected"):  # the first error; no rank is left
        group.run(work)
    assert not (tmp_path / "net.dnn").exists()
    assert str(group.lost[0]) == (
        "rank 1 is lost (minibatch 2 of epoch 3); 1 of 2 ranks go on: rank 0 is left. "
        "At least 2 must be left (minRanks)\n"
        "    What was saved before is kept; the same command goes on from it."
    )


class EndOf:
    """A listener that ends a rank when another action begins."""

    def __init__(self, rank, action):
        self.place = (rank, action)

    @hookimpl
    def cntk_job_begin(self, job):
        if (job.rank, job.action) == self.place:
            self.place = None
            raise TrainingError("this was injected")


def test_other_actions_are_done_again(tmp_path, monkeypatch):
    prepare(tmp_path)
    group = run(tmp_path, monkeypatch, 3, fault=EndOf(1, "test"))
    assert list(group.lost) == [1]
    assert "rank 1 is lost (" in log_of(tmp_path)
    assert "ranks 0, 2 are left. 'Test' (test) begins again." in log_of(tmp_path)
    assert log_of(tmp_path).count("Final Results") == 1
    assert log_of(tmp_path).rstrip().endswith("__COMPLETED__")


def test_what_the_first_rank_does_alone_the_next_one_does(tmp_path, monkeypatch):
    prepare(tmp_path)
    group = run(tmp_path, monkeypatch, 3, fault=EndOf(0, "write"))
    assert list(group.lost) == [0]
    assert "ranks 1, 2 are left. 'Write' (write) begins again." in log_of(tmp_path)
    assert list(tmp_path.glob("out*"))


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    """A rank that is lost while the first one works alone is not missed in that work."""
    done = []

    def act(context):
        if context.rank == 0:
            done.append(context.ranks)
        elif context.rank == 2:
            raise RuntimeError("this was injected")

    job = SimpleNamespace(command="Write", name="write")
    work = Work(job, 0, act, lambda context: context.communicator.barrier(), lambda context: None)

    def run_one(communicator):
        communicator.tolerate_losses()
        log = SimpleNamespace(line=said.append, to_file=False)
        context = Context(communicator, log)
        return persevere(context, work, 1).ranks

    said = []
    assert VirtualRanks(3).run(run_one) == [2, 2]
    assert done == [3]
    assert said == ["Warning: rank 2 is lost; 2 of 3 ranks go on: ranks 0, 1 are left. 'Write' (write) is done."] * 2


@attrs.frozen
class Context:
    """As much of an ActionContext as losses concern."""

    communicator: VirtualCommunicator
    log: SimpleNamespace
    loss: Loss = attrs.field(factory=Loss)
    begun: Event = attrs.field(factory=Event)
    seeds: SeedNumbers = attrs.field(factory=SeedNumbers)
    alone: VirtualCommunicator | None = None

    @property
    def rank(self):
        return self.communicator.rank

    @property
    def ranks(self):
        return self.communicator.size


def persevered(ranks, act):
    """What ranks say that part, or are lost, as ``act(context, attempt)`` has it."""
    said = []
    job = SimpleNamespace(command="Write", name="write", action=SimpleNamespace(announces_itself=False))

    def run_one(communicator):
        communicator.tolerate_losses()
        attempts = iter(range(100))
        work = Work(
            job,
            0,
            lambda context: act(context, next(attempts)),
            lambda context: context.communicator.barrier(),
            lambda context: None,
        )
        return persevere(Context(communicator, SimpleNamespace(line=said.append, to_file=False)), work, 1).ranks

    try:
        return VirtualRanks(ranks).run(run_one), said
    except RankGone as error:
        return str(error), said


def test_ranks_that_part_for_nothing_again_and_again():
    """A third time is one too many; each that is lost begins the count anew."""
    parted = "Warning: the ranks have parted, but all of them are there. 'Write' (write) begins again."

    def always(context, attempt):
        raise RankGone(f"attempt {attempt}")

    assert persevered(2, always) == ("attempt 2", [parted] * 4)

    def twice(context, attempt):
        if attempt < 2:
            raise RankGone(f"attempt {attempt}")

    assert persevered(2, twice) == ([2, 2], [parted] * 4)

    def with_a_loss(context, attempt):
        if attempt == 2 and context.rank == 2:
            raise RuntimeError("this was injected")
        if attempt < 5:
            raise RankGone(f"attempt {attempt}")

    lost = "Warning: rank 2 is lost; 2 of 3 ranks go on: ranks 0, 1 are left. 'Write' (write) begins again."
    assert persevered(3, with_a_loss) == ([2, 2], [parted] * 6 + [lost] * 2 + [parted] * 4)


def test_who_is_told_to_end_leaves(tmp_path, monkeypatch):
    """One rank is told to end (SIGTERM): all save, it leaves, and the others go on."""
    prepare(tmp_path)

    class Told:
        @hookimpl
        def cntk_minibatch_end(self, job, result):
            if (job.rank, job.ranks, result.epoch, result.minibatch) == (1, 3, 1, 2):
                requests[1].asked = True

    requests = {}
    original = StopRequest

    def make():
        request = original()
        requests[int(threading.current_thread().name.removeprefix("rank "))] = request
        return request

    monkeypatch.setattr("cntk_kit_recipes.recipe.train.StopRequest", make)
    group = run(tmp_path, monkeypatch, 3, fault=Told())
    assert [type(error) for error in group.lost.values()] == [Stopped]
    assert list(group.lost) == [1]
    assert log_of(tmp_path).rstrip().endswith("__COMPLETED__")


def test_communicators_that_cannot(tmp_path, monkeypatch):
    prepare(tmp_path)
    monkeypatch.setattr(VirtualCommunicator, "tolerate_losses", Communicator.tolerate_losses)
    with pytest.raises(UnsupportedError) as caught:
        run(tmp_path, monkeypatch, 2)
    assert str(caught.value) == (
        "the communicator VirtualCommunicator cannot go on without a rank\n"
        "    Leave --elastic (elastic=true) away, or name another one: communicator=..."
    )


def test_more_must_be_left_than_there_are(tmp_path, monkeypatch):
    prepare(tmp_path)
    monkeypatch.setenv(ELASTIC, "3")
    with pytest.raises(ConfigError) as caught:
        run(tmp_path, monkeypatch, 2)
    assert str(caught.value) == (
        "3 ranks must be left (minRanks), but there are only 2 to begin with\n"
        "    Give a smaller number, or start more ranks."
    )


def test_who_asks_for_it(tmp_path):
    prepare(tmp_path)
    recipe = str(tmp_path / "r.cntk")
    registry = PluginManager(load_hooks=False).registry

    def jobs(*arguments):
        return find_jobs(load_recipe([f"configFile={recipe}", *arguments]), registry)

    more = "Train=[SGD=[parallelTrain=[minRanks=2]]]"
    assert min_ranks(jobs(), {}) == 1
    assert min_ranks(jobs(more), {}) == 2
    assert min_ranks(jobs(RIGID, more), {}) == 0
    assert min_ranks(jobs(RIGID, more), {ELASTIC: "recipe"}) == 2
    assert min_ranks(jobs(RIGID), {ELASTIC: "recipe"}) == 1
    assert min_ranks(jobs(more), {ELASTIC: "3"}) == 3
    for wrong in ("yes", "0", "-1", "1.5"):
        with pytest.raises(ConfigError) as caught:
            min_ranks(jobs(), {ELASTIC: wrong})
        assert caught.value.message == (
            f"CNTK_ELASTIC is '{wrong}': it is a number of ranks that is at least 1, or 'recipe'"
        )
    assert asked_in_recipe([f"configFile={recipe}"], "train")
    assert not asked_in_recipe([f"configFile={recipe}", RIGID], "train")
    assert not asked_in_recipe([f"configFile={recipe}"], "test")
    assert not asked_in_recipe([f"configFile={recipe}.not"], "train")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--min-ranks", "2"], "--min-ranks says how many ranks must be left, which is for --elastic alone"),
        (["--elastic", "--min-ranks", "0"], "--min-ranks 0 makes no sense: at least 1 rank must be left"),
        (["--elastic", "--restarts", "-1"], "--restarts -1 makes no sense: it is at least 0"),
        ([RIGID, "--restarts", "1"], "--restarts starts ranks again that were lost, which is for --elastic alone"),
        (
            ["--elastic", "--on", "ray", "--restarts", "1"],
            "--restarts is for ranks on this machine: ray starts those of --on itself",
        ),
    ],
)
def test_mistakes_on_the_command_line(tmp_path, capsys, arguments, message):
    prepare(tmp_path)
    assert main(["train", str(tmp_path / "r.cntk"), "-n", "2", *arguments]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], "recipe"), (["--elastic", "--min-ranks", "2"], "2"), ([RIGID], ""), (["--elastic", RIGID], "recipe")],
)
def test_what_ranks_are_told(tmp_path, monkeypatch, arguments, expected):
    prepare(tmp_path)
    told = []
    launch = "cntk_kit_recipes.launch.launcher.launch"
    monkeypatch.setattr(launch, lambda *given: told.append((given[3], given[6])) or 0)
    assert main(["train", str(tmp_path / "r.cntk"), "-n", "2", *arguments]) == 0
    assert told == [(expected, 0)]
