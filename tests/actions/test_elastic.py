"""``--elastic``: when ranks are lost, those that are left do what a restart with as many ranks would do."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from cntk_core.actions.driver import run_recipe
from cntk_core.actions.log import Log
from cntk_core.errors import TrainingError
from cntk_core.plugins.markers import hookimpl
from cntk_core.testing import VirtualRanks
from cntk_core.training.checkpoint import load_checkpoint

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


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("ranks", "lost"), [(3, 0), (3, 1), (2, 1)])
def test_the_same_as_a_restart_with_those_that_are_left(tmp_path, monkeypatch, method, ranks, lost):
    place = (lost, 1, 1)
    for name in ("elastic", "restarted"):
        prepare(tmp_path / name, method)
    group = run(tmp_path / "elastic", monkeypatch, ranks, fault=Fault(place))
    assert list(group.lost) == [lost]
    with pytest.raises(TrainingError, match="this was injected"):
        run(tmp_path / "restarted", monkeypatch, ranks, RIGID, fault=Fault(place))
    assert not (tmp_path / "restarted" / "net.dnn").exists()
    run(tmp_path / "restarted", monkeypatch, ranks - 1, RIGID)
    for name in ("net.dnn", "net.dnn.1", "out.z"):
        found = (tmp_path / "elastic" / name).read_bytes() if (tmp_path / "elastic" / name).exists() else None
        assert found == ((tmp_path / "restarted" / name).read_bytes() if name != "out.z" else found), name
    found, expected = (load_checkpoint(tmp_path / one / "net.dnn.ckp").arrays for one in ("elastic", "restarted"))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
