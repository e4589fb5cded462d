"""A fit that was interrupted goes on: its checkpoint, and the model of its best epoch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CheckpointError, CntkError, Network
from cntk_core.api.training import Model, Trainer

_NAME = "fit"


def snapshot(network: Network) -> dict[str, NDArray[Any]]:
    """Return copies of the values of all parameters, by name."""
    return {each.name: np.array(each.value) for each in network.parameters if each.value is not None}


def put_back(network: Network, values: Mapping[str, NDArray[Any]]) -> None:
    """Give parameters the values of a :func:`snapshot`."""
    for name, value in values.items():
        network[name].value = value


def packed(trainer: Trainer) -> dict[str, bytes]:
    """Return the files of a trainer's checkpoint, by name."""
    with TemporaryDirectory() as folder:
        trainer.save(Path(folder, _NAME))
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def unpack(trainer: Trainer, files: Mapping[str, bytes]) -> None:
    """Let a trainer go on from what was :func:`packed`."""
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        trainer.restore(Path(folder, _NAME))


@attrs.frozen
class Keeper:
    """Saves a fit into a folder, so that a process that is killed at any moment goes on from there.

    Attributes:
        folder: gets ``fit.ckp``, ``fit.checkpoints`` and ``best-N.dnn``.
        every: save inside an epoch after so many minibatches, too; 0: at the ends of epochs alone.
        identity: what makes one fit another: sizes of the data and settings.
    """

    folder: Path
    every: int
    identity: Mapping[str, Any]

    def restore(self, trainer: Trainer) -> dict[str, Any] | None:
        """Let a trainer go on from the checkpoint, and return what was saved with it; None if there is none.

        Raises:
            CheckpointError: it is damaged, or of another fit.
        """
        path = self.folder / f"{_NAME}.ckp"
        if not path.exists():
            return None
        found = trainer.restore(path)
        before = found.get("identity", {}) if isinstance(found, dict) else {}
        if before != self.identity:
            names = [name for name in {**before, **self.identity} if before.get(name) != self.identity.get(name)]
            said = ", ".join(f"{name} was {before.get(name)}, now it is {self.identity.get(name)}" for name in names)
            raise CheckpointError(
                f"the checkpoint in '{self.folder}' is of another fit: {said}",
                hint="Give what was given then, another folder, or resume=False to begin anew.",
            )
        return dict(found)

    def save(self, trainer: Trainer, state: Mapping[str, Any]) -> None:
        """Save a trainer and what belongs to it. The best model that is not named any more goes afterwards.

        Raises:
            TrainingError: it cannot be written; what was there before is untouched.
        """
        trainer.save(self.folder / _NAME, external={**state, "identity": dict(self.identity)})
        named = self._best(int(state["watch"]["best_epoch"])) if state.get("watch") else None
        for path in self.folder.glob("best-*.dnn"):
            if path != named:
                path.unlink(missing_ok=True)

    def save_best(self, trainer: Trainer, epoch: int) -> None:
        """Save the model of the best epoch (from 1), before the checkpoint that names it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        trainer.save_model(self._best(epoch))

    def load_best(self, epoch: int) -> dict[str, NDArray[Any]]:
        """Return the parameters of the best epoch.

        Raises:
            CheckpointError: their file is not there or damaged.
        """
        path = self._best(epoch)
        try:
            return snapshot(Model.load(path).network)
        except CntkError as error:
            raise CheckpointError(
                f"the parameters of the best epoch cannot be read: {error.message}",
                hint="Bring the file back, or give resume=False to begin anew.",
            ) from None

    def _best(self, epoch: int) -> Path:
        return self.folder / f"best-{epoch}.dnn"
