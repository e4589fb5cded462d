"""Every key of the SGD block of CNTK 2.0 is read, refused or noted; none is silently ignored."""

from __future__ import annotations

import attrs
import pytest
from cntk_learner_fsadagrad import FSAdaGrad
from cntk_learner_rmsprop import RmsProp
from cntk_learner_sgd import SGD

from cntk_core.config import parse_text
from cntk_core.errors import CntkError
from cntk_core.training.rates.auto_adjust import AutoAdjust
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.block.sgd_block import learner_name, make_learner, read_settings

SETTINGS = {
    "epochSize": "1000",
    "minibatchSize": "8:16",
    "learningRatesPerSample": "0.1:0.2",
    "learningRatesPerMB": "1:2",
    "momentumPerSample": "0.99",
    "momentumPerMB": "0.5",
    "momentumAsTimeConstant": "100",
    "truncated": "true",
    "minLearningRatePerSample": "1e-5",
    "keepCheckPointFiles": "true",
    "saveBestModelPerCriterion": "true",
    "dropoutRate": "0.5:0",
    "batchNormalizationTimeConstant": "100:0",
    "batchNormalizationBlendTimeConstant": "5",
    "L1RegWeight": "0.1",
    "L2RegWeight": "0.1",
    "gaussianNoiseInjectStd": "0.1",
    "clippingThresholdPerSample": "1",
    "gradientClippingWithTruncation": "false",
    "maxSamplesInRAM": "100",
    "numSubminibatches": "2",
    "checkpointEverySamples": "1000",
    "checkpointEveryMinutes": "0.5",
    "numMBsToShowResult": "3",
    "firstMBsToShowResult": "3",
    "traceLevel": "1",
    "trainCriterionNodeName": "ce",
    "evalCriterionNodeName": "errs",
    "disableRegInBatchNormalization": "true",
    "disableWkInBatchNormal": "true",
    "gradientcheck": "true",
    "sigFigs": "4",
    "UseAllDataForPreComputedNode": "false",
    "gradUpdateType": "lion",
}
"""Keys that settings hold, each with a value that is not the default."""

ADJUST = {
    "autoAdjustLR": "after",
    "reduceLearnRateIfImproveLessThan": "0.1",
    "continueReduce": "true",
    "learnRateAdjustInterval": "2",
    "learnRateDecreaseFactor": "0.5",
    "learnRateIncreaseFactor": "2",
    "increaseLearnRateIfImproveMoreThan": "0.5",
    "autoAdjustMinibatch": "true",
    "minibatchSizeTuningFrequency": "2",
    "minibatchSizeTuningMax": "512",
    "minibatchSearchCriterionErrorMargin": "2",
    "numPrevLearnRates": "3",
    "numBestSearchEpoch": "2",
    "betterThanUnchanged": "true",
    "loadBestModel": "false",
    "UseCVSetControlLRIfCVExists": "false",
    "UseEvalCriterionControlLR": "true",
    "numSamples4Search": "100:200",
    "numMiniBatch4LRSearch": "10",
}

NOTED = {
    "maxTempMemSizeInSamplesForCNN": "10",
    "packThresholdSizeInKB": "64",
    "numMBsToCUDAProfile": "3",
    "unitTest": "true",
    "executionEngine": "synchronous",
    "tensorBoardLogDir": "logs",
    "tensorBoardNumMBsToLogResult": "5",
    "hSmoothingWeight": "0.9",
    "frameDropThresh": "1e-8",
    "doReferenceAlign": "true",
    "seqGammarAMF": "12",
    "seqGammarLMF": "12",
    "seqGammarUsesMBR": "true",
    "seqGammarBMMIFactor": "0.1",
    "seqGammarWordPen": "0.1",
    "adaptationRegWeight": "0.5",
    "adaptationRegType": "kl",
    "parallelTrain": "[ parallelizationMethod=DataParallelSGD ]",
    "rms_gamma": "0.9",
    "fsAdagradTargetAvDenom": "2",
    "varianceTimeConstant": "100",
    "normWithAveMultiplier": "false",
}
"""Keys that have no effect, with the plain rule and in this release; a note names them."""

