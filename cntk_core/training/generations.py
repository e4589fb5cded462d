"""Names of the files that training leaves, and which of them a restart begins with.

``MODEL.n`` is the model after epoch n, ``MODEL.0`` the initial one, ``MODEL`` the final one; ``.ckp`` is the checkpoint
beside each of them (the initial model has none); ``MODEL.checkpoints`` is where their contents lie. A restart begins
with the newest model; its checkpoint must be of the same epoch and verify, otherwise the generation before is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from cntk_core.errors import CheckpointError, CntkError
from cntk_core.network.files import remove
from cntk_core.network.model_file import read_model_info
from cntk_core.network.network import Network
from cntk_core.training.checkpoint import FOLDER, SUFFIX, Checkpoint, load_checkpoint, remove_unnamed

MISSING = "Warning: Checkpoint file is missing. Parameter-learning state (such as momentum) will be reset."
KEPT = 2
"""Generations of checkpoints that are kept while training runs."""


@attrs.frozen
class ModelPaths:
    """The names of one training.

    Attributes:
        final: the final model.
        epochs: the number of epochs; the model of the last one is the final model.
    """

    final: Path
    epochs: int

    def model(self, epoch: int) -> Path:
        """The model after ``epoch`` epochs; 0 is the initial one."""
        return self.final if epoch == self.epochs else self.final.with_name(f"{self.final.name}.{epoch}")

    def checkpoint(self, epoch: int) -> Path:
        """The checkpoint after ``epoch`` epochs."""
        return checkpoint_of(self.model(epoch))

    @property
    def folder(self) -> Path:
        """Where the generations of checkpoints lie."""
        return self.final.with_name(self.final.name + FOLDER)

    def existing(self) -> list[int]:
        """Epochs from 1 of which there is a model or a checkpoint under a numbered name, the newest first."""
        pattern = re.compile(re.escape(self.final.name) + r"\.([1-9][0-9]{0,8})(\.ckp)?")
        names = self.final.parent.iterdir() if self.final.parent.is_dir() else ()
        found = {int(match[1]) for name in names if (match := pattern.fullmatch(name.name))}
        return sorted(found, reverse=True)

    def remove_all(self) -> int:
        """Remove the final model, the numbered ones from 1, and all checkpoints; return how many names that were.

        The newest goes first, so that what is left at any instant is an earlier state of the same run.
        """
        models = [self.final, *(self.final.with_name(f"{self.final.name}.{epoch}") for epoch in self.existing())]
        names = [name for model in models for name in (model, checkpoint_of(model)) if name.exists()]
        for name in names:
            remove(name)
        remove_unnamed(self.folder)
        return len(names)

    def remove_epoch(self, epoch: int) -> None:
        """Remove the model and the checkpoint under the numbered name of an epoch."""
        model = self.final.with_name(f"{self.final.name}.{epoch}")
        for name in (model, checkpoint_of(model)):
            remove(name)
        remove_unnamed(self.folder)

    def prune_checkpoints(self, epoch: int, back_to: int | None = None) -> None:
        """Remove the checkpoints that the generation of ``epoch`` makes unnecessary.

        Args:
            epoch: epochs of the newest.
            back_to: epochs of one that a roll-back may need.
        """
        keep_from = epoch if epoch == self.epochs else epoch - KEPT + 1
        if back_to is not None:
            keep_from = min(keep_from, back_to)
        for old in self.existing():
            if old < keep_from:
                remove(self.final.with_name(f"{self.final.name}.{old}{SUFFIX}"))
        remove_unnamed(self.folder)


def checkpoint_of(model: Path) -> Path:
    """The checkpoint beside a model."""
    return model.with_name(model.name + SUFFIX)


@attrs.frozen(eq=False)
class Start:
    """With what a restart begins.

    Attributes:
        epochs: epochs that are done.
        network: the model.
        model: its file.
        checkpoint: the state of the learner; None if it must be reset.
    """

    epochs: int
    network: Network
    model: Path
    checkpoint: Checkpoint | None


Load = Callable[[Path], Network]
Rebuild = Callable[[Checkpoint], Network]


def final_epochs(paths: ModelPaths) -> int | None:
    """Epochs that an existing final model had; None if it is not there, ``paths.epochs`` if it does not say."""
    if not paths.final.is_file():
        return None
    known = read_model_info(paths.final).epochs
    return paths.epochs if known is None else known


def find_start(
    paths: ModelPaths, load: Load, rebuild: Rebuild, say: Callable[[str], None], *, final: int | None = None
) -> Start | None:
    """Find the newest generation that is whole, and load it.

    Args:
        paths: the names.
        load: reads a model.
        rebuild: makes the network from the recipe and a checkpoint, where a model is damaged.
        say: told about everything that is not used, and why.
        final: epochs of an existing final model that training goes on from.

    Returns:
        None if there is no model at all.
    """
    second_best: Start | None = None
    for epoch, model in _candidates(paths, final):
        try:
            start = _try(epoch, model, load, rebuild, say)
        except CntkError as error:
            say(f"Warning: {error.message}")
            continue
        if start.checkpoint is not None:
            return start
        if epoch and checkpoint_of(model).exists():
            second_best = second_best or start
            continue
        if second_best is not None:
            break
        if epoch:
            say(MISSING)
        return start
    if second_best is not None:
        say(MISSING.replace("missing", "not usable"))
    return second_best


def _candidates(paths: ModelPaths, final: int | None) -> Iterator[tuple[int, Path]]:
    named = {epoch: paths.model(epoch) for epoch in [*paths.existing(), 0] if epoch < paths.epochs}
    if final is not None:
        named[final] = paths.final
    for epoch in sorted(named, reverse=True):
        if named[epoch].is_file():
            yield epoch, named[epoch]


def _try(epoch: int, model: Path, load: Load, rebuild: Rebuild, say: Callable[[str], None]) -> Start:
    """Load a generation; its checkpoint is None if it is missing or damaged."""
    checkpoint: Checkpoint | None = None
    path = checkpoint_of(model)
    if epoch and path.exists():
        try:
            checkpoint = load_checkpoint(path)
            if checkpoint.progress.epochs != epoch:
                done = checkpoint.progress.epochs
                raise CheckpointError(f"the checkpoint '{path}' is of epoch {done}, not of epoch {epoch}")
        except CheckpointError as error:
            say(f"Warning: {error.message}")
            checkpoint = None
    try:
        return Start(epoch, load(model), model, checkpoint)
    except CntkError as error:
        if checkpoint is None:
            raise
        say(f"Warning: {error.message}; its parameters come from the checkpoint")
        return Start(epoch, rebuild(checkpoint), model, checkpoint)
