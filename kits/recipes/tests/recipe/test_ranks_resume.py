"""Recipes that several ranks train: stopped inside an epoch or after one, they go on to the last bit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cntk_core.api import TrainingError, hookimpl
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import VirtualRanks

RECIPE = """\
command = Train
deviceId = cpu
engine = cpu
traceLevel = 1
modelPath = "net.dnn"
Train = [
    action = train
    SimpleNetworkBuilder = [
        layerSizes = 4:7:3 ; trainingCriterion = CrossEntropyWithSoftmax ; addDropoutNodes = true
    ]
    SGD = [
        maxEpochs = 3 ; minibatchSize = 12 ; learningRatesPerSample = 0.02 ; momentumPerMB = 0.9 ; dropoutRate = 0.1
        checkpointEverySamples = 30
        parallelTrain = [ parallelizationMethod = {method} ]
    ]
    reader = [
        file = data.ctf ; randomize = true
        input = [ features = [ dim = 4 ; format = dense ] ; labels = [ dim = 3 ; format = sparse ] ]
    ]
]
"""
SAMPLES = 96
GRADIENTS = {
    "one bit": "DataParallelSGD ; DataParallelSGD = [ gradientBits = 1 ; resetResidualPerEpoch = false ]",
    "one bit, buffered": "DataParallelSGD ; DataParallelSGD = [ gradientBits = 1 ; "
    "useBufferedAsyncGradientAggregation = true ]",
}
MODELS = {
    "block momentum": "BlockMomentumSGD ; BlockMomentumSGD = [ blockSizePerWorker = 15 ; resetSGDMomentum = false ]",
    "one bit in blocks": "BlockMomentumSGD ; "
    "BlockMomentumSGD = [ blockSizePerWorker = 30 ; ranksPerWorker = 2 ; gradientBits = 1 ]",
    "asynchronous in blocks": "BlockMomentumSGD ; BlockMomentumSGD = [ blockSizePerWorker = 15 ; ranksPerWorker = 2 ; "
    "localMethod = DataParallelASGD ; DataParallelASGD = [ syncPeriodPerWorker = 4 ; simulatedTime = [ ] ] ]",
    "averaging": "ModelAveragingSGD ; distributedMBReading = false ; ModelAveragingSGD = [ blockSizePerWorker = 15 ]",
    "asynchronous": "DataParallelASGD ; DataParallelASGD = [ "
    "syncPeriodPerWorker = 8 ; delayCompensation = adaptive ; simulatedTime = [ jitter = 0.5 ; slowness = 1:2 ] ]",
}


class Stop:
    """Ends a run on one rank after a minibatch, as (epoch, minibatch), without saving."""

    def __init__(self, after):
        self.after = after

    @hookimpl
    def cntk_minibatch_end(self, job, result):
        if job.rank == 1 and (result.epoch, result.minibatch) == self.after:
            raise TrainingError("this was injected")


@pytest.fixture
def ready(tmp_path, monkeypatch):
    """Make a folder with recipe and data and go there: ``ready(name, method)``."""

    def make(name, method):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("r.cntk").write_text(RECIPE.format(method=method), encoding="utf-8")
        rows = [
            f"|features {i % 5 - 2} {i % 7 / 3:.3f} {i % 3} {(i * i) % 11 / 5} |labels {(i % 5 + i % 7) % 3}:1\n"
            for i in range(SAMPLES)
        ]
        Path("data.ctf").write_text("".join(rows), encoding="utf-8")

    return make


def train(ranks, stop=None):
    """Train here; return what rank 0 has said."""
    said = [Log(quiet=True) for _ in range(ranks)]
    lines = []
    said[0].line = lines.append

    def work(communicator):
        listeners = [] if stop is None else [Stop(stop)]
        run_recipe(["configFile=r.cntk"], said[communicator.rank], listeners=listeners, communicator=communicator)

    VirtualRanks(ranks, deadline=120.0).run(work)
    return "\n".join(lines)


def stop(ranks, after):
    with pytest.raises(TrainingError, match="this was injected"):
        train(ranks, after)
    assert not Path("net.dnn").exists()


def place(said):
    """Epochs and minibatches with which a training went on."""
    found = re.search(r"Restored from '.*': (\d) epochs, \d+ samples(?:, (\d) minibatches of the next epoch)?", said)
    assert found is not None, said
    return int(found[1]), int(found[2] or 0)


@pytest.mark.parametrize("strategy", [*GRADIENTS, *MODELS])
@pytest.mark.sampled(6)
def test_a_stopped_training_goes_on_to_the_last_bit(ready, strategy):
    """Inside an epoch, and at the end of one."""
    method, ranks = {**GRADIENTS, **MODELS}[strategy], 4 if strategy.endswith("in blocks") else 2
    ready("through", method)
    train(ranks)
    expected = Path("net.dnn").read_bytes()
    for name, after, epochs in (("inside", (1, 7), 1), ("after", (2, 1), 2)):
        ready(name, method)
        stop(ranks, after)
        begun, minibatches = place(train(ranks))
        assert begun == epochs
        assert (minibatches > 0) == (name == "inside")
        assert Path("net.dnn").read_bytes() == expected, name


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        (
            "one bit",
            [
                "Warning: the checkpoint 'net.dnn.1.N.ckp' inside epoch 2 is not used: it is of 2 ranks, and now there "
                "are 3",
                "Warning: the checkpoint 'net.dnn.1.N.ckp' inside epoch 2 is not used: it is of 2 ranks, and now there "
                "are 3",
                "The checkpoint is of 2 ranks, now there are 3: what 2 ranks had not sent of their gradients is "
                "divided among 3.",
            ],
        ),
        (
            "block momentum",
            [
                "Warning: the checkpoint 'net.dnn.1.N.ckp' inside epoch 2 is not used: it is of 2 ranks, and now there "
                "are 3",
                "Warning: the checkpoint 'net.dnn.1.N.ckp' inside epoch 2 is not used: it is of 2 ranks, and now there "
                "are 3",
                "The checkpoint is of 2 ranks, now there are 3: there are 3 workers instead of 2; the block momentum "
                "is 0.6667 instead of 0.5.",
            ],
        ),
        (
            "asynchronous",
            [
                "Warning: the checkpoint 'net.dnn.1.N.ckp' inside epoch 2 is not used: it is of 2 ranks, and now there "
                "are 3",
                "Warning: the checkpoint 'net.dnn.1.N.ckp' inside epoch 2 is not used: it is of 2 ranks, and now there "
                "are 3",
                "The checkpoint is of 2 ranks, now there are 3: there are 3 workers instead of 2.",
            ],
        ),
    ],
)
@pytest.mark.sampled(3)
def test_another_number_of_ranks(ready, strategy, said):
    """Training goes on from the last whole epoch and comes to its end; the log says what is different."""
    ready("other", {**GRADIENTS, **MODELS}[strategy])
    stop(2, (1, 7))
    found = train(3)
    assert place(found) == (1, 0)
    told = [re.sub(r"\.1\.\d\.ckp", ".1.N.ckp", line) for line in found.splitlines() if " ranks" in line]
    assert told == said
    assert Path("net.dnn").exists()