RULES = {
    "useNAG": (SGD, "true"),
    "rms_wgt_inc": (RmsProp, "1.5"),
    "rms_wgt_dec": (RmsProp, "0.5"),
    "rms_wgt_max": (RmsProp, "9"),
    "rms_wgt_min": (RmsProp, "0.2"),
    "rms_gamma": (RmsProp, "0.9"),
    "normWithAveMultiplier": (RmsProp, "false"),
    "varianceTimeConstant": (FSAdaGrad, "100"),
    "fsAdagradTargetAvDenom": (FSAdaGrad, "2"),
}
"""Keys of update rules."""


def block(key: str, value: str):
    rate = "" if key.startswith("learningRates") else "learningRatesPerSample=0.1"
    lines = ["maxEpochs=3", rate, f"{key}={value}" if key else ""]
    return parse_text("SGD=[\n" + "\n".join(lines) + "\n]", file="r.cntk").section("SGD")


def differing(first, second) -> set[str]:
    fields = {field.name for field in attrs.fields(type(first))}
    return {name for name in fields if getattr(first, name) != getattr(second, name)}


def defaults() -> SGDSettings:
    return read_settings(block("", ""))


@pytest.mark.parametrize(("key", "value"), SETTINGS.items(), ids=SETTINGS)
def test_a_key_changes_one_setting(key, value):
    changed = differing(read_settings(block(key, value)), defaults())
    assert len(changed - {"learning_rates_per_sample"}) == (key != "learningRatesPerSample")


@pytest.mark.parametrize(("key", "value"), ADJUST.items(), ids=ADJUST)
def test_a_key_of_the_block_of_automatic_control_changes_one_setting(key, value):
    read = read_settings(block("autoAdjust", f"[ {key}={value} ]")).auto_adjust
    assert len(differing(read, AutoAdjust())) == 1


@pytest.mark.parametrize(("key", "value"), NOTED.items(), ids=NOTED)
def test_a_key_without_effect_is_noted_once(key, value):
    notes: list[str] = []
    read = read_settings(block(key, value), SGD.options, note=notes.append)
    assert differing(read, defaults()) == set()
    assert len([line for line in notes if key.lower() in line.lower()]) == 1


def test_keys_of_installed_listeners_are_accepted_without_a_note():
    notes: list[str] = []
    described = parse_text("SGD=[ maxEpochs=3; learningRatesPerSample=0.1; tensorBoardLogDir=logs; mine=1 ]").section(
        "SGD"
    )
    read_settings(described, SGD.options, note=notes.append, listener_keys=("tensorBoardLogDir", "mine"))
    assert notes == []
    with pytest.raises(CntkError, match="'mine'"):
        read_settings(described, SGD.options)


def test_event_files_without_what_writes_them_are_noted_wherever_they_are_asked_for():
    notes: list[str] = []
    recipe = parse_text("tensorBoardLogDir=logs\nSGD=[ maxEpochs=3; learningRatesPerSample=0.1 ]")
    read_settings(recipe.section("SGD"), SGD.options, note=notes.append)
    assert notes == [
        "SGD: without effect, since nothing is installed that writes event files "
        "(pip install cntk-hook-tensorboard): tensorBoardLogDir"
    ]


def test_the_action_adapt_is_not_told_that_its_keys_have_no_effect():
    notes: list[str] = []
    given = block("adaptationRegWeight", "0.5").with_entries("adaptationRegType=none")
    read_settings(given, SGD.options, note=notes.append)
    assert notes == []


@pytest.mark.parametrize(("key", "rule", "value"), [(key, *pair) for key, pair in RULES.items()], ids=RULES)
def test_a_key_of_a_rule_changes_one_of_its_options(key, rule, value):
    notes: list[str] = []
    given = block(key, value)
    read_settings(given, rule.options, note=notes.append)
    assert notes == []
    assert len(differing(make_learner(given, rule).settings, rule.options())) == 1


def test_the_legacy_name_of_adagrad():
    assert learner_name(block("useAdagrad", "true")) == "adagrad"


def test_the_tables_have_every_setting():
    def keys(cls) -> set[str]:
        from cntk_core.config import option_key

        return {option_key(field).lower() for field in attrs.fields(cls)}

    tested = {key.lower() for key in SETTINGS}
    assert keys(SGDSettings) - tested == {"maxepochs", "autoadjust"}
    assert keys(AutoAdjust) == {key.lower() for key in ADJUST}
