"""What a fit leaves behind: the criteria of each epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import attrs


@attrs.define
class History:
    """The criteria of the epochs, in their order.

    Attributes:
        training: for each epoch, the criterion and the evaluations by name, per sample, while it was learned.
        validation: the same of the validation set after each epoch; empty without one.
        best_epoch: the best epoch so far, from 1, by what early stopping looks at; 0 if nothing was compared.
        stopped: why training ended before the last epoch; empty if it did not.
    """

    training: list[dict[str, float]] = attrs.field(factory=list)
    validation: list[dict[str, float]] = attrs.field(factory=list)
    best_epoch: int = 0
    stopped: str = ""

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return len(self.training)

    @property
    def loss(self) -> list[float]:
        """The criterion of each epoch."""
        return [next(iter(each.values())) for each in self.training]

    @property
    def validation_loss(self) -> list[float]:
        """The criterion of the validation set after each epoch."""
        return [next(iter(each.values())) for each in self.validation]

    def columns(self) -> dict[str, list[float]]:
        """Return lists of equal length, for a table or a plot: ``ce``, ``errs``, ``validation ce``, ..."""
        found: dict[str, list[float]] = {"epoch": [float(number) for number in range(1, self.epochs + 1)]}
        for prefix, rows in (("", self.training), ("validation ", self.validation)):
            for name in rows[0] if rows else ():
                found[prefix + name] = [row[name] for row in rows]
        return found

    def entries(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return attrs.asdict(self)

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> Self:
        """Make it again of its :meth:`entries`."""
        return cls(**entries)
