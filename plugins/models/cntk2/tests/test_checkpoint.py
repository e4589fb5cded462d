"""Checkpoints of the original's Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_cntk2.checkpoint import SLOTS, LearnerState, read_checkpoint, restore_learner
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.load import load_model
from cntk_model_cntk2.records import read_dictionary
from cntk_model_cntk2.values import Array
from cntk_model_cntk2.write_checkpoint import learner_state, rewrite_model, write_checkpoint
from golden_files import write

from cntk_core.api import CheckpointError, ModelFormatError, Parameter, ParameterStore, Slot, core_ops


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


# -- written ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", SLOTS)
def test_a_state_comes_back(slots: tuple[str, ...], tmp_path: Path) -> None:
    store, parameters = store_of(*slots)
    shares = {"bias1": 0.5, "bias2": 0.9}
    restore_learner(state_of(len(slots), 2.0), store, parameters, shares)
    found = learner_state(store, parameters, samples=16, minibatches=2, momentum=0.9, rate=0.05)
    write_checkpoint(tmp_path / "net.ckp", [found], [parameters])
    (again,) = read_checkpoint(tmp_path / "net.ckp")
    assert (again.samples, again.minibatches) == (16, 2)
    assert again.schedule == {
        "type": "TrainingParameterSchedule",
        "epoch_size": 0,
        "schedule": {"0": 0.05},
        "version": 2,
        "ref_mb_size": 0,
    }
    other, same = store_of(*slots)
    restore_learner(again, other, same, shares)
    for name in slots:
        np.testing.assert_array_equal(other.slots[name], store.slots[name])
    assert other.state == store.state


@pytest.mark.parametrize("name", ["checkpoint-adam", "checkpoint-sgd", "checkpoint-momentum", "checkpoint-rmsprop"])
def test_a_file_is_written_as_the_original_writes_it(name: str, tmp_path: Path) -> None:
    path = write(name, tmp_path, "ckp")
    parameters = [Parameter.make(f"p{index}", shape) for index, shape in enumerate(((5, 3), (3,), (4, 5), (5,)))]
    (state,) = read_checkpoint(path)
    write_checkpoint(tmp_path / "again.ckp", [state], [parameters])
    assert plain(read_dictionary(tmp_path / "again.ckp")) == plain(read_dictionary(path))


def plain(value: Any) -> Any:
    """What a file says, with arrays as lists."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return (value.dims, value.values.tolist()) if isinstance(value, Array) else (type(value), value)


def test_plain_descent_writes_nothing() -> None:
    store, parameters = store_of("smoothed_gradient")
    found = learner_state(store, parameters, samples=1, minibatches=1)
    assert [values.tolist() for values in found.smoothed] == [[0.0], [0.0]]


def test_a_learner_that_the_original_has_not() -> None:
    store, parameters = store_of("other")
    with pytest.raises(CheckpointError, match="no learner of the original keeps other"):
        learner_state(store, parameters, samples=1, minibatches=1)


def test_a_model_with_other_values(tmp_path: Path) -> None:
    path = write("net-mlp", tmp_path)
    loaded = load_model(path, core_ops().find)
    rewrite_model(path, tmp_path / "same.model", {uid: leaf.value for uid, leaf in loaded.leaves.items()})
    assert plain(read_dictionary(tmp_path / "same.model")) == plain(read_dictionary(path))
    uid, parameter = next(iter(loaded.parameters.items()))
    rewrite_model(path, tmp_path / "new.model", {uid: parameter.value + 1})
    again = load_model(tmp_path / "new.model", core_ops().find)
    np.testing.assert_array_equal(again.parameters[uid].value, parameter.value + 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"Nobody1": np.zeros(3)}, "has no parameter or constant 'Nobody1'"),
        ({"": np.zeros(3)}, "has no values of this shape for '{uid}'"),
    ],
)
def test_values_of_other_things(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write("net-mlp", tmp_path)
    uid = next(iter(load_model(path, core_ops().find).parameters))
    with pytest.raises(ModelFormatError) as caught:
        rewrite_model(path, tmp_path / "new.model", {key or uid: np.zeros(1) for key in values})
    assert str(caught.value) == f"'{path}' {message.format(uid=uid)}"
    assert not (tmp_path / "new.model").exists()
