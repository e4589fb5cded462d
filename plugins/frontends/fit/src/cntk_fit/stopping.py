"""Early stopping: training ends where the validation set gets no better, with the parameters of the best epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from cntk_core.api import OptionError, did_you_mean


@attrs.frozen
class EarlyStopping:
    """When to end, and which parameters to keep.

    Attributes:
        patience: epochs without an improvement after which training ends; ``math.inf`` never ends it, and only keeps
            the best parameters.
        min_delta: an epoch is better if it is so by more than this.
        restore_best: at the end the parameters are those of the best epoch.
        monitor: the criterion or evaluation to look at, by name; by default the criterion. It is that of the validation
            set where there is one.
        mode: ``min``: less is better; ``max``: more is.
    """

    patience: float = 5
    min_delta: float = 0.0
    restore_best: bool = True
    monitor: str = ""
    mode: Literal["min", "max"] = "min"

    def __attrs_post_init__(self) -> None:
        if not self.patience >= 1:
            raise OptionError(f"patience of early stopping is {self.patience:g}; it must be at least 1")
        if not 0.0 <= self.min_delta < math.inf:
            raise OptionError(f"min_delta of early stopping is {self.min_delta:g}; it must not be negative")
        if self.mode not in ("min", "max"):
            raise OptionError(f"mode of early stopping is min or max, not {self.mode!r}")


@attrs.define
class Watch:
    """What early stopping remembers from epoch to epoch.

    Attributes:
        settings: when to end.
        best: the best value so far, None before the first epoch.
        best_epoch: its epoch, from 1.
        waited: epochs since then.
    """

    settings: EarlyStopping
    best: float | None = None
    best_epoch: int = 0
    waited: int = 0

    def look(self, epoch: int, training: Mapping[str, float], validation: Mapping[str, float]) -> bool:
        """Take note of an epoch (from 1), and say whether it is the best so far.

        Raises:
            OptionError: there is no criterion of the name that is looked at.
        """
        criteria = validation or training
        name = self.settings.monitor or next(iter(criteria))
        if name not in criteria:
            raise OptionError(
                f"early stopping looks at '{name}', which is not computed{did_you_mean(name, criteria)}",
                hint=f"There are {', '.join(criteria)}.",
            )
        value = criteria[name]
        gain = math.inf if self.best is None else (self.best - value) * (1 if self.settings.mode == "min" else -1)
        if gain > self.settings.min_delta and not math.isnan(value):
            self.best, self.best_epoch, self.waited = value, epoch, 0
            return True
        self.waited += 1
        return False

    @property
    def ends(self) -> str:
        """Why training ends now; empty if it goes on."""
        if self.waited < self.settings.patience:
            return ""
        epochs = "epoch" if self.waited == 1 else "epochs"
        return f"no improvement for {self.waited} {epochs} since epoch {self.best_epoch}"

    def entries(self) -> dict[str, Any]:
        """Return what is remembered as JSON can hold it."""
        return {"best": self.best, "best_epoch": self.best_epoch, "waited": self.waited}
