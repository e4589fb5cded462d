"""The SGD block of a recipe: its keys, their types and defaults, and what contradicts what."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast

import attrs

from cntk_core.config import Config, Schedule, Value, bind, option, option_key, options
from cntk_core.errors import (
    CntkError,
    ConfigError,
    MissingKeyError,
    OptionError,
    Problems,
    UnsupportedError,
    raise_problems,
)
from cntk_core.interfaces.component import NoOptions
from cntk_core.interfaces.learner import Learner
from cntk_core.training import schedules
from cntk_core.training.automatic import AutoAdjust, RateControl

WHAT = "the SGD block"
RATE_KEYS = ("learningRatesPerSample", "learningRatesPerMB")
MOMENTUM_KEYS = ("momentumPerSample", "momentumPerMB", "momentumAsTimeConstant")
DEFAULT_MOMENTUM_PER_MB = 0.9

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


@options
class SGDSettings:
    """How to train. Rates are per sample or per minibatch as given; the methods give them per sample.

    Attributes are the keys of the block in Python's spelling; schedules are indexed with the epoch, from 0.
    """

    max_epochs: int = option(doc="number of epochs")
    epoch_size: int = option(default=0, doc="samples of an epoch; 0 is one sweep over the data")
    minibatch_size: Schedule[int] = option(default=Schedule.constant(256), doc="samples of a minibatch, by epoch")
    learning_rates_per_sample: Schedule[float] | None = option(default=None, doc="by epoch")
    learning_rates_per_mb: Schedule[float] | None = option(default=None, key="learningRatesPerMB", doc="by epoch")
    momentum_per_sample: Schedule[float] | None = option(default=None, doc="by epoch")
    momentum_per_mb: Schedule[float] | None = option(
        default=None, key="momentumPerMB", doc="by epoch; 0.9 if not given"
    )
    momentum_as_time_constant: Schedule[float] | None = option(default=None, doc="in samples, by epoch")
    min_learning_rate_per_sample: float = option(default=1e-9, doc="training ends below it")
    l1_reg_weight: float = option(default=0.0, key="L1RegWeight", doc="per sample")
    l2_reg_weight: float = option(default=0.0, key="L2RegWeight", doc="per sample")
    clipping_threshold_per_sample: float = option(default=math.inf, doc="limit of the gradient of one sample")
    gradient_clipping_with_truncation: bool = option(default=True, doc="limit each element; false: the norm")
    gaussian_noise_inject_std: Schedule[float] = option(default=Schedule.constant(0.0), doc="by epoch")
    dropout_rate: Schedule[float] = option(default=Schedule.constant(0.0), doc="by epoch, in [0, 1)")
    batch_normalization_time_constant: Schedule[float] = option(default=Schedule.constant(0.0), doc="by epoch")
    batch_normalization_blend_time_constant: Schedule[float] = option(default=Schedule.constant(0.0), doc="by epoch")
    disable_reg_in_batch_normalization: bool = option(default=False, aliases=("disableWkInBatchNormal",))
    grad_update_type: str = option(default="none", doc="the update rule: none, or the name of a learner plugin")
    num_subminibatches: int = option(default=1, doc="parts that a minibatch is computed in")
    max_samples_in_ram: int = option(default=0, key="maxSamplesInRAM", doc="limit of a part; 0 is no limit")
    num_mbs_to_show_result: int = option(default=10, key="numMBsToShowResult", doc="minibatches between log lines")
    first_mbs_to_show_result: int = option(default=0, key="firstMBsToShowResult", doc="log each of the first ones")
    keep_check_point_files: bool = option(default=False, doc="keep the checkpoint of every epoch")
    trace_level: int = option(default=0)
    train_criterion_node_name: str = option(default="", doc="default: the first of the network's criteria")
    eval_criterion_node_name: str = option(default="", doc="default: all evaluation nodes of the network")
    use_all_data_for_pre_computed_node: bool = option(default=True, doc="false: one epoch")
    auto_adjust: AutoAdjust = option(default=AutoAdjust(), doc="what training decides by itself")

    def rate(self, epoch: int) -> float:
        """Learning rate per sample of an epoch."""
        if self.learning_rates_per_sample is not None:
            return self.learning_rates_per_sample[epoch]
        assert self.learning_rates_per_mb is not None, "no learning rate was given"
        return schedules.per_sample_rate(self.learning_rates_per_mb[epoch], self.minibatch_size[epoch])

    def momentum(self, epoch: int) -> float:
        """Momentum per sample of an epoch."""
        if self.momentum_per_sample is not None:
            return self.momentum_per_sample[epoch]
        if self.momentum_as_time_constant is not None:
            return schedules.momentum_of_time_constant(self.momentum_as_time_constant[epoch])
        per_mb = DEFAULT_MOMENTUM_PER_MB if self.momentum_per_mb is None else self.momentum_per_mb[epoch]
        return schedules.momentum_per_sample(per_mb, self.minibatch_size[epoch])

    @property
    def given_rates(self) -> int:
        """Epochs for which the recipe names a learning rate."""
        given = self.learning_rates_per_sample or self.learning_rates_per_mb
        return len(given) if given is not None else 0

    def has_rate(self, epoch: int) -> bool:
        """Whether the recipe decides the learning rate of an epoch."""
        return self.auto_adjust.rate_control is RateControl.NONE or epoch < self.given_rates

    def has_minibatch_size(self, epoch: int) -> bool:
        """Whether the recipe decides the size of an epoch's minibatches."""
        return not self.auto_adjust.auto_adjust_minibatch or epoch < len(self.minibatch_size)

    def parts(self, minibatch_size: int) -> int:
        """Parts that a minibatch of this many samples is computed in."""
        if self.max_samples_in_ram:
            return max(1, math.ceil(minibatch_size / self.max_samples_in_ram))
        return max(1, self.num_subminibatches)

    def program_settings(self, epoch: int) -> Mapping[str, float]:
        """Numbers that operations ask for, by the key of the recipe."""
        return {
            "dropoutRate": self.dropout_rate[epoch],
            "batchNormalizationTimeConstant": self.batch_normalization_time_constant[epoch],
            "batchNormalizationBlendTimeConstant": self.batch_normalization_blend_time_constant[epoch],
        }

    @property
    def clips(self) -> bool:
        """Whether gradients are limited."""
        return math.isfinite(self.clipping_threshold_per_sample)

    @property
    def clips_norm(self) -> bool:
        """Whether the norm of each parameter's gradient is limited, so that it must be known before the update."""
        return self.clips and not self.gradient_clipping_with_truncation

    @property
    def injects_noise(self) -> bool:
        """Whether noise is added to the parameters in any epoch."""
        return any(value > 0 for value, _ in self.gaussian_noise_inject_std.values)


