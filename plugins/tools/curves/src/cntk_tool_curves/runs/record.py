"""A run: what its log tells of one training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from cntk_core.api import UsageError, did_you_mean
from cntk_tool_curves.curves import Curves, Epoch, unique

DONE, FAILED, UNFINISHED, UNKNOWN = "done", "failed", "unfinished", "?"
"""What became of a run. One that is unfinished goes on right now, or was interrupted; a text log does not tell."""


@attrs.frozen
class Best:
    """The best epoch of a run by one criterion.

    Attributes:
        name: the criterion.
        value: its average per sample; an error is a fraction.
        epoch: from 1.
        validated: whether it is that of the validation set.
    """

    name: str
    value: float
    epoch: int
    validated: bool


@attrs.frozen(eq=False)
class Run:
    """What a log tells of one training.

    Attributes:
        log: the file.
        job: the command of the recipe.
        curves: what its epochs gave.
        recipe: the file of the recipe; empty where the log does not say.
        hash: of the settings, see :func:`cntk_tool_curves.settings.hash_of`; empty where the log does not say.
        settings: values by their path in the recipe; empty where the log does not say.
        begun: seconds since 1970.
        seconds: wall-clock time of all its parts, where it was interrupted.
        epochs: how many it was asked for; 0 where the log does not say.
        state: one of ``done``, ``failed``, ``unfinished``, ``?``.
        error: why it failed.
    """

    log: Path
    job: str
    curves: Curves
    recipe: str = ""
    hash: str = ""
    settings: Mapping[str, str] = attrs.field(factory=dict)
    begun: float = 0.0
    seconds: float = 0.0
    epochs: int = 0
    state: str = UNKNOWN
    error: str = ""

    def best(self, name: str = "", *, largest: bool = False) -> Best | None:
        """Return the best epoch; None if no epoch has the criterion, or it was never a number.

        The validation set decides where there is one.

        Args:
            name: the criterion; by default the first evaluation node, or the training criterion where there is none.
            largest: the largest value is the best one.
        """
        epochs = self.curves.epochs
        known = unique(criterion for epoch in epochs for criterion in epoch.criteria)
        spelled = {each.lower(): each for each in known}
        chosen = spelled.get(name.lower()) if name else next(iter(known[1:2] or known), None)
        if chosen is None:
            return None
        validated = any(chosen in epoch.validation for epoch in epochs)
        values = [(_value(epoch, chosen, validated=validated), epoch.number) for epoch in epochs]
        sound = [(value, -number) for value, number in values if math.isfinite(value)]
        if not sound:
            return None
        value, number = max(sound) if largest else min(sound, key=lambda pair: (pair[0], -pair[1]))
        return Best(chosen, value, -number, validated)


def _value(epoch: Epoch, name: str, *, validated: bool) -> float:
    return (epoch.validation if validated else epoch.criteria).get(name, math.nan)


def check_criterion(runs: Iterable[Run], name: str) -> None:
    """Raise if none of some runs has a criterion; without any finished epoch, nobody can tell.

    Raises:
        UsageError: none has it.
    """
    known = unique(criterion for run in runs for criterion in run.curves.names())
    if name and known and name.lower() not in [each.lower() for each in known]:
        raise UsageError(
            f"no run has a criterion '{name}'{did_you_mean(name, known)}", hint=f"Criteria: {', '.join(known)}"
        )


def ranked(runs: Sequence[Run], name: str = "", *, largest: bool = False) -> list[Run]:
    """Return runs with the best one first, and those without a value last, in the order in which they were."""

    def place(run: Run) -> tuple[bool, float]:
        best = run.best(name, largest=largest)
        return (True, 0.0) if best is None else (False, -best.value if largest else best.value)

    return sorted(runs, key=place)
