"""Storage for the largest minibatch so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cntk_core.api.engines import OpenArrays, Storage, make_plan
from cntk_testing.networks import classifier

FRAMES = {"*": 10}


@pytest.fixture
def storage() -> Storage:
    sample = classifier("float32")
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    return Storage(plan, np.dtype(np.float32), lambda count, dtype: np.zeros(count, dtype))


def grown(storage: Storage, frames: int) -> set[str] | None:
    axis = storage._plan.inputs[0].axis
    lacking = storage.lacking({axis: frames})
    if lacking is not None:
        storage.grow(lacking, {axis: frames})
    return lacking


def test_there_is_room_to_spare_when_it_grows_again(storage: Storage) -> None:
    axis = storage._plan.inputs[0].axis
    assert [grown(storage, frames) for frames in (8, 3, 9, 10)] == [{axis}, None, {axis}, None]
    assert storage.capacity == {axis: 10}  # a quarter more than eight
    assert storage.nbytes == storage.planned > 0


def test_values_lie_in_the_buffers_that_the_plan_says(storage: Storage) -> None:
    plan = storage._plan
    grown(storage, 4)
    framed = {plan.inputs[0].axis: 3}
    found = storage.views(plan.value_buffer, framed)
    assert {node: array.shape for node, array in found.items()} == {
        node: ((3,) if node.framed else ()) + node.known_shape for node in plan.value_buffer
    }
    for node, array in found.items():
        for other, place in found.items():
            shared = plan.value_buffer[node] == plan.value_buffer[other]
            assert np.shares_memory(array, place) == shared
    without = storage.views(plan.value_buffer, {})
    assert set(without) == {node for node in plan.value_buffer if not node.framed}
    shaped = storage.views(plan.value_buffer, framed, lambda flat, node, shape: flat)
    assert {array.shape for array in shaped.values()} == {(array.size,) for array in found.values()}


def test_scratch_is_kept_until_its_axis_grows(storage: Storage) -> None:
    axis = storage._plan.inputs[0].axis
    grown(storage, 4)
    own, alone, room = (
        storage.scratch("own", axis, 3),
        storage.scratch("alone", None, 2, np.int64),
        storage.workspace(5),
    )
    assert (own.size, alone.size, alone.dtype, room.size) == (12, 2, np.int64, 5)
    assert storage.scratch("own", axis, 3) is own
    assert np.shares_memory(storage.workspace(2), room)
    assert storage.fixed("fixed", 4) is storage.fixed("fixed", 3)
    assert storage.fixed("fixed", 9).size == 9
    grown(storage, 5)
    assert storage.scratch("own", axis, 3) is not own
    assert storage.scratch("alone", None, 2) is alone
    storage.forget()
    assert (storage.nbytes, storage.capacity, storage.lacking({})) == (0, {}, set())


def test_open_arrays_of_a_plan_without_such_nodes(storage: Storage) -> None:
    made: dict[Any, Any] = {}
    arrays = OpenArrays(storage._plan, np.empty)
    arrays.add(None, made, made, None)  # type: ignore[arg-type]
    assert (arrays.axes, arrays.nbytes, made) == ([], 0, {})