KEYS: tuple[str, ...] = tuple(option_key(field) for field in attrs.fields(cast(Any, SGDSettings)))
_UNSUPPORTED_KEYS = (
    "parallelTrain",
    "adaptationRegType",
    "adaptationRegWeight",
    "gradientcheck",
    "sigFigs",
    "saveBestModelPerCriterion",
    "tensorBoardLogDir",
    "tensorBoardNumMBsToLogResult",
    "traceNodeNamesCategory",
    "traceNodeNamesReal",
    "traceNodeNamesSparse",
)
_ADJUST_KEYS: tuple[str, ...] = tuple(option_key(field) for field in attrs.fields(cast(Any, AutoAdjust)))
"""Keys of ``autoAdjust``; the block looks them up here, too."""
_READER_KEYS = ("truncated",)
"""Keys that CNTK wants beside the SGD block's and that a reader obeys."""
_ACCEPTED = (
    "modelPath",
    "useAdagrad",
    "disableWkInBatchNormal",
    *NO_EFFECT,
    *OTHER_LEARNERS,
    *SEQUENCE_TRAINING,
    *_ADJUST_KEYS,
    *_UNSUPPORTED_KEYS,
    *_READER_KEYS,
)


def learner_name(block: Config) -> str:
    """Name of the learner that a block asks for: ``sgd`` for CNTK's words for the plain rule."""
    if block.boolean("useAdagrad", False):
        return "adagrad"
    name = block.string("gradUpdateType", "none")
    return "sgd" if name.lower() in _PLAIN_RULES else name


def read_settings(
    block: Config, learner_options: type = NoOptions, *, note: Callable[[str], None] | None = None
) -> SGDSettings:
    """Read the SGD block.

    Args:
        block: the section.
        learner_options: options class of the learner; its keys are the learner's and not looked at here.
        note: called with one line for each key that is accepted and changes nothing.

    Raises:
        Problems or one of its kinds: everything that is wrong, contradictory or not there yet, with its place.
    """
    ignore = {*_ACCEPTED, *(option_key(field) for field in attrs.fields(learner_options))}
    problems: list[CntkError] = []
    settings: SGDSettings | None = None
    try:
        settings = bind(block, SGDSettings, ignore=ignore, what=WHAT)
    except Problems as error:
        problems.extend(error.errors)
    except CntkError as error:
        problems.append(error)
    checks: list[Iterator[CntkError]] = [_contradictions(block), _unsupported(block)]
    if settings is not None:
        checks.insert(1, _out_of_range(block, settings))
    for check in checks:
        _collect(problems, check)
    raise_problems(problems)
    assert settings is not None
    if note is not None:
        for line in _notes(block, {option_key(field).lower() for field in attrs.fields(learner_options)}):
            note(line)
    return settings


