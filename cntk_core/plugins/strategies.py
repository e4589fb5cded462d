"""Making a strategy of parallel training with the aggregations that it wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cntk_core.config import Config, option_keys
from cntk_core.contract.parallel import GradientAggregation, Parallelizer
from cntk_core.errors import WrongResult, shown


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
        ConfigError, PluginError, Problems, WrongResult: an option is wrong, an aggregation is not installed, or the
            strategy wants no names.
    """
    what = f"parallelizer '{name}'"
    first: Any = strategy.settings_from(section.only(option_keys(strategy.options)), what)
    names: Any = strategy.needs(first)
    if not isinstance(names, tuple | list) or not all(isinstance(one, str) for one in names):
        raise WrongResult(strategy.needs, f"returned {shown(names)}, not a tuple of names of aggregations")
    found = {wanted: find(wanted) for wanted in names}
    theirs = {key for kind in found.values() for key in option_keys(kind.options)}
    own: Any = strategy.settings_from(section.without(theirs, unless=strategy.options), what)
    made = {}
    for wanted, kind in found.items():
        made[wanted] = kind(kind.settings_from(section.only(option_keys(kind.options)), f"aggregation '{wanted}'"))
    return strategy(own, made)
