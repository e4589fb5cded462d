"""What an answer to a hook must be: which ones are taken, and what is said of the others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cntk_core.plugins.answers import gradients, minibatch, rate, same_kind
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData


def batch(frames: int = 3, data_frames: int | None = None, dim: int = 2, names: str = "xy") -> Minibatch:
    rows = frames if data_frames is None else data_frames
    data = StreamData(np.zeros((rows, dim), np.float32), SequenceLayout.of_frames(frames))
    return Minibatch(dict.fromkeys(names, data), frames)


@pytest.mark.parametrize("answer", [0, 0.5, np.float32(2), np.int64(3)])
def test_rates(answer):
    assert rate({}, answer) == ""


@pytest.mark.parametrize("answer", [-0.1, math.inf, math.nan, True, "0.5", None])
def test_what_is_no_rate(answer):
    assert rate({}, answer) == f"it answered {answer!r}, which is no learning rate"


def test_an_answer_of_the_class_of_what_it_replaces():
    check = same_kind("action")
    assert check({"action": 1, "other": "x"}, 2) == ""
    assert check({"action": 1, "other": "x"}, "two") == "it answered 'two', not a int"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (batch(), ""),
        (7, "it answered 7, not a Minibatch"),
        (batch(names="yz"), "its streams are y, z, not x, y"),
        (batch(names="x"), "its streams are x, not x, y"),
        (batch(dim=5), "its stream 'x' has the shape (3, 5), not (3, 2)"),
        (batch(frames=2), "its stream 'x' has the shape (2, 2), not (3, 2)"),
        (batch(frames=2, data_frames=3), "its stream 'x' has the shape (3, 2), not (3, 2)"),
    ],
    ids=["good", "number", "other streams", "fewer streams", "wider", "shorter", "other sequences"],
)
def test_minibatches(answer, said):
    assert minibatch({"minibatch": batch()}, answer) == said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({}, ""),
        ({"W": np.ones((2, 3))}, ""),
        ({"W": np.ones((2, 3)), "b": np.ones(2)}, ""),
        ([np.ones((2, 3))], "it answered 1 values, not gradients by name"),
        ({"V": np.ones((2, 3))}, "it answered a gradient of 'V', which is no parameter that is trained"),
        ({"W": np.ones((3, 2))}, "its gradient of 'W' has the shape (3, 2), not (2, 3)"),
        ({"b": 0.5}, "its gradient of 'b' has the shape float, not (2,)"),
    ],
    ids=["none", "one", "all", "list", "unknown", "transposed", "number"],
)
def test_gradients(answer, said):
    assert gradients({"gradients": {"W": np.zeros((2, 3)), "b": np.zeros(2)}}, answer) == said
