"""The files that a training leaves: models, checkpoints, copies of the best models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from numpy.typing import NDArray

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import TrainingError
from cntk_core.network.files import replace_file
from cntk_core.network.model_file import ModelInfo, save_model
from cntk_core.network.network import Network
from cntk_core.training.files.checkpoint import Progress, save_checkpoint
from cntk_core.training.files.position import Position
from cntk_core.training.loop.update import NOISE_SLOT
from cntk_kit_recipes.session.generations import KEPT, Start, checkpoint_of
from cntk_kit_recipes.session.parts import SessionParts

_CHUNK = 1 << 20


@attrs.define(eq=False)
class Saver:
    """Writes and removes files of one run.

    Attributes:
        parts: where files lie and who is told.
        network, store: what is saved.
        start: what training went on from.
    """

    parts: SessionParts
    network: Network
    store: ParameterStore
    start: Start | None = None
    _is_first: bool = attrs.field(default=True, init=False)

    def initial(self, epochs: int, samples: int) -> None:
        """Save the model that training begins with."""
        model = self.parts.paths.model(epochs)
        self.parts.lock.check()
        if self.parts.make_mode:
            self._clear()
        with saving(model):
            save_model(self.network, model, ModelInfo(epochs, samples), scratch=self.parts.paths.folder)

    def save(self, progress: Progress, *, final: bool, of_ranks: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Save the checkpoint, then the model, then remove checkpoints that are not needed any more.

        Raises:
            TrainingError: a file cannot be written, or the lock is lost; what was there is untouched.
        """
        paths, settings, log = self.parts.paths, self.parts.settings, self.parts.log
        self.parts.lock.check()
        self._clear()
        model = paths.final if final else paths.model(progress.epochs)
        log.detail(f"SGD: Saving checkpoint model '{model}'")
        self._checkpoint(model, progress, of_ranks)
        with saving(model):
            save_model(self.network, model, ModelInfo(progress.epochs, progress.samples), scratch=paths.folder)
        with tidying(log.line):
            paths.remove_inside()
            if not settings.keep_check_point_files:
                done, options = progress.epochs, settings.auto_adjust
                back_to = done - done % options.interval if options.rolls_back and not final else None
                paths.prune_checkpoints(settings.max_epochs if final else done, back_to)
        for listener in self.parts.listeners("cntk_checkpoint_saved"):
            listener(job=self.parts.job, path=model)

    def save_inside(
        self, progress: Progress, position: Position, of_ranks: Mapping[str, NDArray[Any]] | None = None
    ) -> bool:
        """Save a checkpoint between two minibatches, then remove those that are not needed any more.

        Training goes on if it cannot be written: the checkpoints before are there, and the next one is tried again.
        Returns whether it was written.
        """
        paths, log = self.parts.paths, self.parts.log
        path = paths.inside(progress.epochs, position.minibatches)
        self.parts.lock.check()
        self._clear()
        log.detail(f"SGD: Saving checkpoint '{path}'")
        try:
            save_checkpoint(
                path,
                paths.folder,
                self.network,
                self.store,
                progress,
                leave_out=(NOISE_SLOT,),
                position=position,
                of_ranks=of_ranks,
            )
        except OSError as error:
            log.line(
                f"Warning: the checkpoint '{path}' cannot be saved: {error.strerror or error}. "
                "Training goes on, and earlier checkpoints are untouched. Make room, or give another modelPath."
            )
            return False
        with tidying(log.line):
            ours = [place for place in paths.existing_inside() if place[0] == progress.epochs]
            paths.remove_inside(ours[:KEPT])
        return True

    def _clear(self) -> None:
        """Before the first file is saved, remove those of an earlier training that would be newer than ours."""
        if not self._is_first:
            return
        paths, start = self.parts.paths, self.start
        with saving(paths.final):
            if not self.parts.make_mode:
                if count := paths.remove_all():
                    self.parts.log.line(
                        f"makeMode=false: removed {count} files of an earlier training of '{paths.final}'."
                    )
            else:
                at = (start.epochs, start.minibatches) if start is not None else (0, 0)
                paths.remove_inside([place for place in paths.existing_inside() if place[0] == at[0] and place <= at])
        self._is_first = False

    def revise(self, progress: Progress, since: int, of_ranks: Mapping[str, NDArray[Any]] | None = None) -> None:
        """After a roll-back: remove what epochs since then left, and give the model of then its new checkpoint.

        Args:
            progress: of the epoch that training went back to.
            since: the last epoch (counted from 1) of which there is a model.
        """
        paths, log = self.parts.paths, self.parts.log
        self.parts.lock.check()
        with saving(paths.model(progress.epochs)):
            paths.remove_inside()  # first: with the new checkpoint they would go back a second time
            self._remove_epochs(progress, since)
        log.line(f"SGD: revoke back to and update checkpoint file for epoch {progress.epochs}")
        self._checkpoint(paths.model(progress.epochs), progress, of_ranks)

    def _remove_epochs(self, progress: Progress, since: int) -> None:
        paths, log = self.parts.paths, self.parts.log
        for epochs in range(since, progress.epochs, -1):
            log.line(
                f"SGD: removing model and checkpoint files for epoch {epochs} after rollback to epoch {progress.epochs}"
            )
            paths.remove_epoch(epochs)

    def copy_best(self, best: Mapping[str, tuple[float, int]], done: int) -> None:
        """Copy the best model by each criterion to ``MODEL_criterion``.

        Args:
            best: by criterion, its value and the number of epochs of the model.
            done: epochs of the final model.
        """
        paths, log = self.parts.paths, self.parts.log
        self.parts.lock.check()
        for name, (_, epochs) in best.items():
            source = paths.final if epochs == done else paths.model(epochs)
            target = self._copy_of(name)
            if not source.is_file():
                log.line(f"Warning: the best model by '{name}', of epoch {epochs}, is not there any more: '{source}'")
                continue
            with saving(target), source.open("rb") as file:
                replace_file(target, iter(partial(file.read, _CHUNK), b""), scratch=paths.folder)
            log.line(f"Best epoch for criterion '{name}' is {epochs} and model {source} copied to {target}")

    def save_copies(self, criteria: Sequence[str], progress: Progress) -> None:
        """Save the model as it is as the best one by some criteria, to ``MODEL_criterion``."""
        for name in criteria:
            target = self._copy_of(name)
            with saving(target):
                info = ModelInfo(progress.epochs, progress.samples)
                save_model(self.network, target, info, scratch=self.parts.paths.folder)
            self.parts.log.line(
                f"Best epoch for criterion '{name}' is {progress.epochs}; its model is saved to {target}"
            )

    def _copy_of(self, criterion: str) -> Path:
        final = self.parts.paths.final
        return final.with_name(f"{final.name}_{criterion}")

    def _checkpoint(self, model: Path, progress: Progress, of_ranks: Mapping[str, NDArray[Any]] | None) -> None:
        folder, path = self.parts.paths.folder, checkpoint_of(model)
        with saving(model):
            save_checkpoint(
                path, folder, self.network, self.store, progress, leave_out=(NOISE_SLOT,), of_ranks=of_ranks
            )


@contextmanager
def saving(model: Path) -> Iterator[None]:
    """Turn what the system says while a model is saved into a message."""
    try:
        yield
    except OSError as error:
        raise TrainingError(
            f"the model '{model}' cannot be saved: {error.strerror or error}",
            hint="Make room on the disk, or see to the rights of the folder, and run again: the models and checkpoints "
            "of before are untouched, and training goes on from them.",
        ) from None


@contextmanager
def tidying(say: Callable[[str], None]) -> Iterator[None]:
    """Turn what the system says while old files are removed into a warning: nothing is lost, and the next run tries."""
    try:
        yield
    except OSError as error:
        say(f"Warning: old checkpoints cannot be removed: {error.strerror or error}. They are of no use any more.")
