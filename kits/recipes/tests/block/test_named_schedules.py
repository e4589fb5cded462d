"""Rules in the SGD block: their values, mistakes, other people's rules, and a training that is resumed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cntk_core.config import Config, parse_text
from cntk_core.contract.schedule import EpochSchedule
from cntk_core.errors import CntkError
from cntk_core.plugins.manager import PluginManager
from cntk_core.plugins.markers import hookimpl
from cntk_core.plugins.model_formats import ModelFiles
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.block.named_schedules import with_schedules
from cntk_kit_recipes.block.sgd_block import read_settings
from cntk_kit_recipes.recipe.driver import run_recipe
from cntk_kit_recipes.recipe.log import Log


@pytest.fixture(scope="module")
def registry():
    return PluginManager(load_hooks=False).registry


def block(text: str, epochs: int = 4) -> Config:
    return parse_text(f"maxEpochs = {epochs}\n{text}\n", file="r.cntk")


def read(text: str, registry, epochs: int = 4) -> SGDSettings:
    return read_settings(with_schedules(block(text, epochs), registry.schedules))


def values(rule: str, registry, epochs: int = 4) -> list[float]:
    settings = read(f"learningRatesPerSample = [ {rule} ]", registry, epochs)
    return [settings.learning_rates_per_sample[epoch] for epoch in range(epochs + 1)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("type = list ; values = 0.5*2:0.25", [0.5, 0.5, 0.25, 0.25, 0.25]),
        ("type = step ; start = 8 ; factor = 0.5 ; every = 2", [8, 8, 4, 4, 4]),
        ("type = exponential ; start = 8 ; factor = 0.5", [8, 4, 2, 1, 1]),
        ("type = polynomial ; start = 8", [8, 6, 4, 2, 2]),
        ("type = polynomial ; start = 17 ; end = 1 ; power = 2", [17, 10, 5, 2, 2]),
        ("type = cosine ; start = 3 ; end = 1", [3, 2 + math.sqrt(0.5), 2, 2 - math.sqrt(0.5), 2 - math.sqrt(0.5)]),
        ("type = COSINE ; start = 2 ; epochs = 2", [2, 1, 2, 1, 1]),
        ("type = linearWarmup ; peak = 6 ; warmupEpochs = 2", [3, 6, 4, 2, 2]),
        ("type = linearWarmup ; start = 2 ; peak = 6 ; end = 2", [6, 5, 4, 3, 3]),
    ],
)
def test_the_rules(rule, expected, registry):
    assert values(rule, registry) == pytest.approx(expected, rel=1e-12)


def test_every_key_that_takes_a_list_takes_a_rule(registry):
    settings = read(
        "learningRatesPerMB = [ type = step ; start = 1 ; factor = 0.5 ]\n"
        "momentumAsTimeConstant = [ type = polynomial ; start = 100 ; end = 20 ]\n"
        "minibatchSize = [ type = exponential ; start = 10 ; factor = 1.25 ]\n"
        "dropoutRate = [ type = list ; values = 0.5:0 ]\n"
        "L2RegWeight = [ type = step ; start = 0.25 ; every = 9 ]",
        registry,
    )
    assert [settings.minibatch_size[epoch] for epoch in range(4)] == [10, 12, 16, 20]
    assert [settings.learning_rates_per_mb[epoch] for epoch in range(4)] == [1, 0.5, 0.25, 0.125]
    assert settings.rate(1) == 0.5 / 12
    assert [settings.momentum_as_time_constant[epoch] for epoch in range(4)] == [100, 80, 60, 40]
    assert settings.dropout_rate[3] == 0
    assert settings.l2_reg_weight[3] == 0.25


def test_a_key_of_a_parent_counts(registry):
    top = parse_text("minibatchSize = [ type = step ; start = 4 ; factor = 2 ]\nSGD = [ maxEpochs = 2 ]\n")
    settings = with_schedules(top.section("SGD"), registry.schedules).schedule("minibatchSize", int)
    assert (settings[0], settings[1]) == (4, 8)


def test_lists_stay_as_they_are(registry):
    given = block("learningRatesPerSample = 0.1*2:0.05")
    assert with_schedules(given, registry.schedules) is given


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "learningRatesPerSample = [ type = cosin ; start = 1 ]",
            "r.cntk:2:35: no schedule named 'cosin'; did you mean 'cosine'?",
        ),
        ("learningRatesPerSample = [ start = 1 ]", "required parameter missing: learningRatesPerSample:type"),
        (
            "learningRatesPerSample = [ type = cosine ; strat = 1 ]",
            "schedule 'cosine' has no option 'strat'; did you mean 'start'?",
        ),
        ("learningRatesPerSample = [ type = cosine ]", "required parameter missing: learningRatesPerSample:start"),
        (
            "learningRatesPerSample = [ type = step ; start = 1 ; every = 0 ]",
            "'every' must be at least 1, not 0",
        ),
        (
            "learningRatesPerSample = [ type = polynomial ; start = 1 ; end = -4 ]",
            "r.cntk:2:26: learningRatesPerSample must not be negative, not -0.25",
        ),
        (
            "learningRatesPerSample = [ type = exponential ; start = 1e300 ; factor = 1e10 ]",
            "r.cntk:2:26: schedule 'exponential' gives inf for epoch 2",
        ),
        ("learningRatesPerSample = 1 ; momentumPerMB = [ type = step ; start = 1 ]", "must be in [0, 1), not 1"),
    ],
)
def test_mistakes(text, message, registry):
    with pytest.raises(CntkError) as caught:
        read(text, registry)
    assert message in str(caught.value)


def test_all_mistakes_together(registry):
    with pytest.raises(CntkError) as caught:
        read("learningRatesPerSample = [ type = a ]\nminibatchSize = [ type = b ]", registry)
    assert "named 'a'" in str(caught.value)
    assert "named 'b'" in str(caught.value)


RULE = """
from cntk_core.api import *


