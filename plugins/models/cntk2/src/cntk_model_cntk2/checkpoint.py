"""Checkpoints of the original's Trainer, read: what its learners had found out, so that training goes on from there.

The file says neither what the learners were nor how their numbers were set: who goes on says it again, as programs of
the original do. The numbers of a parameter lie one row after the other, in the order of :data:`SLOTS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CheckpointError, Parameter, ParameterStore
from cntk_model_cntk2.records import Entry, read_dictionary
from cntk_model_cntk2.values import Array

SLOTS: tuple[tuple[str, ...], ...] = (
    ("smoothed_gradient",),
    ("squared_gradients",),
    ("smoothed_square", "smoothed_gradient"),
    ("largest_gradient", "smoothed_gradient"),
    ("smoothed_variance", "smoothed_gradient"),
    ("mean_square", "last_sign", "step_size"),
    ("smoothed_square", "smoothed_square_of_steps"),
)
"""The slots of SGD, AdaGrad, Adam, AdaMax, FSAdaGrad, RmsProp and AdaDelta, as the original lays them out."""

_SHARING = (SLOTS[2], SLOTS[3])
_COUNTING = (*_SHARING, SLOTS[4])
COUNT = "smoothed_count"
SMOOTHED = "smoothed_gradients"
SCHEDULE = "learnig_rate_schedule"
"""Keys of a file, spelled as there."""

_SHARES = ("bias1", "bias2")


@attrs.frozen(eq=False)
class LearnerState:
    """What one learner had found out.

    Attributes:
        samples: that it has seen.
        minibatches: that it has seen.
        count: of FSAdaGrad, how many samples its means are made of; of Adam and RmsProp, its updates; of others None.
        smoothed: the numbers of each parameter, in the order of the learner's parameters.
        schedule: its rates, as the file has them; empty if the file does not say.
    """

    samples: int
    minibatches: int
    count: float | None
    smoothed: tuple[NDArray[Any], ...]
    schedule: Mapping[str, Any] = attrs.field(factory=dict)


def read_checkpoint(path: str | Path) -> tuple[LearnerState, ...]:
    """Return the state of each learner in a checkpoint (``NAME.ckp``).

    Raises:
        ModelFormatError: the file cannot be read, or is damaged.
        CheckpointError: it is no checkpoint of a Trainer.
    """
    path = Path(path)
    top = Entry(read_dictionary(path), "the file", path)
    if "Learners" not in top:
        raise CheckpointError(
            f"'{path}' holds no learners of a Trainer", hint="Name the file that ends in '.ckp', not that of the model."
        )
    learners = top.values["Learners"]
    several = top.each("Learners", dict) if isinstance(learners, list) else [top.take("Learners", dict)]
    return tuple(_learner(Entry(values, "a learner", path)) for values in several)


def _learner(entry: Entry) -> LearnerState:
    arrays = entry.each(SMOOTHED, Array, [])
    count = entry.take(COUNT, float) if COUNT in entry else None
    samples, minibatches = (entry.take(key, int, 0) for key in ("sample_count", "minibatchCount"))
    schedule = entry.take(SCHEDULE, dict, {})
    return LearnerState(int(samples), int(minibatches), count, tuple(array.values for array in arrays), schedule)


def restore_learner(
    state: LearnerState,
    store: ParameterStore,
    parameters: Iterable[Parameter],
    shares: Mapping[str, float] | None = None,
) -> None:
    """Let a learner of ours go on from the state of one of the original's.

    Args:
        state: of the original's learner.
        store: has the parameters and the slots of our learner: ``trainer.model.store`` of a Trainer that is made.
        parameters: those of the learner in its order, ``parameters`` of a :class:`~cntk_model_cntk2.load.Cntk2Model`.
        shares: of Adam: ``bias1`` and ``bias2``, what an update leaves of the first zeros, that is its momentum and its
            variance momentum.

    Raises:
        CheckpointError: the state is of another learner or of other parameters; nothing is changed then.
    """
    parameters = list(parameters)
    slots = slots_of(store)
    if len(parameters) != len(state.smoothed):
        raise CheckpointError(f"the learner had {len(state.smoothed)} parameters; here are {len(parameters)}")
    plain = all(values.size == 1 for values in state.smoothed) and slots == SLOTS[0]
    sizes = [np.size(store.value(parameter)) for parameter in parameters]
    for parameter, size, values in zip(parameters, sizes, state.smoothed, strict=True):
        # On a GPU the original has one part more than it needs.
        if not plain and values.size not in (size * len(slots), size * (len(slots) + 1)):
            raise CheckpointError(
                f"of the parameter '{parameter.name}' with {size} elements the learner had {values.size} numbers; "
                f"here it keeps {len(slots)} for each",
                hint="Choose the learner that the program had.",
            )
    numbers = _numbers(state, slots, shares or {})
    for parameter, size, values in zip(parameters, sizes, state.smoothed, strict=True):
        for index, name in enumerate(() if plain else slots):
            place = store.slot(name, parameter)
            place[...] = values[index * size : (index + 1) * size].reshape(place.shape)
    store.state.update(numbers)


def slots_of(store: ParameterStore) -> tuple[str, ...]:
    """Return the slots of a learner in the original's order. Raises CheckpointError: it has no such learner."""
    found = next((names for names in SLOTS if set(names) == set(store.slots)), None)
    if found is None:
        raise CheckpointError(f"no learner of the original keeps {', '.join(sorted(store.slots)) or 'nothing'}")
    return found


def _numbers(state: LearnerState, slots: tuple[str, ...], shares: Mapping[str, float]) -> dict[str, float]:
    """What our learner keeps beside its slots."""
    if state.count is None or slots not in _COUNTING:
        return {}
    if slots not in _SHARING:
        return {COUNT: state.count}
    missing = [name for name in _SHARES if name not in shares]
    if missing:
        raise CheckpointError(f"Adam needs '{missing[0]}', the share that an update leaves of what was before")
    return {name: shares[name] ** state.count for name in _SHARES}
