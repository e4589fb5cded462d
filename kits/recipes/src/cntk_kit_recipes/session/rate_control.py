"""What training decides by itself between epochs, and what it must remember for that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from cntk_core.training.rates.auto_adjust import AutoAdjust
from cntk_kit_recipes.block.early_stopping import Best

FINISHED = "with continueReduce the criterion improved too little a second time"


@attrs.frozen
class ControlState:
    """What control remembers from epoch to epoch; it is kept in checkpoints.

    Attributes:
        rate: learning rate per sample of the next epoch, where the recipe gives none; 0 before the first epoch.
        previous: the average criterion that the next one is compared with; None before the first.
        average: mean of the criteria since the last comparison; None if there was none.
        averaged: how many epochs are in it.
        reduced: ``continueReduce`` has begun to reduce.
        searched: rates that searches found, the newest last.
        minibatch_size: size that the last search of sizes chose, or the recipe's first.
        rate_change: by what the last search changed the rate.
        rows: parallel sequences of the last minibatch; with truncated training, rates per minibatch hang on them.
        best: by criterion, its least value on the validation set and after how many epochs it was.
        watched: the best epoch by what early stopping looks at.
    """

    rate: float = 0.0
    previous: float | None = None
    average: float | None = None
    averaged: int = 0
    reduced: bool = False
    searched: tuple[float, ...] = ()
    minibatch_size: int = 0
    rate_change: float = 1.0
    rows: int = 1
    best: Mapping[str, tuple[float, int]] = attrs.field(factory=dict)
    watched: Best = attrs.field(factory=Best)

    def entries(self) -> dict[str, Any]:
        """Return it as numbers and texts, for a file."""
        return attrs.asdict(self)

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> ControlState:
        """Make it of :meth:`entries`; what is missing has its default.

        Raises:
            ValueError, TypeError, AttributeError: an entry makes no sense.
        """
        known = {field.name: entries[field.name] for field in attrs.fields(cls) if field.name in entries}
        for name in ("previous", "average"):
            if known.get(name) is not None:
                known[name] = float(known[name])
        kinds = {"rate": float, "averaged": int, "reduced": bool, "minibatch_size": int, "rows": int}
        for name in kinds.keys() & known.keys():
            known[name] = kinds[name](known[name])
        known["searched"] = tuple(float(rate) for rate in known.get("searched", ()))
        best = known.get("best", {}).items()
        known["best"] = {str(name): (float(value), int(epochs)) for name, (value, epochs) in best}
        known["watched"] = Best(**known.get("watched", {}))
        return cls(**known)

    def with_criterion(self, criterion: float) -> ControlState:
        """Return the state with one more epoch's criterion in the average."""
        if self.average is None or not self.averaged:
            return attrs.evolve(self, average=criterion, averaged=1)
        total = self.averaged * self.average + criterion
        return attrs.evolve(self, average=total / (self.averaged + 1), averaged=self.averaged + 1)

    def with_best(self, criteria: Mapping[str, float], epochs: int) -> ControlState:
        """Return the state with the validation set's criteria after so many epochs, where they are the least so far."""
        better = {
            name: (value, epochs) for name, value in criteria.items() if value < self.best.get(name, (math.inf, 0))[0]
        }
        return attrs.evolve(self, best={**self.best, **better})

    def compared(self) -> ControlState:
        """Return the state after its average was compared: the next is compared with it."""
        return attrs.evolve(self, previous=self.average, average=None, averaged=0)


@attrs.frozen
class Verdict:
    """What follows from the criterion of an epoch.

    Attributes:
        state: what is remembered; with ``roll_back`` it is that of the model that training goes back to.
        roll_back: training went back to the model before.
        change: what the log says of the rate: ``reduced``, ``increased`` or nothing.
        finished: why no further epoch is of use; empty otherwise.
    """

    state: ControlState
    roll_back: bool = False
    change: str = ""
    finished: str = ""


def judge(
    options: AutoAdjust, state: ControlState, earlier: Callable[[], ControlState | None] = lambda: None
) -> Verdict:
    """Compare the average criterion with the one before, and adjust the rate (``adjustAfterEpoch``).

    With the improvement ``d = previous - average``: at ``d < 0`` training goes back to the model before
    (``loadBestModel``); at ``d <= reduceLearnRateIfImproveLessThan * previous`` the rate is multiplied by the decrease
    factor; at ``d > increaseLearnRateIfImproveMoreThan * previous`` by the increase factor. With ``continueReduce``
    there is no increase: from the first reduction on the rate falls each time, and the second epoch that improves too
    little ends the training.

    Args:
        options: the block.
        state: with the average of this interval.
        earlier: goes back to the model before, and gives its state; None if there is no such model. It is called only
            if the criterion is worse and ``loadBestModel`` is set.
    """
    previous, average = state.previous, state.average
    assert average is not None, "an epoch was averaged"
    nan = math.isnan(average)
    gain = math.nan if previous is None else previous - average
    worse = nan or (previous is not None and gain < 0)
    too_little = nan or (previous is not None and gain <= options.reduce_learn_rate_if_improve_less_than * previous)
    much = previous is not None and gain > options.increase_learn_rate_if_improve_more_than * previous
    before = earlier() if worse and options.load_best_model else None
    roll_back = before is not None
    kept = state.compared() if before is None else attrs.evolve(before, reduced=state.reduced)
    if options.continue_reduce:
        if too_little and state.reduced:
            return Verdict(kept, roll_back, finished=FINISHED)
        kept = attrs.evolve(kept, reduced=state.reduced or too_little)
        lower, higher = kept.reduced, False
    else:
        lower, higher = too_little, much
    if lower:
        kept = attrs.evolve(kept, rate=kept.rate * options.learn_rate_decrease_factor)
    elif higher:
        kept = attrs.evolve(kept, rate=kept.rate * options.learn_rate_increase_factor)
    return Verdict(kept, roll_back, "reduced" if lower else "increased" if higher else "")


def single(value: float) -> float:
    """The nearest number of single precision."""
    import struct

    return float(struct.unpack("f", struct.pack("f", value))[0])