@options
class SawOptions:
    start: float
    teeth: int = option(default=2)


class Saw(EpochSchedule):
    options, requires_api = SawOptions, "1.0"

    def value(self, epoch, epochs):
        return self.settings.start * (1 + epoch % self.settings.teeth)
"""


def test_from_a_file(tmp_path):
    (tmp_path / "p.py").write_text(RULE, encoding="utf-8")
    registry = PluginManager([str(tmp_path / "p.py")]).registry
    assert values("type = Saw ; start = 0.5 ; teeth = 3", registry) == [0.5, 1.0, 1.5, 0.5, 0.5]


class Fixed(EpochSchedule):
    """Gives what it is told to, wrong things too."""

    requires_api = "1.0"
    given: object = 1.0

    def value(self, epoch, epochs):
        return self.given


class Offers:
    @hookimpl
    def cntk_register(self, registry):
        registry.schedules.add("fixed", Fixed)


def test_from_a_hook_and_what_is_no_number():
    registry = PluginManager(listeners=[Offers()]).registry
    for given in (1.0, 1, np.float32(0.5), np.int64(3)):
        Fixed.given = given
        assert values("type = fixed", registry) == [given] * 5
    assert read("learningRatesPerMB = 1 ; minibatchSize = [ type = fixed ]", registry).minibatch_size[0] == 3
    Fixed.given = "many"
    with pytest.raises(CntkError, match="schedule 'fixed' gives 'many' for epoch 1"):
        values("type = fixed", registry)
    Fixed.given = 1.0


RECIPE = """command = Train
modelPath = net.dnn
reader = [ readerType = CNTKTextFormatReader ; file = ../data.ctf
 input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 2 ; format = dense ] ] ]
Train = [
 action = train
 SimpleNetworkBuilder = [ layerSizes = 2:4:2 ; trainingCriterion = CrossEntropyWithSoftmax ]
 SGD = [
  epochSize = 0 ; maxEpochs = 6
  minibatchSize = [ type = step ; start = 4 ; factor = 2 ; every = 2 ]
  learningRatesPerSample = [ type = cosine ; start = 0.1 ]
  momentumAsTimeConstant = [ type = linearWarmup ; peak = 30 ; end = 10 ; warmupEpochs = 3 ]
 ]
]
"""


class Rates:
    """Notes the rate of each epoch, and fails after one."""

    def __init__(self, last: int = -1) -> None:
        self.last = last
        self.seen: list[tuple[int, float]] = []

    @hookimpl
    def cntk_epoch_begin(self, job, epoch):
        self.seen.append((epoch.epoch, epoch.learning_rate))

    @hookimpl
    def cntk_epoch_end(self, job, summary):
        if summary.epoch == self.last:
            raise CntkError("stopped on purpose")


def train(folder: Path, monkeypatch: pytest.MonkeyPatch, rates: Rates) -> None:
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    Path("r.cntk").write_text(RECIPE, encoding="utf-8")
    log = Log(quiet=True)
    try:
        run_recipe(["configFile=r.cntk"], log, listeners=[rates])
    finally:
        log.close()


def test_a_training_that_is_resumed_goes_on_with_its_rates(tmp_path, monkeypatch):
    random = np.random.default_rng(1)
    rows = [f"|features {a:.3f} {b:.3f} |labels {int(a > b)} {int(a <= b)}\n" for a, b in random.normal(size=(40, 2))]
    (tmp_path / "data.ctf").write_text("".join(rows), encoding="utf-8")
    whole = Rates()
    train(tmp_path / "whole", monkeypatch, whole)
    first, second = Rates(last=3), Rates()
    with pytest.raises(CntkError, match="stopped on purpose"):
        train(tmp_path / "parts", monkeypatch, first)
    train(tmp_path / "parts", monkeypatch, second)
    assert len(whole.seen) == 6
    assert {epoch for epoch, _ in second.seen} < {epoch for epoch, _ in whole.seen}
    assert dict(first.seen) | dict(second.seen) == dict(whole.seen)
    assert (tmp_path / "parts/net.dnn").read_bytes() == (tmp_path / "whole/net.dnn").read_bytes()
    assert len(ModelFiles(PluginManager(load_hooks=False).registry).load(tmp_path / "whole/net.dnn")) > 4
    expected = [0.1 * (1 + math.cos(math.pi * epoch / 6)) / 2 for epoch in range(6)]
    assert [rate for _, rate in whole.seen] == pytest.approx(expected, rel=1e-6)
