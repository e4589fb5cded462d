"""Reading the block ``parallelTrain`` of the SGD block: the strategy, its aggregations, and what both share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs

from cntk_core.config import Config, bind, option, option_keys, options
from cntk_core.contract.parallel import GradientAggregation, Parallelizer
from cntk_core.errors import Location, UnsupportedError
from cntk_core.plugins.strategies import make_strategy
from cntk_core.training.loop.ranks import ParallelSettings
from cntk_kit_recipes.block.checked_ranks import with_checks

KEY = "parallelTrain"
LOCAL = "localMethod"
"""Option of a strategy that names the one of the ranks inside its workers; it gets that as its attribute ``local``."""

WHAT = "the block parallelTrain"


@options
class ParallelOptions:
    """Keys of the block ``parallelTrain`` beside the blocks of the strategies."""

    parallelization_method: str = option(default="none", doc="the strategy: none, or what a plugin offers")
    parallelization_start_epoch: int = option(default=1, doc="the first epoch, from 1, that the ranks train together")
    distributed_mb_reading: bool = option(
        default=True, key="distributedMBReading", doc="each rank reads its share only"
    )
    sync_perf_stats: int = option(default=0, doc="say how fast it goes every so many exchanges; 0: never")
    communication_timeout: float = option(
        default=600.0, doc="seconds after which ranks do not wait for others any more"
    )
    stall_report_after: float = option(default=30.0, doc="seconds after which a rank that waits says for whom")
    check_parameters_every: int = option(default=0, doc="compare the ranks' parameters every so many updates; 0: never")
    elastic: bool = option(default=False, doc="when ranks are lost, the others go on from the last checkpoint")
    min_ranks: int = option(default=1, doc="of an elastic run: ranks that must be left")

    def __attrs_post_init__(self) -> None:
        if self.parallelization_start_epoch < 1:
            raise ValueError("parallelizationStartEpoch is counted from 1")
        if self.min_ranks < 1:
            raise ValueError("minRanks is at least 1")
        if min(self.sync_perf_stats, self.check_parameters_every) < 0:
            raise ValueError("syncPerfStats and checkParametersEvery must not be negative")
        if min(self.communication_timeout, self.stall_report_after) <= 0:
            raise ValueError("communicationTimeout and stallReportAfter must be more than 0")


@attrs.frozen(eq=False)
class ParallelTraining:
    """What a block asks for.

    Attributes:
        name: of the strategy, as the recipe has it; empty for none.
        parallelizer: a new one; None for none.
        settings: the rest.
    """

    name: str
    parallelizer: Parallelizer | None
    settings: ParallelSettings


class Find(Protocol):
    """Looks plugins up by the word in a recipe (a table of the registry)."""

    def get(self, name: str, where: Location | None = None) -> Any:
        """Return the class."""
        ...


def read_parallel(block: Config, strategies: Find, aggregations: Find) -> ParallelTraining:
    """Read the block ``parallelTrain`` of an SGD block and make the strategy.

    Args:
        block: the SGD block.
        strategies, aggregations: where plugins are found.

    Raises:
        ConfigError, PluginError, Problems: the block is wrong, or something that it asks for is not installed.
    """
    value = block.own(KEY)
    if value is None or not value.is_block:
        return ParallelTraining("", None, ParallelSettings())
    parallel = block.section_of(value)
    given = _bind(parallel)
    settings = ParallelSettings(
        start_epoch=given.parallelization_start_epoch,
        distributed_reading=given.distributed_mb_reading,
        deadline=given.communication_timeout,
        report_after=given.stall_report_after,
        check_every=given.check_parameters_every,
        show_every=given.sync_perf_stats,
    )
    name = given.parallelization_method
    if name.lower() == "none":
        return ParallelTraining("", None, settings)
    where = parallel.location("parallelizationMethod")
    strategy: type[Parallelizer] = strategies.get(name, where=where)
    own = parallel.own(name)
    section = parallel.section_of(own) if own is not None and own.is_block else parallel.child("", name=name)
    made = _make(strategy, section, name, strategies, lambda wanted: aggregations.get(wanted, where))
    return ParallelTraining(name, made, settings)


def _make(
    strategy: type[Parallelizer],
    section: Config,
    name: str,
    strategies: Find,
    find: Callable[[str], type[GradientAggregation]],
) -> Parallelizer:
    """Make a strategy with its aggregations, and with that of the ranks inside its workers if it asks for one."""
    value = section.own(LOCAL) if LOCAL.lower() in option_keys(strategy.options) else None
    inner = value.string() if value is not None else ""
    block = section.own(inner) if inner else None
    made = with_checks(make_strategy(strategy, section.without([inner]) if inner else section, name, find))
    for aggregation in made.aggregations.values():
        with_checks(aggregation)
    if value is None or not inner:
        return made
    kind: type[Parallelizer] = strategies.get(inner, where=value.where)
    if kind.reduces_gradients or not kind.saves_inside or LOCAL.lower() in option_keys(kind.options):
        raise UnsupportedError(
            f"{LOCAL}={inner}: the ranks of a worker cannot learn so",
            where=value.where,
            hint=f"Without {LOCAL} they sum their gradients in each step; gradientBits=1 sends few bits of them.",
        )
    own = section.section_of(block) if block is not None and block.is_block else section.child("", name=inner)
    made.local = _make(kind, own, inner, strategies, find)  # type: ignore[attr-defined] # of those with this option
    return made


def read_elastic(block: Config) -> tuple[bool, int]:
    """Return whether an SGD block wants to go on without ranks that are lost, and how many must be left.

    Raises:
        ConfigError, Problems: the block ``parallelTrain`` is wrong.
    """
    value = block.own(KEY)
    if value is None or not value.is_block:
        return False, 1
    given = _bind(block.section_of(value))
    return given.elastic, given.min_ranks


def _bind(parallel: Config) -> ParallelOptions:
    blocks = [key for key in parallel.keys() if (own := parallel.own(key)) is not None and own.is_block]  # noqa: SIM118
    return bind(parallel, ParallelOptions, ignore=blocks, what=WHAT)
