from __future__ import annotations

import os

import pytest

from cntk_kit_readers.threads import reader_threads


@pytest.mark.parametrize(
    ("asked", "given", "expected"),
    [
        (0, "", 6),
        (0, "4", 4),
        (0, "64", 6),
        (0, "0", 6),
        (0, "2,1", 6),
        (3, "1", 3),
        (9, "", 9),
        (-2, "1", 4),
        (-6, "", 1),
    ],
)
def test_threads_follow_the_rule_of_those_that_compute(monkeypatch, asked, given, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert reader_threads(asked) == expected
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert reader_threads(asked) == expected


def test_one_thread_where_nobody_knows_the_processors(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert reader_threads() == 1
