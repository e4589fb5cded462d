"""Files of a training on several ranks: rank 0 writes them, with what every rank needs to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CheckpointError
from cntk_core.training.files.checkpoint import Checkpoint, Progress
from cntk_core.training.files.position import Position
from cntk_core.training.loop.ranks import Ranks, rank_arrays
from cntk_core.training.loop.update import NOISE_SLOT
from cntk_kit_recipes.session.saving import Saver

Array = NDArray[Any]

_POSITION, _CARRIED, _SLOT, _STATE, _STATISTICS, _STEPS = (
    "position",
    "carried/",
    "slot/",
    "state/",
    "statistics",
    "steps",
)


@attrs.define(eq=False)
class RankSaver:
    """A :class:`Saver` for one of several ranks, or for a serial training.

    All ranks call the same methods. The state of each goes into the checkpoints; all of them wait until these are
    written.

    Attributes:
        saver: writes the files, on rank 0.
        store: parameters and the learner's slots of this rank.
        ranks: who trains together; None in a serial training.
        steps: updates of this rank; set before saving.
    """

    saver: Saver
    store: ParameterStore
    ranks: Ranks | None = None
    steps: int = 0

    def initial(self, epochs: int, samples: int) -> None:
        """See :meth:`Saver.initial`."""
        if self.ranks is None or self.ranks.is_main:
            self.saver.initial(epochs, samples)
        if self.ranks is not None:
            self.ranks.meet("waiting for rank 0 to save the first model")
        self.saver.session.begun.set()

    def save(self, progress: Progress, *, final: bool) -> None:
        """See :meth:`Saver.save`."""
        if self.ranks is None:
            self.saver.save(progress, final=final)
            return
        of_ranks = self._collect(self.ranks)
        if self.ranks.is_main:
            self.saver.save(attrs.evolve(progress, ranks=self.ranks.entries()), final=final, of_ranks=of_ranks)
        self.ranks.meet("waiting for rank 0 to save the model")

    def save_inside(self, progress: Progress, position: Position) -> bool:
        """See :meth:`Saver.save_inside`. Ranks other than 0 do not hear of a failure."""
        if self.ranks is None:
            return self.saver.save_inside(progress, position)
        saved = True
        of_ranks = self._collect(self.ranks, position)
        if self.ranks.is_main:
            saved = self.saver.save_inside(attrs.evolve(progress, ranks=self.ranks.entries()), position, of_ranks)
        self.ranks.meet("waiting for rank 0 to save a checkpoint")
        return saved

    def revise(self, progress: Progress, since: int) -> None:
        """See :meth:`Saver.revise`."""
        if self.ranks is None:
            self.saver.revise(progress, since)
            return
        of_ranks = self._collect(self.ranks)
        if self.ranks.is_main:
            self.saver.revise(attrs.evolve(progress, ranks=self.ranks.entries()), since, of_ranks)
        self.ranks.meet("waiting for rank 0 to save a checkpoint")

    def copy_best(self, best: Mapping[str, tuple[float, int]], done: int) -> None:
        """See :meth:`Saver.copy_best`."""
        if self.ranks is None or self.ranks.is_main:
            self.saver.copy_best(best, done)

    def _collect(self, ranks: Ranks, position: Position | None = None) -> dict[str, Array]:
        """Bring the state of all ranks to rank 0. With a gradient scheme the learner's is equal on all of them."""
        own: dict[str, Array] = {}
        if ranks.parallelizer is not None and not ranks.parallelizer.reduces_gradients:
            size = self.store.learned_size
            own.update({f"{_SLOT}{name}": slot[:size] for name, slot in self.store.slots.items() if name != NOISE_SLOT})
            own.update({f"{_STATE}{name}": np.array([number]) for name, number in self.store.state.items()})
            own[_STEPS] = np.array([self.steps])
        if position is not None:
            own[_STATISTICS] = self.store.values[self.store.learned_size :]
            entries, carried = position.entries()
            own[_POSITION] = np.frombuffer(json.dumps(entries).encode(), np.uint8)
            own.update({f"{_CARRIED}{number}": array for number, array in enumerate(carried)})
        return ranks.collect(own)


@attrs.frozen(eq=False)
class OwnState:
    """What a checkpoint has of one rank, beside what all have in common.

    Attributes:
        position: inside the epoch; None if there is none.
        steps: updates of this rank; None if it has as many as the others.
        said: a line for the log; usually empty.
    """

    position: Position | None
    steps: int | None = None
    said: str = ""


def take_back(checkpoint: Checkpoint, store: ParameterStore, ranks: Ranks | None) -> OwnState:
    """Take back what a checkpoint has of this rank; the parameters and slots that all have in common are there already.

    Raises:
        CheckpointError: an array makes no sense.
    """
    if ranks is None:
        before = int(checkpoint.progress.ranks.get("ranks", 1))
        said = f"The checkpoint is of {before} ranks; training goes on with one." if before > 1 else ""
        return OwnState(checkpoint.position, said=said)
    entries = checkpoint.progress.ranks
    said = ranks.remember(entries, checkpoint.arrays)
    if int(entries.get("ranks", 0)) != ranks.size:
        return OwnState(checkpoint.position, said=said)
    own = rank_arrays(checkpoint.arrays, ranks.rank, "session/")
    for name, slot in store.slots.items():
        _put(own.get(f"{_SLOT}{name}"), slot[: store.learned_size])
    for name, array in own.items():
        if name.startswith(_STATE):
            store.state[name.removeprefix(_STATE)] = float(array[0])
    _put(own.get(_STATISTICS), store.values[store.learned_size :])
    position = checkpoint.position
    if _POSITION in own:
        carried = {int(name.removeprefix(_CARRIED)): array for name, array in own.items() if name.startswith(_CARRIED)}
        position = Position.of(json.loads(bytes(own[_POSITION])), carried)
    return OwnState(position, int(own[_STEPS][0]) if _STEPS in own else None, said)


def _put(array: Array | None, target: Array) -> None:
    if array is None:
        return
    if array.shape != target.shape:
        raise CheckpointError(f"the state of a rank in the checkpoint has {array.size} elements, not {target.size}")
    target[...] = array
