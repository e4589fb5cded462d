"""Checkpoints for the original's Trainer: its model with what was learned since, and what our learner has found out.

A Trainer of the original restores only what has the leaves of its own network in the same order, under the same names.
So a training that began there goes back in its own model file, of which the values alone are replaced.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import ModelFormatError, Parameter, ParameterStore
from cntk_core.api.builders import write_file
from cntk_model_cntk2.checkpoint import COUNT, SCHEDULE, SLOTS, SMOOTHED, LearnerState, slots_of
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.records import read_dictionary
from cntk_model_cntk2.values import Array, SizeT

_COUNTED = (SLOTS[2], SLOTS[3], SLOTS[5])
"""Learners that count their updates: Adam, AdaMax, RmsProp."""

_FSADAGRAD = SLOTS[4]


def learner_state(
    store: ParameterStore,
    parameters: Iterable[Parameter],
    *,
    samples: int,
    minibatches: int,
    momentum: float = 0.0,
    rate: float = 0.0,
    before: LearnerState | None = None,
) -> LearnerState:
    """Return what a learner of ours has found out, as one of the original's would keep it.

    Args:
        store: has the slots of our learner: ``trainer.model.store``.
        parameters: those of the learner in its order.
        samples, minibatches: that were learned, those before a checkpoint included.
        momentum: of plain descent 0: then the original keeps nothing.
        rate: of a minibatch, if there was no state before.
        before: the state from which the training went on; its rates are kept.

    Raises:
        CheckpointError: the original has no such learner.
    """
    slots = slots_of(store)
    plain = slots == SLOTS[0] and not momentum
    smoothed = [
        np.zeros(1, store.dtype)
        if plain
        else np.concatenate([np.asarray(store.slot(name, parameter)).reshape(-1) for name in slots])
        for parameter in parameters
    ]
    count = float(minibatches) if slots in _COUNTED else None
    if slots == _FSADAGRAD:
        count = float(store.state.get(COUNT, 0.0))
    schedule = before.schedule if before is not None and before.schedule else _constant(rate)
    return LearnerState(samples, minibatches, count, tuple(smoothed), schedule)


def _constant(rate: float) -> dict[str, Any]:
    """A schedule with one rate, of a minibatch of any size."""
    return {
        "type": "TrainingParameterSchedule",
        "epoch_size": SizeT(0),
        "schedule": {"0": float(rate)},
        "version": SizeT(2),
        "ref_mb_size": SizeT(0),
    }


def write_checkpoint(
    path: str | Path, states: Sequence[LearnerState], parameters: Sequence[Sequence[Parameter]]
) -> None:
    """Write the states of a Trainer's learners (``NAME.ckp``, beside its model ``NAME``).

    Args:
        path: the file.
        states: one for each learner.
        parameters: those of each learner in its order.

    Raises:
        OSError: the file cannot be written.
    """
    learners = [_learner(state, its) for state, its in zip(states, parameters, strict=True)]
    top = {"Version": SizeT(1), "DistributedState": {}, "Learners": learners, "ExternalState": {}}
    write_file(Path(path), encode(top))


def _learner(state: LearnerState, parameters: Sequence[Parameter]) -> dict[str, Any]:
    arrays = [
        Array(_smoothed_dims(parameter.known_shape[::-1], values.size), values)
        for parameter, values in zip(parameters, state.smoothed, strict=True)
    ]
    return {
        "version": SizeT(3),
        "type": "Learner",
        "sweepCount": SizeT(0),
        "sample_count": SizeT(state.samples),
        "minibatchCount": SizeT(state.minibatches),
        SCHEDULE: dict(state.schedule),
        "noise_injection_seed": SizeT(1),
        "master_parameter_updated": True,
        SMOOTHED: arrays,
        **({} if state.count is None else {COUNT: state.count}),
    }


def _smoothed_dims(dims: tuple[int, ...], size: int) -> tuple[int, ...]:
    """How the numbers of a parameter lie: as it does, side by side if there are several rows of them."""
    elements = math.prod(dims)
    if size == elements and (size != 1 or dims):
        return dims
    rows = dims[0] if dims else 1
    return () if size == 1 and elements != 1 else (rows, size // rows)


def rewrite_model(source: str | Path, target: str | Path, values: Mapping[str, NDArray[Any]]) -> None:
    """Write a model file of the original again, with other values of some parameters and constants.

    Args:
        source: the file; functions, blocks, names and uids stay.
        target: the new file, which may be the same.
        values: by uid, in memory order; they get the precision of the file.

    Raises:
        ModelFormatError: the file is damaged, or has no parameter or constant of such a uid and shape.
        OSError: the file cannot be written.
    """
    source = Path(source)
    top = read_dictionary(source)
    left = dict(values)
    for leaf in top.get("inputs", []):
        new, old = left.pop(leaf.get("uid"), None), leaf.get("value")
        if new is None:
            continue
        if not isinstance(old, Array) or new.size != old.values.size:
            raise ModelFormatError(f"'{source}' has no values of this shape for '{leaf.get('uid')}'")
        leaf["value"] = attrs.evolve(old, values=new.astype(old.values.dtype, copy=False).reshape(-1))
    if left:
        raise ModelFormatError(f"'{source}' has no parameter or constant '{next(iter(left))}'")
    write_file(Path(target), encode(top))
