"""When training is saved inside an epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import attrs
import numpy as np

from cntk_core.contract.store import ParameterStore
from cntk_core.training.files.position import Position
from cntk_kit_recipes.session.run_log import RunLog


@attrs.define(eq=False)
class InsideKeeper:
    """Saves whenever so many samples were read, or so much time has passed, since the last save.

    By samples, the places depend on the data alone: the first minibatch at or after each multiple. What is saved never
    changes what is learned, so places that depend on the time do no harm either.

    Attributes:
        save: writes a checkpoint; False if it could not.
        store: a checkpoint with parameters that are not numbers would be of no use.
        log: told about what cannot be saved.
        samples, seconds: between two saves; 0 for none.
        read: samples of the epoch that were read when it begins.
        clock: in seconds.
    """

    save: Callable[[Position], bool]
    store: ParameterStore
    log: RunLog
    samples: int = 0
    seconds: float = 0.0
    read: int = 0
    clock: Callable[[], float] = time.monotonic
    _last: float = attrs.field(init=False)

    @_last.default
    def _now(self) -> float:
        return self.clock()

    def is_due(self, read: int) -> bool:
        """Whether to save now, after so many samples of the epoch."""
        passed = bool(self.samples) and read // self.samples > self.read // self.samples
        return passed or (self.seconds > 0 and self.clock() - self._last >= self.seconds)

    def keep(self, position: Position | None) -> bool:
        """Save, unless something is not a number; None is a program that cannot tell what it takes along.

        Returns whether a checkpoint was written.
        """
        self._last = self.clock()
        if position is None:
            self.samples, self.seconds = 0, 0.0
            self.log.line("Warning: this engine cannot be saved inside an epoch; checkpoints are of whole epochs.")
            return False
        self.read = position.read_by_all
        if np.isnan(self.store.values).any() or _is_lost(position.sums, position.program.totals):
            self.log.line("Warning: no checkpoint is saved here, because there are values that are not numbers.")
            return False
        saved = self.save(position)
        self._last = self.clock()
        return saved


def _is_lost(*sums: Mapping[str, float]) -> bool:
    return any(np.isnan(list(found.values())).any() for found in sums)
