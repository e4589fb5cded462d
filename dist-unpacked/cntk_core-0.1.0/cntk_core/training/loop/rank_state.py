"""What each rank has of its own in a checkpoint, beside what all have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from cntk_core.contract.parallel import Array
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CheckpointError
from cntk_core.training.files.checkpoint import Checkpoint
from cntk_core.training.files.position import Position
from cntk_core.training.loop.ranks import Ranks, rank_arrays
from cntk_core.training.loop.update import NOISE_SLOT

_POSITION, _CARRIED, _SLOT, _STATE = "position", "carried/", "slot/", "state/"
_STATISTICS, _STEPS, _TOTALS = "statistics", "steps", "totals"


def collect_state(
    ranks: Ranks,
    store: ParameterStore,
    steps: int,
    position: Position | None = None,
    totals: Mapping[str, Any] | None = None,
) -> dict[str, Array]:
    """Bring the state of all ranks to rank 0. With a gradient scheme the learner's is equal on all of them.

    Args:
        ranks: all of them; each calls this.
        store: parameters and the learner's slots of this rank.
        steps: updates of this rank.
        position: its place inside the epoch; None between two epochs.
        totals: what it has counted, as JSON can hold it.
    """
    own: dict[str, Array] = {}
    if ranks.exchange and not ranks.strategy.reduces_gradients:
        size = store.learned_size
        own.update({f"{_SLOT}{name}": slot[:size] for name, slot in store.slots.items() if name != NOISE_SLOT})
        own.update({f"{_STATE}{name}": np.array([number]) for name, number in store.state.items()})
        own[_STEPS] = np.array([steps])
        own.update({_TOTALS: np.frombuffer(json.dumps(totals).encode(), np.uint8)} if totals else {})
    if position is not None:
        own[_STATISTICS] = store.values[store.learned_size :]
        entries, carried = position.entries()
        own[_POSITION] = np.frombuffer(json.dumps(entries).encode(), np.uint8)
        own.update({f"{_CARRIED}{number}": array for number, array in enumerate(carried)})
    return ranks.collect(own)


@attrs.frozen(eq=False)
class OwnState:
    """What a checkpoint has of one rank.

    Attributes:
        position: inside the epoch; None if there is none.
        steps: updates of this rank; None if it has as many as the others.
        said: a line for the log; usually empty.
        totals: what this rank has counted, if it counts for itself.
    """

    position: Position | None
    steps: int | None = None
    said: str = ""
    totals: Mapping[str, Any] = attrs.field(factory=dict)


def take_back(checkpoint: Checkpoint, store: ParameterStore, ranks: Ranks) -> OwnState:
    """Take back what a checkpoint has of this rank; the parameters and slots that all have in common are there already.

    Raises:
        CheckpointError: an array makes no sense.
    """
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
    totals = json.loads(bytes(own[_TOTALS])) if _TOTALS in own else {}
    return OwnState(position, int(own[_STEPS][0]) if _STEPS in own else None, said, totals)


def _put(array: Array | None, target: Array) -> None:
    if array is None:
        return
    if array.shape != target.shape:
        raise CheckpointError(f"the state of a rank in the checkpoint has {array.size} elements, not {target.size}")
    target[...] = array
