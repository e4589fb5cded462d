"""Event files, read back by a reader of our own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cntk_hook_tensorboard.event_file import EventFile, clean
from cntk_hook_tensorboard.graph import GraphNode, tensor_board_names
from event_records import Events, crc32c


def test_the_reader_knows_the_checksum():
    assert crc32c(b"123456789") == 0xE3069283


def test_numbers(tmp_path):
    file = EventFile(tmp_path / "a/b")
    file.scalars({"summary/ce": 0.5, "summary/bad node": math.nan}, 3)
    file.scalars({"summary/ce": 0.25}, 2**40)
    file.restart(7)
    file.close()
    events = Events(tmp_path / "a/b")
    assert events.scalars["summary/ce"] == [(3, 0.5), (2**40, 0.25)]
    assert math.isnan(events.scalars["summary/bad_node"][0][1])
    assert events.restarts == [7]


def test_a_file_is_never_written_over(tmp_path):
    for value in (1.0, 2.0, 3.0):
        file = EventFile(tmp_path)
        file.scalars({"x": value}, 1)
        file.close()
    assert [value for _, value in Events(tmp_path).scalars["x"]] == [1.0, 2.0, 3.0]


def test_what_was_flushed_can_be_read_while_the_file_is_open(tmp_path):
    file = EventFile(tmp_path)
    file.scalars({"x": 1.0}, 1)
    file.flush()
    assert Events(tmp_path).scalars == {"x": [(1, 1.0)]}
    file.close()


def test_histograms(tmp_path):
    file = EventFile(tmp_path)
    values = np.array([[0.0, 1.0, 2.0], [3.0, math.nan, math.inf]], dtype=np.float32)
    file.histogram("parameters/W", values, 5)
    file.histogram("parameters/constant", np.zeros(4), 5)
    file.histogram("parameters/lost", np.full(3, math.nan), 5)
    file.close()
    histograms = Events(tmp_path).histograms
    assert set(histograms) == {"parameters/W", "parameters/constant"}
    ((step, found),) = histograms["parameters/W"]
    assert step == 5
    assert (found["min"], found["max"], found["num"], found["sum"], found["sum_squares"]) == (0.0, 3.0, 4.0, 6.0, 14.0)
    assert sum(found["counts"]) == 4
    assert len(found["counts"]) == len(found["limits"])
    assert found["limits"][-1] == 3.0
    assert sum(histograms["parameters/constant"][0][1]["counts"]) == 4


def test_the_graph(tmp_path):
    file = EventFile(tmp_path)
    file.graph([GraphNode("x", "InputValue", (), (3, 2)), GraphNode("h/z", "Times", ("x", "x"))])
    file.close()
    assert Events(tmp_path).graphs == [{"x": ("InputValue", [], [3, 2]), "h/z": ("Times", ["x", "x"], [])}]


@pytest.mark.parametrize(("tag", "cleaned"), [("a b", "a_b"), ("h1.W[0]", "h1.W_0_"), ("summary/ce-x", "summary/ce-x")])
def test_tags(tag, cleaned):
    assert clean(tag) == cleaned


def test_names_of_nodes():
    names = ["h1.W", "h1.b", "h1/W", "_x", "a[0].y", "..", "h1"]
    assert tensor_board_names(names) == ["h1/W", "h1/b", "h1/W_2", "n_x", "a_0_/y", "n_", "h1"]
