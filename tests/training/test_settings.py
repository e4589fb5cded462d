"""The SGD block: values, units, and every mistake with its exact text."""

from __future__ import annotations

import math

import pytest
from cntk_learner_adagrad import AdaGrad
from cntk_learner_adam import Adam, AdamOptions
from cntk_learner_rmsprop import RmsProp
from cntk_learner_sgd import SGD, SGDOptions

from cntk_core.config import Config, parse_text
from cntk_core.errors import CntkError
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.block.sgd_block import idle_momentum, learner_name, make_learner, read_settings


def block(text: str, top: str = "") -> Config:
    return parse_text(f"{top}\nSGD=[\n{text}\n]", file="r.cntk").section("SGD")


def read(text: str, top: str = "", learner_options: type = SGDOptions, **more) -> SGDSettings:
    return read_settings(block(text, top), learner_options, **more)


GOOD = "maxEpochs=3 ; learningRatesPerSample=0.1"


def test_defaults_are_those_of_the_original():
    settings = read(GOOD)
    assert (settings.max_epochs, settings.epoch_size, settings.minibatch_size[0]) == (3, 0, 256)
    assert settings.momentum(0) == pytest.approx(0.9 ** (1 / 256))
    assert settings.clipping_threshold_per_sample == math.inf
    assert (settings.num_mbs_to_show_result, settings.first_mbs_to_show_result, settings.trace_level) == (10, 0, 0)
    assert not settings.clips
    assert not settings.clips_norm
    assert not settings.injects_noise
    assert settings.parts(256) == 1


def test_rates_and_momentum_are_per_sample_whatever_the_unit():
    settings = read("maxEpochs=3; minibatchSize=8:16; learningRatesPerMB=0.8:3.2*2:0.08; momentumPerMB=0.5")
    assert [settings.rate(epoch) for epoch in range(4)] == [0.1, 0.2, 0.2, 0.005]
    assert settings.momentum(0) ** 8 == pytest.approx(0.5)
    assert settings.momentum(1) ** 16 == pytest.approx(0.5)
    whole = read("maxEpochs=2; minibatchSize=8:1; learningRatesPerMB=0.8; momentumPerMB=0.5; truncated=false")
    assert (whole.momentum(0, 3), whole.rate(0, 3)) == (settings.momentum(0), settings.rate(0))
    by_row = read("maxEpochs=2; minibatchSize=8:1; learningRatesPerMB=0.8; momentumPerMB=0.5; truncated=true")
    assert by_row.momentum(0, 3) ** 24 == pytest.approx(0.5)
    assert by_row.rate(0, 3) == pytest.approx(0.8 / 24)
    assert (by_row.momentum(1, 3), by_row.rate(1, 3)) == (0.5, 0.8)  # a minibatch of 1 is not truncated
    by_time = read(GOOD + "; momentumAsTimeConstant=0:30")
    assert by_time.momentum(0) == 0.0
    assert by_time.momentum(1) == pytest.approx(math.exp(-1 / 30), rel=1e-7)
    assert read(GOOD + "; momentumPerSample=0.99").momentum(5) == 0.99


def test_trace_level_comes_from_the_parents():
    assert read(GOOD, top="traceLevel=2").trace_level == 2


def test_parts_follow_the_memory_limit_before_the_number():
    assert read(GOOD + "; minibatchSize=100; maxSamplesInRAM=30; numSubminibatches=2").parts(100) == 4
    assert read(GOOD + "; numSubminibatches=2").parts(256) == 2


@pytest.mark.parametrize("word", ["none", "Normal", "simple", ""])
def test_the_plain_rule_has_several_names(word):
    assert learner_name(block(GOOD + (f"; gradUpdateType={word}" if word else ""))) == "sgd"


def test_other_rules_are_names_of_plugins():
    assert learner_name(block(GOOD + "; gradUpdateType=lion")) == "lion"
    assert learner_name(block(GOOD + "; useAdagrad=true")) == "adagrad"
    assert read(GOOD + "; gradUpdateType=lion").grad_update_type == "lion"


