"""The floors that benchmarks compare steps with."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def work_of(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    workloads = importlib.import_module("workloads").WORKLOADS
    found = importlib.import_module("floor").work_of
    return lambda name: found(workloads[name])


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("W1a", 2 * 32 * (2 * 784 * 256 + 3 * 256 * 10)),
        # The published count of ResNet-20 is 40.6 million multiplications, without shortcuts that are convolutions.
        ("W5c", pytest.approx(2 * 128 * (3 * 40.7e6 - 32 * 32 * 16 * 27), rel=5e-3)),
        ("U-momentum", 0),
    ],
)
def test_operations(work_of, name, operations):
    assert work_of(name).operations == operations


def test_embedded_words_have_gradients_and_no_momentum(work_of):
    work = work_of("W4")
    weights = 4 * 300 * (150 + 300) + 300 * 127
    assert work.operations % (2 * 3 * weights) == 0
    frames = work.operations / (2 * 3 * weights)
    values = weights + 943 * 150 + 4 * 300 + 127
    assert work.bytes == 4 * (2 * values + frames)


def test_an_update_moves_its_streams(work_of):
    assert work_of("U-momentum").bytes == 5 * 4 * 10_000_000
