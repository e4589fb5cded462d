"""Checkpoints in the original's files: the model, and beside it ``.ckp`` with the learners and the program's state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.records import read_dictionary
from cntk_model_cntk2.values import Array, SizeT

from cntk._graph.errors import told
from cntk._graph.plain import plain_value, python_value
from cntk.learners import Learner
from cntk_core.api import deliver, local_path

SUFFIX = ".ckp"
_VERSION = 1


def save(filename: str, function: Any, learners: Sequence[Learner], external: Mapping[str, Any]) -> None:
    """Write a checkpoint; what was there before stays until both files are complete.

    Args:
        filename: of the model.
        function: whose parameters are kept (:func:`whole`).
        learners: whose state is kept.
        external: of the program.

    Raises:
        ValueError: the program's state holds what such a file cannot hold.
        OSError: it cannot be written.
    """
    state = {
        "Version": SizeT(_VERSION),
        "Learners": [_learner(each.create_checkpoint()) for each in learners],
        "ExternalState": _external(external),
        "DistributedState": {},
    }
    with told():
        model, checkpoint = Path(local_path(filename)), Path(local_path(f"{filename}{SUFFIX}"))
    unfinished = [path.with_name(f"{path.name}.tmp") for path in (model, checkpoint)]
    function.save(str(unfinished[0]))
    with unfinished[1].open("wb") as file:
        for piece in encode(state):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    for made, path in zip(unfinished, (model, checkpoint), strict=True):
        made.replace(path)
    with told():
        deliver()


def _external(state: Mapping[str, Any]) -> Any:
    try:
        return plain_value(state)
    except ValueError as error:
        raise ValueError(f"an external state holds what a file cannot: {error}") from None


def restore(filename: str, function: Any, learners: Sequence[Learner]) -> dict[str, Any]:
    """Go on from a checkpoint. Returns the program's state.

    Raises:
        ValueError: files are missing, damaged, or of another model or other learners.
    """
    with told():
        found = read_dictionary(Path(local_path(f"{filename}{SUFFIX}", again=True)))
    kept = found.get("Learners")
    states = kept if isinstance(kept, list) else [kept]
    if len(states) != len(learners):
        raise ValueError(f"the checkpoint '{filename}' is of {len(states)} learners; here are {len(learners)}")
    function.restore(filename)
    for learner, state in zip(learners, states, strict=True):
        learner.restore_from_checkpoint(_learner_back(state, learner))
    external = python_value(found.get("ExternalState", {}))
    assert isinstance(external, dict)
    return external


def whole(model: Any, loss: Any, metric: Any) -> Any:
    """Return what a checkpoint has as its model: the original's trainer asks for the same functions in a file.

    Args:
        model: the Function that is trained, or None.
        loss: what is minimised.
        metric: or None.
    """
    from cntk.axis import Axis
    from cntk.ops import combine, reduce_sum

    outputs = [] if model is None else list(model.outputs)
    for function, name in ((loss, "aggregateLoss"), (metric, "aggregateEvalMetric")):
        if function is not None:
            outputs.append(function.output)
            if function.output.dynamic_axes:
                outputs.append(reduce_sum(function, axis=Axis.all_axes(), name=name).output)
    return combine(list(dict.fromkeys(outputs)))


_KEYS = {
    "minibatch_count": "minibatchCount",
    "sweep_count": "sweepCount",
    "learning_rate_schedule": "learnig_rate_schedule",  # as the original spells it
}
_SIZE = "ref_mb_size"
_LEARNER_VERSION, _SCHEDULE_VERSION = 3, 2
_COUNT = "smoothed_count"


def _learner(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a learner's state as the file has it."""
    made: dict[str, Any] = {"version": SizeT(_LEARNER_VERSION), "type": "Learner", "master_parameter_updated": True}
    for key, value in state.items():
        if key == "smoothed_gradients":
            made[key] = [_array(each) for each in value]
        elif key == "learning_rate_schedule":
            made[_KEYS[key]] = _schedule(value)
        else:
            made[_KEYS.get(key, key)] = SizeT(value) if isinstance(value, int) else value
    made.setdefault(_COUNT, float(state["minibatch_count"]))  # RmsProp's, which the original asks for
    return made


def _schedule(state: Mapping[str, Any]) -> dict[str, Any]:
    pairs = state["schedule"]
    ends = {"0": next(iter(pairs.values()))} if len(pairs) == 1 else pairs
    return {
        "version": SizeT(_SCHEDULE_VERSION),
        "type": "TrainingParameterSchedule",
        "epoch_size": SizeT(state["epoch_size"]),
        _SIZE: SizeT(state["minibatch_size"]),
        "schedule": {end: float(value) for end, value in ends.items()},
    }


def _array(array: Any) -> Array:
    """Return the arrays of a parameter side by side, as a matrix whose columns are those of one after the other."""
    if not array.size:
        return Array((), np.zeros(1, array.dtype))
    slots, shape = array.shape[-1], array.shape[:-1]
    values = np.ascontiguousarray(np.moveaxis(array, -1, 0)).reshape(-1)
    dims = tuple(reversed(shape)) or (1,)
    if slots > 1:
        rows = dims[0]
        dims = (rows, values.size // rows)
    return Array(dims, values)


def _learner_back(state: Any, learner: Learner) -> dict[str, Any]:
    """Return a learner's state out of a file.

    Raises:
        ValueError: it is no learner's, or of other parameters.
    """
    if not isinstance(state, Mapping) or "smoothed_gradients" not in state:
        raise ValueError("the checkpoint holds no state of a learner")
    back = {theirs: ours for ours, theirs in _KEYS.items()}
    found: dict[str, Any] = {back.get(str(key), str(key)): value for key, value in state.items()}
    schedule = dict(found["learning_rate_schedule"])
    found["learning_rate_schedule"] = {**schedule, "minibatch_size": schedule.get(_SIZE, 0)}
    slots, arrays = len(learner.rule.slots), []
    for parameter, array in zip(learner.parameters, state["smoothed_gradients"], strict=True):
        values = np.asarray(array.values)
        if not slots:
            arrays.append(np.zeros(0, parameter.dtype))
            continue
        size = int(np.prod(parameter.shape)) * slots
        if values.size < size:
            raise ValueError(f"the checkpoint's learner had other numbers for the parameter {parameter}")
        arrays.append(np.moveaxis(values[:size].reshape(slots, *parameter.shape), 0, -1))
    found["smoothed_gradients"] = arrays
    return found


def numbered(filename: str) -> Iterator[tuple[int, str]]:
    """Yield the checkpoints ``filename`` with a number behind, with their numbers."""
    path = Path(filename)
    for found in path.parent.glob(f"{path.name}*"):
        number = found.name.removeprefix(path.name)
        if number.isdigit() and found.with_name(f"{found.name}{SUFFIX}").exists():
            yield int(number), str(found)