def test_the_learner_takes_its_own_keys():
    learner = make_learner(block(GOOD + "; useNAG=true"), SGD)
    assert learner.settings.use_nag is True


def test_keys_without_effect_are_noted_once():
    notes: list[str] = []
    read(GOOD + "; numMBsToCUDAProfile=3; executionEngine=synchronous; unroll=false", note=notes.append)
    assert notes == ["SGD: without effect here: numMBsToCUDAProfile, executionEngine, unroll"]


def test_options_of_another_rule_are_noted_but_not_those_of_the_chosen_one():
    notes: list[str] = []
    text = GOOD + "; rms_gamma=0.9; normWithAveMultiplier=false; useNAG=true"
    read(text, learner_options=AdaGrad.options, note=notes.append)
    assert notes == ["SGD: without effect here: rms_gamma, useNAG"]


def test_a_momentum_that_the_rule_does_not_look_at_is_noted():
    given = block(GOOD + "; momentumPerSample=0.9; gradUpdateType=AdaGrad")
    assert idle_momentum(given, AdaGrad()) == (
        "SGD: without effect here, since the learner 'AdaGrad' has no momentum: momentumPerSample"
    )
    assert idle_momentum(block(GOOD + "; gradUpdateType=AdaGrad"), AdaGrad()) == ""
    assert idle_momentum(given, SGD()) == ""
    assert idle_momentum(given, Adam()) == ""
    assert idle_momentum(given, Adam(AdamOptions(beta1=0.9))) != ""


def test_keys_of_automatic_control_may_stand_beside_their_block():
    notes: list[str] = []
    assert not read(
        GOOD + "; loadBestModel=false; autoAdjust=[ autoAdjustLR=after ]", note=notes.append
    ).auto_adjust.rolls_back
    assert notes == []
    read(GOOD + "; loadBestModel=false", note=notes.append)
    assert notes == ["SGD: without effect here: loadBestModel"]


def test_a_parallel_block_is_ignored_while_the_switch_is_off():
    notes: list[str] = []
    text = GOOD + "; parallelTrain=[ parallelizationMethod=DataParallelSGD ]"
    read(text, note=notes.append)
    read(text, top="parallelTrain=false")
    assert notes == ["parallelTrain option is not enabled. ParallelTrain config will be ignored."]


def test_an_adjusting_block_that_does_nothing_is_accepted():
    read(GOOD + "; autoAdjust=[ autoAdjustLR=none ; loadBestModel=true ]")


