"""What Open MPI says of ranks that have ended is left out; the rest of what comes through it stays."""

from __future__ import annotations

import pytest
from cntk_parallel_mpi.launching import without_boxes

EDGE = "-" * 74

ABORT = [
    EDGE,
    "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD",
    "  Errorcode: 1",
    "",
    "NOTE: ...",
    EDGE,
]
EXITED = [EDGE, "prterun has exited due to process rank 1 with PID 0 on node vm calling", '"abort".', EDGE]
KILLED = [EDGE, "prterun noticed that process rank 0 with PID 7 on node vm exited on", "signal 9 (Killed).", EDGE]
STATUS = [EDGE, "prterun detected that one or more processes exited with non-zero status,", "thus", EDGE]
SLOTS = [EDGE, "There are not enough slots available in the system to satisfy the 50", "slots", EDGE]


@pytest.mark.parametrize("box", [ABORT, EXITED, KILLED, STATUS])
def test_of_ranks_that_have_ended(box: list[str]) -> None:
    assert list(without_boxes(["one", *box, " \0", "two", "", "three"])) == ["one", "two", "", "three"]
    assert list(without_boxes([*ABORT, *box])) == []
    assert list(without_boxes([*SLOTS, *box, *SLOTS])) == [*SLOTS, *SLOTS]


def test_other_things_stay() -> None:
    lines = ["", "one", *SLOTS, "", "two", EDGE, "not closed"]
    assert list(without_boxes(lines)) == lines


def test_long_ones_are_not_open_mpis() -> None:
    lines = [EDGE, *(f"MPI_ABORT was invoked {number}" for number in range(40)), "end"]
    assert list(without_boxes(lines)) == lines


def test_who_ends_the_others() -> None:
    lines = ["rank 0 ends all ranks: no luck", "rank 1: rank 1 ends all ranks: no luck", "rank 1: one"]
    assert list(without_boxes(lines)) == ["rank 1: one"]


def test_lines_come_at_once() -> None:
    given: list[str] = []

    def lines() -> object:
        for text in ("one", "two"):
            given.append(text)
            yield text

    assert next(without_boxes(lines())) == "one"  # type: ignore[arg-type]
    assert given == ["one"]
