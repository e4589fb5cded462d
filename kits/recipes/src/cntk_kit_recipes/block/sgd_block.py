"""Reading the SGD block of a recipe: what contradicts what, what is out of range, what has no effect here."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, cast

import attrs

from cntk_core.config import Config, Value, bind, option_key, option_keys
from cntk_core.contract.component import NoOptions
from cntk_core.contract.learner import Learner
from cntk_core.errors import (
    CntkError,
    ConfigError,
    MissingKeyError,
    OptionError,
    collect,
    raise_problems,
)
from cntk_core.plugins.known import known
from cntk_core.training.rates.auto_adjust import AutoAdjust, RateControl
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.block import early_stopping

WHAT = "the SGD block"
RATE_KEYS = ("learningRatesPerSample", "learningRatesPerMB")
MOMENTUM_KEYS = ("momentumPerSample", "momentumPerMB", "momentumAsTimeConstant")

NO_EFFECT = (
    "executionEngine",
    "maxTempMemSizeInSamplesForCNN",
    "numMBsToCUDAProfile",
    "packThresholdSizeInKB",
    "perfTraceLevel",
    "unitTest",
    "unroll",
)
"""Keys that recipes have and that change nothing here."""

OTHER_LEARNERS = (
    "fsAdagradTargetAvDenom",
    "normWithAveMultiplier",
    "rms_gamma",
    "rms_wgt_dec",
    "rms_wgt_inc",
    "rms_wgt_max",
    "rms_wgt_min",
    "useNAG",
    "varianceTimeConstant",
)
"""Keys of CNTK's update rules. Those that the chosen learner does not have change nothing, as in the original."""

SEQUENCE_TRAINING = (
    "doReferenceAlign",
    "frameDropThresh",
    "hSmoothingWeight",
    "seqGammarAMF",
    "seqGammarBMMIFactor",
    "seqGammarLMF",
    "seqGammarUsesMBR",
    "seqGammarWordPen",
)
"""Keys of criteria for sequence training; without such a criterion they change nothing."""

_PLAIN_RULES = ("", "none", "normal", "simple")

LOG_KEYS = ("jsonLog",)
"""Keys of the core's own listeners."""

TENSOR_BOARD = ("tensorBoardLogDir", "tensorBoardNumMBsToLogResult", "tensorBoardHistograms")
"""Keys of the wheel cntk-hook-tensorboard."""

TRACES = ("traceNodeNamesReal", "traceNodeNamesCategory", "traceNodeNamesSparse")
"""Keys that name nodes whose values are printed."""

_ADAPTATION = ("adaptationRegType", "adaptationRegWeight")
"""Keys that only the action adapt obeys."""

_ADJUST_KEYS: tuple[str, ...] = tuple(option_key(field) for field in attrs.fields(cast(Any, AutoAdjust)))
"""Keys of ``autoAdjust``; the block looks them up here, too."""
_READER_KEYS = ("truncated",)
"""Keys that CNTK wants beside the SGD block's and that a reader obeys."""
_ACCEPTED = (
    early_stopping.KEY,
    "modelPath",
    "useAdagrad",
    "disableWkInBatchNormal",
    *NO_EFFECT,
    *OTHER_LEARNERS,
    *SEQUENCE_TRAINING,
    *_ADJUST_KEYS,
    *LOG_KEYS,
    *TENSOR_BOARD,
    *TRACES,
    *_ADAPTATION,
    "parallelTrain",
    *_READER_KEYS,
)


def learner_name(block: Config) -> str:
    """Name of the learner that a block asks for: ``sgd`` for CNTK's words for the plain rule."""
    if block.boolean("useAdagrad", False):
        return "adagrad"
    name = block.string("gradUpdateType", "none")
    return "sgd" if name.lower() in _PLAIN_RULES else name


def read_settings(
    block: Config,
    learner_options: type = NoOptions,
    *,
    note: Callable[[str], None] | None = None,
    listener_keys: Collection[str] = (),
    ranks: int = 1,
) -> SGDSettings:
    """Read the SGD block.

    Args:
        block: the section.
        learner_options: options class of the learner; its keys are the learner's and not looked at here.
        note: called with one line for each key that is accepted and changes nothing.
        listener_keys: keys that plugins with hooks look up in the block.
        ranks: how many train.

    Raises:
        Problems or one of its kinds: everything that is wrong, contradictory or not there yet, with its place.
    """
    ignore = {*_ACCEPTED, *(option_key(field) for field in attrs.fields(learner_options)), *listener_keys}
    problems: list[CntkError] = []
    settings: SGDSettings | None = collect(partial(bind, block, SGDSettings, ignore=ignore, what=WHAT), problems)
    checks: list[Iterator[CntkError]] = [_contradictions(block)]
    if settings is not None:
        checks.insert(1, _out_of_range(block, settings))
    for check in checks:
        _collect(problems, check)
    raise_problems(problems)
    assert settings is not None
    if note is not None:
        used = {*(option_key(field) for field in attrs.fields(learner_options)), *listener_keys}
        for line in _notes(block, {key.lower() for key in used}, ranks):
            note(line)
    return settings


def _collect(problems: list[CntkError], check: Iterator[CntkError]) -> None:
    try:
        problems.extend(check)
    except CntkError as error:
        problems.append(error)


def make_learner(block: Config, learner: type[Learner]) -> Learner:
    """Make the learner with its own keys of the SGD block; what the block has beside them it never sees.

    Raises:
        CntkError: an option has a wrong value.
    """
    return learner(learner.settings_from(block.only(option_keys(learner.options)), WHAT))