CASES = {
    "maxEpochs=3": """r.cntk:2:1: the learning rate is missing
    Add learningRatesPerSample=... or learningRatesPerMB=... to the SGD block.""",
    GOOD + "; learningRatesPerMB=1": """r.cntk:3:43: 'learningRatesPerSample' and 'learningRatesPerMB' are both given
    Keep one of learningRatesPerSample, learningRatesPerMB ('learningRatesPerSample' is at r.cntk:3:15).""",
    GOOD + "\nmomentumPerMB=0.5\nmomentumAsTimeConstant=9": (
        "r.cntk:5:1: 'momentumPerMB' and 'momentumAsTimeConstant' are both given\n"
        "    Keep one of momentumPerSample, momentumPerMB, momentumAsTimeConstant ('momentumPerMB' is at r.cntk:4:1)."
    ),
    GOOD + "\nmomentumPerMB=0.5:1": "r.cntk:4:15: momentumPerMB must be in [0, 1), not 1",
    GOOD + "\nmomentumPerSample=-0.1": "r.cntk:4:19: momentumPerSample must be in [0, 1), not -0.1",
    GOOD + "\nmomentumAsTimeConstant=-3": "r.cntk:4:24: momentumAsTimeConstant must not be negative, not -3",
    GOOD + "\ndropoutRate=1": "r.cntk:4:13: dropoutRate must be in [0, 1), not 1",
    GOOD + "\nL2RegWeight=-1": "r.cntk:4:13: L2RegWeight must not be negative, not -1",
    GOOD + "\nclippingThresholdPerSample=0": "r.cntk:4:28: clippingThresholdPerSample must be more than 0, not 0",
    GOOD + "\nminibatchSize=8:0": "r.cntk:4:15: minibatchSize must be at least 1, not 0",
    GOOD + "\nnumSubminibatches=0": "r.cntk:4:19: numSubminibatches must be at least 1, not 0",
    "maxEpochs=-1 ; learningRatesPerSample=0.1": "r.cntk:3:11: maxEpochs must not be negative, not -1",
    GOOD + "\nepochSize=10\nminibatchSize=16": """r.cntk:4:1: epochSize is 10, less than the minibatchSize 16
    An epoch has at least one minibatch; epochSize=0 is one sweep over the data.""",
    GOOD + "\nautoAdjust=[ learnRateDecreaseFactor=2 ]": (
        "r.cntk:4:38: 'learnRateDecreaseFactor' must be in (0, 1], not 2\n    adjustAfterEpoch: at most 1"
    ),
    GOOD + "\nautoAdjust=[ numSamples4Search=9:0 ]": (
        "r.cntk:4:32: 'numSamples4Search' must be at least 1, not 0\n"
        "    samples of a trial, by epoch; default: 500 minibatches"
    ),
    GOOD + "\nautoAdjust=[ autoAdjustLR=sometimes ]": (
        "r.cntk:4:27: 'autoAdjustLR' must be none, searchBeforeEpoch or adjustAfterEpoch, not 'sometimes'\n"
        "    none, searchBeforeEpoch or adjustAfterEpoch"
    ),
}


@pytest.mark.parametrize(("text", "message"), CASES.items(), ids=range(len(CASES)))
def test_mistakes(text, message):
    with pytest.raises(CntkError) as caught:
        read(text)
    assert str(caught.value) == message


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(CntkError) as caught:
        read(GOOD + "\nlearningRatePerSample=1")
    first = str(caught.value).splitlines()[0]
    assert first == (
        "r.cntk:4:1: the SGD block has no option 'learningRatePerSample'; did you mean 'learningRatesPerSample'?"
    )


def test_an_unknown_key_names_the_nearest_of_the_learner_too():
    with pytest.raises(CntkError) as caught:
        read(GOOD + "; gradUpdateType=rmsprop; rms_gama=0.9", learner_options=RmsProp.options)
    assert caught.value.message == "the SGD block has no option 'rms_gama'; did you mean 'rms_gamma'?"


def test_one_worker_trains_serially_and_says_so():
    notes: list[str] = []
    text = GOOD + "; parallelTrain=[ parallelizationMethod=DataParallelSGD ]"
    read(text, top="parallelTrain=true", note=notes.append)
    assert notes == ["SGD: parallelTrain: there is one worker, so training is serial and the block has no effect."]


def test_several_workers_are_told_nothing():
    notes: list[str] = []
    text = GOOD + "; parallelTrain=[ parallelizationMethod=DataParallelSGD ]"
    read(text, top="parallelTrain=true", note=notes.append, ranks=2)
    assert notes == []


def test_all_mistakes_are_reported_together():
    with pytest.raises(CntkError) as caught:
        read("maxEpoch=3\nlearningRatesPerMB=1\nmomentumPerMB=2\ngradientcheck=maybe\nminibatchSize=x")
    text = str(caught.value)
    assert "has no option 'maxEpoch'" in text
    assert "required parameter missing: SGD:maxEpochs" in text
    assert "SGD:minibatchSize[0] must be a whole number, not 'x'" in text
    assert "SGD:gradientcheck must be true or false, not 'maybe'" in text
    assert text.endswith("4 problems found")
