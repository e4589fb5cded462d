"""The place inside an epoch, as a checkpoint keeps it."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from cntk_core.contract.engine import ProgramState
from cntk_core.errors import CheckpointError
from cntk_core.training.files.position import Position

CARRIED = {
    "past": {"rows": np.arange(6.0).reshape(2, 3), "begun": True, "keys": ("a", 3, np.float32(0.5)), "all": np.zeros(0)}
}


def position(carried=CARRIED) -> Position:
    return Position(
        minibatches=3,
        passes=1,
        samples=24,
        read=12,
        read_by_all=24,
        rate=0.1,
        minibatch_size=8,
        may_fail=True,
        sums={"ce": 1.5},
        shown={"ce": (0.5, 8)},
        shown_at=2,
        seconds=0.25,
        program=ProgramState(carried, {"errs": 2.0}),
    )


def test_it_comes_back_as_it_was():
    kept = position()
    entries, arrays = kept.entries()
    found = Position.of(entries, dict(enumerate(arrays)))
    for field in attrs.fields_dict(Position).keys() - {"program"}:
        assert getattr(found, field) == getattr(kept, field)
    assert found.program.totals == {"errs": 2.0}
    back = found.program.carried["past"]
    assert back.keys() == CARRIED["past"].keys()
    np.testing.assert_array_equal(back["rows"], CARRIED["past"]["rows"])
    assert back["begun"] is True
    assert back["keys"][:2] == ("a", 3)
    assert back["keys"][2].shape == ()
    assert back["keys"][2] == np.float32(0.5)
    assert back["all"].shape == (0,)


def test_where_ranks_read_alike_nothing_is_said_of_all():
    entries, arrays = position().entries()
    del entries["read_by_all"]
    assert Position.of(entries, dict(enumerate(arrays))).read_by_all == 12


@pytest.mark.parametrize(
    "change",
    [
        {"minibatches": "x"},
        {"carried": []},
        {"shown": {"ce": 1}},
        {"totals": {"ce": None}},
        {"sums": None},
        {"rate": None},
    ],
)
def test_entries_that_make_no_sense(change):
    entries, arrays = position().entries()
    for wrong in ({**entries, **change}, {key: entries[key] for key in entries if key not in change}):
        with pytest.raises(CheckpointError) as caught:
            Position.of(wrong, dict(enumerate(arrays)))
        assert str(caught.value) == "the checkpoint is damaged: its place in the epoch makes no sense"


def test_arrays_that_are_not_there():
    entries, _ = position().entries()
    with pytest.raises(CheckpointError, match=r"its place in the epoch makes no sense$"):
        Position.of(entries, {})


def test_values_that_no_file_has():
    with pytest.raises(CheckpointError, match=r"^a value of object that a node keeps cannot be saved$"):
        position({"past": {"thing": object()}}).entries()


def test_the_place_after_steps_of_a_program():
    state = ProgramState({}, {})
    found = attrs.asdict(Position.of_steps(3, 5, 7, state), recurse=False)
    assert found.pop("program") is state
    assert found.pop("may_fail") is False
    assert [found.pop(name) for name in ("sums", "shown")] == [{}, {}]
    assert [found.pop(name) for name in ("minibatches", "passes", "read", "read_by_all")] == [3, 5, 7, 7]
    assert set(found.values()) == {0}