def _collect(problems: list[CntkError], check: Iterator[CntkError]) -> None:
    try:
        problems.extend(check)
    except CntkError as error:
        problems.append(error)


def for_factors(settings: SGDSettings, factor: Callable[[int], int]) -> SGDSettings:
    """Return the settings for minibatches that are larger than ``minibatchSize``.

    Rates and momentum that are given per minibatch are spread over all of it.

    Args:
        settings: as the recipe says.
        factor: epoch to how many times larger its minibatches are.
    """
    epochs = range(settings.max_epochs)
    if all(factor(epoch) == 1 for epoch in epochs):
        return settings
    rates, momentum = settings.learning_rates_per_mb, settings.momentum_per_mb
    if momentum is None:
        momentum = Schedule.constant(DEFAULT_MOMENTUM_PER_MB)
    given = [epoch for epoch in epochs if settings.has_rate(epoch)]
    known: Any = settings
    evolved: SGDSettings = attrs.evolve(
        known,
        learning_rates_per_mb=None if rates is None else Schedule.of(rates[epoch] / factor(epoch) for epoch in given),
        momentum_per_mb=Schedule.of(float(momentum[epoch] ** (1 / factor(epoch))) for epoch in epochs),
    )
    return evolved


def make_learner(block: Config, learner: type[Learner]) -> Learner:
    """Make the learner with its own keys of the SGD block.

    Raises:
        ConfigError: an option has a wrong value.
    """
    return learner(bind(block, learner.options, ignore=block.keys(), what=WHAT))


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


def _unsupported(block: Config) -> Iterator[UnsupportedError]:
    wanted = [(text, place) for text, place in _asked_for(block)]
    if wanted:
        places = "\n".join(f"{text} at {place.key_where or place.where}" for text, place in wanted)
        yield UnsupportedError(
            f"{WHAT} asks for what is not there yet: {', '.join(text for text, _ in wanted)}",
            where=wanted[0][1].key_where or wanted[0][1].where,
            hint=places if len(wanted) > 1 else None,
        )


def _asked_for(block: Config) -> Iterator[tuple[str, Value]]:
    """What a block asks for that would change the result and is not there yet."""
    for key in ("gradientcheck", "saveBestModelPerCriterion"):
        flag = block.get(key)
        if flag is not None and flag.boolean():
            yield f"{key}=true", flag
    kind = block.get("adaptationRegType")
    if kind is not None and kind.string().lower() not in ("", "none"):
        yield f"adaptationRegType={kind.string()}", kind
    for key in ("tensorBoardLogDir", "traceNodeNamesReal", "traceNodeNamesCategory", "traceNodeNamesSparse"):
        text = block.get(key)
        if text is not None and not text.is_empty:
            yield key, text
    yield from _automatic(block)
    parallel = block.own("parallelTrain")
    if parallel is not None and _runs_parallel(block):
        yield "parallelTrain", parallel


def _searches(block: Config) -> bool:
    """Whether the learning rate of the first epoch need not be given. A wrong word is reported elsewhere."""
    value = block.get("autoAdjust")
    kind = value.config().get("autoAdjustLR") if value is not None else None
    try:
        return kind is not None and AutoAdjust(auto_adjust_lr=kind.string()).rate_control is RateControl.BEFORE
    except ValueError:
        return False


def _automatic(block: Config) -> Iterator[tuple[str, Value]]:
    value = block.get("autoAdjust")
    if value is None:
        return
    adjust = value.config()
    search = adjust.own("autoAdjustLR")
    if search is not None and _searches(block):
        yield f"autoAdjustLR={search.string()}", search
    minibatch = adjust.own("autoAdjustMinibatch")
    if minibatch is not None and minibatch.boolean():
        yield "autoAdjustMinibatch=true", minibatch


def _runs_parallel(block: Config) -> bool:
    """Whether the recipe switches parallel training on (the switch stands outside the SGD block)."""
    switch = None if block.parent is None else block.parent.get("parallelTrain")
    return switch is not None and not switch.is_block and switch.boolean()


def _notes(block: Config, used: Collection[str]) -> Iterator[str]:
    unused = () if block.get("autoAdjust") is not None else _ADJUST_KEYS
    idle = {key.lower() for key in (*NO_EFFECT, *OTHER_LEARNERS, *SEQUENCE_TRAINING, *unused)}.difference(used)
    keys = [key for key in block.keys() if key.lower() in idle]  # noqa: SIM118 - a Config is no dict
    if keys:
        yield f"SGD: without effect here: {', '.join(keys)}"
    parallel = block.own("parallelTrain")
    if parallel is not None and parallel.is_block:
        yield "parallelTrain option is not enabled. ParallelTrain config will be ignored."
