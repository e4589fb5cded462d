"""Making a strategy of parallel training with the aggregations that it wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cntk_core.config import Config, option_keys
from cntk_core.contract.parallel import GradientAggregation, Parallelizer


def make_strategy(
    strategy: type[Parallelizer], section: Config, name: str, find: Callable[[str], type[GradientAggregation]]
) -> Parallelizer:
    """Make a strategy and its aggregations, which have their options in the same block.

    Args:
        strategy: its class.
        section: the options.
        name: of the strategy, for messages.
        find: gives an aggregation by its name.

    Raises:
        ConfigError, PluginError, Problems: an option is wrong, or an aggregation is not installed.
    """
    what = f"parallelizer '{name}'"
    first: Any = strategy.settings_from(section.only(option_keys(strategy.options)), what)
    found = {wanted: find(wanted) for wanted in strategy.needs(first)}
    theirs = {key for kind in found.values() for key in option_keys(kind.options)}
    own: Any = strategy.settings_from(section.without(theirs, unless=strategy.options), what)
    made = {
        wanted: kind(kind.settings_from(section.only(option_keys(kind.options)), f"aggregation '{wanted}'"))
        for wanted, kind in found.items()
    }
    return strategy(own, made)
