"""The files that a training leaves: models, checkpoints, copies of the best models."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from cntk_core.errors import TrainingError
from cntk_core.network.files import TEMPORARY
from cntk_core.network.model_file import ModelInfo, save_model
from cntk_core.network.network import Network
from cntk_core.training.checkpoint import Progress, save_checkpoint
from cntk_core.training.generations import checkpoint_of
from cntk_core.training.store import ParameterStore
from cntk_core.training.update import NOISE_SLOT

if TYPE_CHECKING:
    from cntk_core.training.session import TrainingSession


@attrs.define(eq=False)
class Saver:
    """Writes and removes files of one run.

    Attributes:
        session: where files lie and who is told.
        network, store: what is saved.
    """

    session: TrainingSession
    network: Network
    store: ParameterStore
    _stale_files: bool = attrs.field(init=False)

    @_stale_files.default
    def _begins_anew(self) -> bool:
        return not self.session.make_mode

    def initial(self, epochs: int, samples: int) -> None:
        """Save the model that training begins with."""
        save_model(self.network, self.session.paths.model(epochs), ModelInfo(epochs, samples))

    def save(self, progress: Progress, *, final: bool) -> None:
        """Save the checkpoint, then the model, then remove checkpoints that are not needed any more.

        Raises:
            TrainingError: a file cannot be written; what was there is untouched.
        """
        paths, settings, log = self.session.paths, self.session.settings, self.session.log
        if self._stale_files:
            self._stale_files = False
            if count := paths.remove_all():
                log.line(f"makeMode=false: removed {count} files of an earlier training of '{paths.final}'.")
        model = paths.final if final else paths.model(progress.epochs)
        log.detail(f"SGD: Saving checkpoint model '{model}'")
        self._checkpoint(model, progress)
        with _saving(model):
            save_model(self.network, model, ModelInfo(progress.epochs, progress.samples))
        if not settings.keep_check_point_files:
            done, options = progress.epochs, settings.auto_adjust
            back_to = done - done % options.interval if options.rolls_back and not final else None
            paths.prune_checkpoints(settings.max_epochs if final else done, back_to)
        for listener in self.session.listeners("cntk_checkpoint_saved"):
            listener(job=self.session.job, path=model)

    def revise(self, progress: Progress, since: int) -> None:
        """After a roll-back: remove what epochs since then left, and give the model of then its new checkpoint.

        Args:
            progress: of the epoch that training went back to.
            since: the last epoch (counted from 1) of which there is a model.
        """
        paths, log = self.session.paths, self.session.log
        for epochs in range(since, progress.epochs, -1):
            log.line(
                f"SGD: removing model and checkpoint files for epoch {epochs} after rollback to epoch {progress.epochs}"
            )
            paths.remove_epoch(epochs)
        log.line(f"SGD: revoke back to and update checkpoint file for epoch {progress.epochs}")
        self._checkpoint(paths.model(progress.epochs), progress)

    def copy_best(self, best: Mapping[str, tuple[float, int]], done: int) -> None:
        """Copy the best model by each criterion to ``MODEL_criterion``.

        Args:
            best: by criterion, its value and the number of epochs of the model.
            done: epochs of the final model.
        """
        paths, log = self.session.paths, self.session.log
        for name, (_, epochs) in best.items():
            source = paths.final if epochs == done else paths.model(epochs)
            target = paths.final.with_name(f"{paths.final.name}_{name}")
            if not source.is_file():
                log.line(f"Warning: the best model by '{name}', of epoch {epochs}, is not there any more: '{source}'")
                continue
            temporary = target.with_name(target.name + TEMPORARY)
            with _saving(target):
                shutil.copyfile(source, temporary)
                temporary.replace(target)
            log.line(f"Best epoch for criterion '{name}' is {epochs} and model {source} copied to {target}")

    def _checkpoint(self, model: Path, progress: Progress) -> None:
        folder = self.session.paths.folder
        with _saving(model):
            save_checkpoint(checkpoint_of(model), folder, self.network, self.store, progress, leave_out=(NOISE_SLOT,))


@contextmanager
def _saving(model: Path) -> Iterator[None]:
    """Turn what the system says while a model is saved into a message."""
    try:
        yield
    except OSError as error:
        raise TrainingError(
            f"the model '{model}' cannot be saved: {error.strerror or error}",
            hint="The models and checkpoints of earlier epochs are untouched; run again to go on from them.",
        ) from None
