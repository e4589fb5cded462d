"""A group of one rank."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.errors import TrainingError
from cntk_core.training.loop.alone import OneRank


def test_what_is_gathered_is_a_copy():
    one = OneRank()
    array = np.arange(3.0)
    for found in (one.allgather(array), one.alltoall([array])):
        assert len(found) == 1
        np.testing.assert_array_equal(found[0], array)
        assert found[0] is not array


def test_messages_to_oneself_come_once_and_in_order():
    one = OneRank()
    with pytest.raises(TrainingError, match=r"^there is no message, and no other rank that could send one$"):
        one.receive()
    array = np.arange(3.0)
    for tag in (1, 2, 1):
        one.send(array, 0, tag)
        array += 1
    with pytest.raises(TrainingError):
        one.receive(tag=3)
    found = [one.receive(0, 2), one.receive(), one.receive(0, 1)]
    assert [(message.source, message.tag, message.array[0]) for message in found] == [
        (0, 2, 1.0),
        (0, 1, 0.0),
        (0, 1, 2.0),
    ]
    assert one.poll() is None


def test_work_in_the_background_is_done_at_once():
    one = OneRank()
    pending = one.background(lambda communicator: communicator)
    assert pending.wait() is one
    assert isinstance(one.split(0), OneRank)