def idle_momentum(block: Config, learner: Learner) -> str:
    """Return a line for the log if a block gives a momentum that the learner does not look at; usually nothing."""
    keys = [key for key in MOMENTUM_KEYS if block.own(key) is not None]
    if learner.uses_momentum or not keys:
        return ""
    return f"SGD: without effect here, since the learner '{learner_name(block)}' has no momentum: {', '.join(keys)}"


def _given(block: Config, keys: Collection[str]) -> list[Value]:
    """The values of those of the keys that are given, here or in a parent, the innermost first."""
    found = [(key, block.get(key)) for key in keys]
    return [value for _, value in found if value is not None and not value.is_empty]


def _contradictions(block: Config) -> Iterator[CntkError]:
    rates = _given(block, RATE_KEYS)
    if not rates and not _searches(block):
        yield MissingKeyError(
            "the learning rate is missing",
            where=block.where,
            hint=f"Add {RATE_KEYS[0]}=... or {RATE_KEYS[1]}=... to {WHAT}.",
        )
    for keys, values in ((RATE_KEYS, rates), (MOMENTUM_KEYS, _given(block, MOMENTUM_KEYS))):
        if len(values) > 1:
            first, second = values[0], values[1]
            yield OptionError(
                f"'{first.short_name}' and '{second.short_name}' are both given",
                where=second.key_where or second.where,
                hint=f"Keep one of {', '.join(keys)} ('{first.short_name}' is at {first.key_where or first.where}).",
            )


def _out_of_range(block: Config, settings: SGDSettings) -> Iterator[ConfigError]:
    for key in MOMENTUM_KEYS[:2]:
        yield from _bad_values(block, key, lambda value: 0.0 <= value < 1.0, "must be in [0, 1)")
    yield from _bad_values(block, MOMENTUM_KEYS[2], lambda value: value >= 0.0, "must not be negative")
    yield from _bad_values(block, "dropoutRate", lambda value: 0.0 <= value < 1.0, "must be in [0, 1)")
    for key in (*RATE_KEYS, "L1RegWeight", "L2RegWeight", "gaussianNoiseInjectStd"):
        yield from _bad_values(block, key, lambda value: 0.0 <= value < math.inf, "must not be negative")
    yield from _bad_values(block, "clippingThresholdPerSample", lambda value: value > 0.0, "must be more than 0")
    for key in ("minibatchSize", "numSubminibatches"):
        yield from _bad_values(block, key, lambda value: value >= 1, "must be at least 1")
    for key in ("maxEpochs", "epochSize", "maxSamplesInRAM", "numMBsToShowResult", "firstMBsToShowResult"):
        yield from _bad_values(block, key, lambda value: value >= 0, "must not be negative")
    for key in ("checkpointEverySamples", "checkpointEveryMinutes"):
        yield from _bad_values(block, key, lambda value: 0.0 <= value < math.inf, "must not be negative")
    largest = max(size for size, _ in settings.minibatch_size.values)
    if 0 < settings.epoch_size < largest:
        yield ConfigError(
            f"epochSize is {settings.epoch_size}, less than the minibatchSize {largest}",
            where=block.location("epochSize"),
            hint="An epoch has at least one minibatch; epochSize=0 is one sweep over the data.",
        )


def _bad_values(block: Config, key: str, good: Callable[[float], bool], rule: str) -> Iterator[ConfigError]:
    value = block.get(key)
    if value is None or value.is_empty:
        return
    for number, _ in value.schedule(float).values:
        if not good(number):
            yield ConfigError(f"{key} {rule}, not {number:g}", where=value.where)
            return


def _searches(block: Config) -> bool:
    """Whether the learning rate of the first epoch need not be given. A wrong word is reported elsewhere."""
    value = block.get("autoAdjust")
    kind = value.config().get("autoAdjustLR") if value is not None else None
    try:
        return kind is not None and AutoAdjust(auto_adjust_lr=kind.string()).rate_control is RateControl.BEFORE
    except ValueError:
        return False


def _runs_parallel(block: Config) -> bool:
    """Whether the recipe switches parallel training on (the switch stands outside the SGD block)."""
    switch = None if block.parent is None else block.parent.get("parallelTrain")
    return switch is not None and not switch.is_block and switch.boolean()


def _notes(block: Config, used: Collection[str], ranks: int) -> Iterator[str]:
    unused = () if block.get("autoAdjust") is not None else _ADJUST_KEYS
    idle = {key.lower() for key in (*NO_EFFECT, *OTHER_LEARNERS, *SEQUENCE_TRAINING, *unused)}.difference(used)
    keys = [key for key in block.keys() if key.lower() in idle]  # noqa: SIM118 - a Config is no dict
    if keys:
        yield f"SGD: without effect here: {', '.join(keys)}"
    kind = block.get("adaptationRegType")
    asked = kind is None or kind.string().lower() not in ("", "none")
    given = [key for key in _ADAPTATION if block.own(key) is not None]
    if given and asked:
        yield f"Warning: only the action adapt obeys {' and '.join(given)}."
    given = [key for key in TENSOR_BOARD if (value := block.get(key)) is not None and not value.is_empty]
    unread = [key for key in given if key.lower() not in used]
    if unread:
        how = known("cntk.hooks")["tensorboard"][1].pip_line
        yield f"SGD: without effect, since nothing is installed that writes event files ({how}): {', '.join(unread)}"
    parallel = block.own("parallelTrain")
    if parallel is not None and parallel.is_block and ranks == 1:
        if _runs_parallel(block):
            yield "SGD: parallelTrain: there is one worker, so training is serial and the block has no effect."
        else:
            yield "parallelTrain option is not enabled. ParallelTrain config will be ignored."
