"""``earlyStopping = [ ... ]`` of the SGD block: training ends where it gets no better, with the best parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs

from cntk_core.config import Config, bind, option, options
from cntk_core.errors import OptionError, TrainingError, did_you_mean

KEY = "earlyStopping"


def _at_least(least: float) -> Any:
    def validate(instance: Any, attribute: Any, value: float) -> None:
        if not least <= value < math.inf:
            raise ValueError(f"'{attribute.name}' must be at least {least:g}, not {value:g}")

    return validate


@options
class EarlyStopping:
    """When training ends before its last epoch, and which parameters it leaves.

    What is looked at is the average of a criterion after each epoch: of the validation set where there is one,
    otherwise of the epoch. Less is better.
    """

    patience: int = option(default=5, doc="epochs without an improvement until it ends", validator=_at_least(1))
    min_delta: float = option(default=0.0, doc="by how much an epoch must be better", validator=_at_least(0))
    restore_best: bool = option(default=True, doc="the final model has the parameters of the best epoch")
    criterion: str = option(default="", doc="node that is looked at; default: the criterion")

    def chosen(self, criteria: Mapping[str, float]) -> tuple[str, float]:
        """Return the name and the value of what is looked at.

        Raises:
            TrainingError: there is no such criterion.
        """
        named = {name.lower(): name for name in criteria}
        name = named.get(self.criterion.lower()) if self.criterion else next(iter(criteria))
        if name is None:
            raise TrainingError(
                f"earlyStopping looks at '{self.criterion}', which is not computed"
                f"{did_you_mean(self.criterion, criteria)}",
                hint=f"There are {', '.join(criteria)}.",
            )
        return name, criteria[name]


def read_early_stopping(block: Config) -> EarlyStopping | None:
    """Read the block inside an SGD block; None if there is none.

    Raises:
        Problems, OptionError: a key that does not exist, or a wrong value, with its place.
    """
    value = block.get(KEY)
    if value is None or value.is_empty:
        return None
    if not value.is_block:
        raise OptionError(f"{KEY} is a block", where=value.where, hint=f"{KEY} = [ patience = 5 ; restoreBest = true ]")
    return bind(value.config(), EarlyStopping, what=f"the block {KEY}")


@attrs.frozen
class Best:
    """The best epoch so far.

    Attributes:
        value: of the criterion; None before the first epoch.
        epochs: that the model had then.
        waited: epochs since then, those that were taken back included.
    """

    value: float | None = None
    epochs: int = 0
    waited: int = 0

    def after(self, value: float, epochs: int, min_delta: float) -> Best:
        """Return the best epoch when one more has this criterion, which is never better if it is not a number."""
        gain = math.inf if self.value is None else self.value - value
        return Best(value, epochs) if gain > min_delta and not math.isnan(value) else self.missed()

    def missed(self) -> Best:
        """Return the same when one more epoch was not better, or was taken back."""
        return attrs.evolve(self, waited=self.waited + 1)
