"""Checkpoints of the original's Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_cntk2.checkpoint import LearnerState, read_checkpoint, restore_learner
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.records import read_dictionary
from golden_files import write

from cntk_core.api import CheckpointError, Parameter, ParameterStore, Slot


def store_of(*names: str) -> tuple[ParameterStore, list[Parameter]]:
    parameters = [Parameter.make("W", (2, 3), value=np.zeros((2, 3))), Parameter.make("b", (3,), value=np.zeros(3))]
    store = ParameterStore(parameters, np.float64)
    store.add_slots([Slot(name) for name in names])
    return store, parameters


def state_of(parts: int, count: float | None = None) -> LearnerState:
    return LearnerState(16, 4, count, tuple(np.arange(size * parts, dtype=float) for size in (6, 3)))


def test_what_a_file_says(tmp_path: Path) -> None:
    (found,) = read_checkpoint(write("checkpoint-adam", tmp_path, "ckp"))
    assert (found.samples, found.minibatches, found.count) == (16, 4, 4.0)
    assert [values.size for values in found.smoothed] == [30, 6, 40, 10]


@pytest.mark.parametrize(
    ("slots", "numbers"),
    [
        (("smoothed_gradient",), {}),
        (("squared_gradients",), {}),
        (("smoothed_square", "smoothed_gradient"), {"bias1": 0.25, "bias2": 0.81}),
        (("largest_gradient", "smoothed_gradient"), {"bias1": 0.25, "bias2": 0.81}),
        (("smoothed_variance", "smoothed_gradient"), {"smoothed_count": 2.0}),
        (("mean_square", "last_sign", "step_size"), {}),
        (("smoothed_square", "smoothed_square_of_steps"), {}),
    ],
)
def test_numbers_of_each_learner(slots: tuple[str, ...], numbers: dict[str, float]) -> None:
    store, parameters = store_of(*slots)
    restore_learner(state_of(len(slots), 2.0), store, parameters, {"bias1": 0.5, "bias2": 0.9})
    for place, name in enumerate(slots):
        np.testing.assert_array_equal(store.slot(name, parameters[0]).reshape(-1), np.arange(6) + 6 * place)
        np.testing.assert_array_equal(store.slot(name, parameters[1]), np.arange(3) + 3 * place)
    assert store.state == pytest.approx(numbers)


def test_what_a_gpu_kept_more_is_left_out() -> None:
    store, parameters = store_of("squared_gradients")
    restore_learner(state_of(2), store, parameters)
    np.testing.assert_array_equal(store.slot("squared_gradients", parameters[1]), [0, 1, 2])


def test_plain_descent_keeps_nothing() -> None:
    store, parameters = store_of("smoothed_gradient")
    restore_learner(LearnerState(1, 1, None, (np.zeros(1), np.zeros(1))), store, parameters)
    assert not store.slot("smoothed_gradient", parameters[0]).any()


@pytest.mark.parametrize(
    ("slots", "state", "message"),
    [
        (("other",), state_of(1), "no learner of the original keeps other"),
        ((), state_of(1), "no learner of the original keeps nothing"),
        (("smoothed_gradient",), LearnerState(1, 1, None, ()), "the learner had 0 parameters; here are 2"),
        (
            ("smoothed_gradient",),
            state_of(3),
            "of the parameter 'W' with 6 elements the learner had 18 numbers; here it keeps 1 for each",
        ),
        (
            ("smoothed_square", "smoothed_gradient"),
            state_of(2, 3.0),
            "Adam needs 'bias1', the share that an update leaves of what was before",
        ),
    ],
)
def test_other_learners(slots: tuple[str, ...], state: LearnerState, message: str) -> None:
    store, parameters = store_of(*slots)
    before = {name: array.copy() for name, array in store.slots.items()}
    with pytest.raises(CheckpointError) as caught:
        restore_learner(state, store, parameters)
    assert caught.value.message == message
    assert all(np.array_equal(store.slots[name], array) for name, array in before.items())


def test_a_model_is_no_checkpoint(tmp_path: Path) -> None:
    path = write("net-mlp", tmp_path)
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(path)
    assert str(caught.value) == (
        f"'{path}' holds no learners of a Trainer\n    Name the file that ends in '.ckp', not that of the model."
    )


def test_files_of_several_learners(tmp_path: Path) -> None:
    path = write("checkpoint-momentum", tmp_path, "ckp")
    values: dict[str, Any] = read_dictionary(path)
    values["Learners"] = values["Learners"] * 2
    path.write_bytes(b"".join(map(bytes, encode(values))))
    assert [state.minibatches for state in read_checkpoint(path)] == [4, 4]
