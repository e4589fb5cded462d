"""Who took part in a run."""

from __future__ import annotations

import pytest

from cntk_core.records.origin import Origin, as_entries, merged, of_entries, summary

CPU = Origin("engine", "cpu", "cntk-engine-cpu", "0.1.0")
SGD = Origin("learner", "sgd", "cntk-learner-sgd", "0.1.0")
MINE = Origin("op", "Soft", "mine.py")


def test_there_and_back():
    assert of_entries(as_entries([CPU, MINE])) == (CPU, MINE)


@pytest.mark.parametrize("entries", [None, 3, {"kind": "op"}, ["x"], [{"kind": "op", "name": "x", "wheel": "w"}]])
def test_what_makes_no_sense_is_nothing(entries):
    assert of_entries(entries) == ()


def test_merged_has_each_once_with_the_newer_version():
    new = Origin("engine", "cpu", "cntk-engine-cpu", "0.2.0")
    assert merged([SGD, CPU], [new, MINE]) == (new, SGD, MINE)
    assert merged([CPU], [CPU]) == (CPU,)


def test_summary_names_each_wheel_once():
    auto = Origin("engine", "auto", "cntk-engine-cpu", "0.1.0")
    assert summary([SGD, MINE, CPU, auto]) == (
        "cntk-engine-cpu 0.1.0 (engine auto, engine cpu), cntk-learner-sgd 0.1.0 (learner sgd), mine.py (op Soft)"
    )
    assert summary([]) == ""
