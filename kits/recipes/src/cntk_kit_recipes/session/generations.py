"""Names of the files that training leaves, and which of them a restart begins with.

``MODEL.n`` is the model after epoch n, ``MODEL.0`` the initial one, ``MODEL`` the final one; ``.ckp`` is the checkpoint
beside each of them (the initial model has none); ``MODEL.n.m.ckp`` is the checkpoint m minibatches after the model n;
``MODEL.checkpoints`` is where their contents lie. A restart begins with the newest model and, if there is one, the
newest checkpoint inside the epoch after it; what it takes must be of that epoch and verify, otherwise the generation
before is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import attrs

from cntk_core.errors import CheckpointError, CntkError
from cntk_core.network.files import remove, sync_folder
from cntk_core.network.model_file import read_model_info
from cntk_core.network.network import Network
from cntk_core.training.files.checkpoint import (
    FOLDER,
    SUFFIX,
    Checkpoint,
    load_checkpoint,
    remove_unnamed,
    restore_values,
)

MISSING = "Warning: Checkpoint file is missing. Parameter-learning state (such as momentum) will be reset."
KEPT = 2
"""Checkpoints of whole epochs, and as many inside the epoch, that are kept while training runs."""


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

    def inside(self, epoch: int, minibatches: int) -> Path:
        """The checkpoint so many minibatches after ``epoch`` epochs."""
        return self.final.with_name(f"{self.final.name}.{epoch}.{minibatches}{SUFFIX}")

    def existing_inside(self) -> list[tuple[int, int]]:
        """Epochs and minibatches of the checkpoints inside an epoch, the newest first."""
        pattern = re.compile(re.escape(self.final.name) + r"\.([0-9]{1,9})\.([1-9][0-9]{0,11})\.ckp")
        names = self.final.parent.iterdir() if self.final.parent.is_dir() else ()
        found = {(int(match[1]), int(match[2])) for name in names if (match := pattern.fullmatch(name.name))}
        return sorted(found, reverse=True)

    def remove_inside(self, kept: Collection[tuple[int, int]] = ()) -> None:
        """Remove the checkpoints inside an epoch, the newest first, but for those that are kept."""
        for place in self.existing_inside():
            if place not in kept:
                remove(self.inside(*place))
        remove_unnamed(self.folder)

    def everything(self) -> list[Path]:
        """The final model, the numbered ones from 1, and all checkpoints that are there, the newest first."""
        names = [self.final, checkpoint_of(self.final)]
        inside = self.existing_inside()
        for epoch in sorted({*self.existing(), *(place[0] for place in inside), 0}, reverse=True):
            names += [self.inside(*place) for place in inside if place[0] == epoch]
            if epoch:
                model = self.final.with_name(f"{self.final.name}.{epoch}")
                names += [model, checkpoint_of(model)]
        return [name for name in names if name.exists()]

    def remove_all(self) -> int:
        """Remove all of them; return how many names that were.

        The newest goes first, so that what is left at any instant is an earlier state of the same run.
        """
        names = self.everything()
        for name in names:
            remove(name)
        remove_unnamed(self.folder)
        return len(names)

    def remove_epoch(self, epoch: int) -> None:
        """Remove the model and the checkpoint under the numbered name of an epoch."""
        model = self.final.with_name(f"{self.final.name}.{epoch}")
        remove(model)
        sync_folder(model.parent)  # a model without its checkpoint would be taken for one that never had any
        remove(checkpoint_of(model))
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
        minibatches: of the next epoch that are done, too.
        path: the file that names the checkpoint.
    """

    epochs: int
    network: Network
    model: Path
    checkpoint: Checkpoint | None
    minibatches: int = 0
    path: Path | None = None


Load = Callable[[Path], Network]
Rebuild = Callable[[Checkpoint], Network]


def final_epochs(paths: ModelPaths) -> int | None:
    """Epochs that an existing final model had; None if it is not there, ``paths.epochs`` if it does not say."""
    if not paths.final.is_file():
        return None
    known = read_model_info(paths.final).epochs
    return paths.epochs if known is None else known


def find_start(
    paths: ModelPaths,
    load: Load,
    rebuild: Rebuild,
    say: Callable[[str], None],
    *,
    final: int | None = None,
    refuse: Callable[[Checkpoint], str] = lambda checkpoint: "",
) -> Start | None:
    """Find the newest generation that is whole, and load it.

    Args:
        paths: the names.
        load: reads a model.
        rebuild: makes the network from the recipe and a checkpoint, where a model is damaged.
        say: told about everything that is not used, and why.
        final: epochs of an existing final model that training goes on from.
        refuse: says why training cannot go on from a checkpoint inside an epoch; usually nothing.

    Returns:
        None if there is no model at all.
    """
    second_best: Start | None = None
    inside = paths.existing_inside()
    for epoch, model in _candidates(paths, final):
        for place in inside:
            found = _try_inside(paths, place, model, load, rebuild, say, refuse) if place[0] == epoch else None
            if found is not None:
                return found
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


def _try_inside(
    paths: ModelPaths,
    place: tuple[int, int],
    model: Path,
    load: Load,
    rebuild: Rebuild,
    say: Callable[[str], None],
    refuse: Callable[[Checkpoint], str],
) -> Start | None:
    """Load a checkpoint inside an epoch with the network of the model before; None if that cannot be."""
    path = paths.inside(*place)
    try:
        checkpoint = load_checkpoint(path)
        position = checkpoint.position
        if position is None or (checkpoint.progress.epochs, position.minibatches) != place:
            raise CheckpointError(f"the checkpoint '{path}' is of another place in training")
        if reason := refuse(checkpoint):
            raise CheckpointError(f"the checkpoint '{path}' inside epoch {place[0] + 1} is not used: {reason}")
        network = _network_of(checkpoint, model, load, rebuild, say)
        restore_values(checkpoint, network)
    except CntkError as error:
        say(f"Warning: {error.message}")
        return None
    return Start(place[0], network, model, checkpoint, place[1], path)


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
    network = _network_of(checkpoint, model, load, rebuild, say)
    return Start(epoch, network, model, checkpoint, path=path)


def _network_of(
    checkpoint: Checkpoint | None, model: Path, load: Load, rebuild: Rebuild, say: Callable[[str], None]
) -> Network:
    """Load a model; where it is damaged, build its network and take the parameters from the checkpoint."""
    try:
        return load(model)
    except CntkError as error:
        if checkpoint is None:
            raise
        say(f"Warning: {error.message}; its parameters come from the checkpoint")
        return rebuild(checkpoint)
