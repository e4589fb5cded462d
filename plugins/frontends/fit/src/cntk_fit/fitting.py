"""The loop of a fit: epochs of minibatches, validation, early stopping, checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, TrainingError
from cntk_core.api.training import Criterion, Trainer
from cntk_fit.callbacks import Callbacks, Fitting
from cntk_fit.history import History
from cntk_fit.resuming import Keeper, put_back, snapshot
from cntk_fit.rows import Rows
from cntk_fit.stopping import EarlyStopping, Watch
from cntk_fit.taking import Stream

Source = Rows | Stream


@attrs.define(eq=False)
class FitLoop:
    """Fits.

    Attributes:
        trainer: learns.
        data: what is learned.
        validation: what is looked at after each epoch; None for nothing.
        epochs: how many are to be learned.
        size: rows of a minibatch.
        evaluation_size: rows of a minibatch of the validation set.
        shuffle: learn the rows in another order in each epoch.
        callbacks: who is told.
        stopping: when to end early; None never.
        keeper: saves; None: nobody does.
        names: criteria by the names of their nodes, as they are shown.
    """

    trainer: Trainer
    data: Source
    validation: Source | None
    epochs: int
    size: int
    evaluation_size: int
    shuffle: bool
    callbacks: Callbacks
    stopping: EarlyStopping | None = None
    keeper: Keeper | None = None
    names: Mapping[str, str] = attrs.field(factory=dict)
    _watch: Watch | None = None
    _best: dict[str, NDArray[Any]] | None = None

    def run(self, *, resume: bool) -> History:
        """Learn the epochs, or those that are left; return what came of them.

        Raises:
            DataError: there are no data, or some do not fit.
            TrainingError: the criterion is not a number, or a checkpoint cannot be written.
            CheckpointError: there is nothing to go on from but damaged files, or those of another fit.
        """
        self._watch = Watch(self.stopping) if self.stopping is not None else None
        fitting = Fitting(self.trainer, self.epochs, History())
        fitting.minibatch = self._restore(fitting) if self.keeper is not None and resume else 0
        self.callbacks.tell("fit_begins", fitting)
        try:
            while not fitting.ended and fitting.history.epochs < self.epochs:
                self._epoch(fitting)
            self._put_best_back()
        except KeyboardInterrupt:
            self._save(fitting)
            raise
        finally:
            self.callbacks.tell("fit_ends", fitting)
        fitting.history.stopped = fitting.ended
        return fitting.history

    # -- epochs -------------------------------------------------------------------------------------------

    def _epoch(self, fitting: Fitting) -> None:
        done, history = fitting.minibatch, fitting.history
        fitting.epoch = history.epochs + 1
        self.callbacks.tell("epoch_begins", fitting)
        self._learn(fitting, skip=done)
        if not fitting.minibatch:
            raise DataError("there is nothing to learn: the data gave no minibatch")
        training = self._shown(self.trainer.read_totals())
        loss = next(iter(training.values()))
        if not math.isfinite(loss):
            raise TrainingError(
                f"the criterion '{next(iter(training))}' of epoch {fitting.epoch} is {loss}",
                hint="Give a lower rate, limit gradients (LearnerSettings(..., clip=1.0)), or look at the data.",
            )
        self.trainer.end_epoch()
        validation = {} if self.validation is None else evaluated(self.trainer, self.validation, self.evaluation_size)
        history.training.append(training)
        if self.validation is not None:
            history.validation.append(self._shown(validation))
        self._look(fitting)
        self.callbacks.tell("epoch_ends", fitting)
        fitting.minibatch = 0
        self._save(fitting)

    def _learn(self, fitting: Fitting, skip: int) -> None:
        """Learn the minibatches of an epoch, or those that are left."""
        trainer, listeners, every = self.trainer, self.callbacks.of_minibatches, self.keeper and self.keeper.every
        for minibatch in self.data.minibatches(self.size, self._order(), skip):
            result = trainer.train_minibatch(minibatch)
            fitting.minibatch += 1
            for listener in listeners:
                listener.minibatch_ends(fitting, result)
            if every and fitting.minibatch % every == 0:
                self._save(fitting)
            if fitting.ended:
                break

    def _order(self) -> NDArray[np.int64] | None:
        """Return the order of the rows in this epoch, which depends on the seed and the epoch alone."""
        if not self.shuffle or not isinstance(self.data, Rows):
            return None
        numbers = np.random.Generator(np.random.Philox(key=[self.trainer.seed, self.trainer.epoch]))
        return numbers.permutation(len(self.data))

    def _look(self, fitting: Fitting) -> None:
        if self._watch is None:
            return
        if self._watch.look(fitting.epoch, fitting.training, fitting.validation) and self._watch.settings.restore_best:
            self._best = snapshot(self.trainer.model.network)
            if self.keeper is not None:
                self.keeper.save_best(self.trainer, fitting.epoch)
        fitting.history.best_epoch = self._watch.best_epoch
        if self._watch.ends:
            fitting.stop(self._watch.ends)

    def _put_best_back(self) -> None:
        if self._best is not None:
            put_back(self.trainer.model.network, self._best)

    def _shown(self, criteria: Mapping[str, Criterion]) -> dict[str, float]:
        return shown(criteria, self.names)

    # -- checkpoints --------------------------------------------------------------------------------------

    def _save(self, fitting: Fitting) -> None:
        if self.keeper is None:
            return
        self.keeper.save(
            self.trainer,
            {
                "minibatch": fitting.minibatch,
                "history": fitting.history.entries(),
                "ended": fitting.ended,
                "watch": self._watch.entries() if self._watch is not None else None,
            },
        )

    def _restore(self, fitting: Fitting) -> int:
        """Go on from the checkpoint, if there is one; return how many minibatches of its epoch are done."""
        assert self.keeper is not None
        found = self.keeper.restore(self.trainer)
        if found is None:
            return 0
        fitting.history = History.of(found["history"])
        fitting.ended = found["ended"]
        if self._watch is not None and found["watch"] is not None:
            self._watch = Watch(self._watch.settings, **found["watch"])
            if self._watch.settings.restore_best and self._watch.best_epoch:
                self._best = self.keeper.load_best(self._watch.best_epoch)
        return int(found["minibatch"])


def evaluated(trainer: Trainer, source: Source, size: int) -> dict[str, Criterion]:
    """Return criterion and evaluations over data, by the names of their nodes.

    Raises:
        DataError: there are no data, or some do not fit.
    """
    sums: dict[str, Criterion] = {}
    for minibatch in source.minibatches(size):
        for name, one in trainer.test_minibatch(minibatch).items():
            before = sums.get(name, Criterion())
            sums[name] = Criterion(before.total + one.total, before.samples + one.samples)
    if not sums:
        raise DataError("there is nothing to evaluate: the data gave no minibatch")
    return sums


def shown(criteria: Mapping[str, Criterion], names: Mapping[str, str]) -> dict[str, float]:
    """Return the averages of criteria, by the names that users know."""
    return {names.get(name, name): float(one.average) for name, one in criteria.items()}
