"""Buckets, and what the engine keeps between runs and between programs."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from cntk_engine_xla import XlaEngine
from cntk_engine_xla.buckets import bucket
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import Unavailable
from cntk_testing.engine_contract import MOMENTUM, start
from cntk_testing.networks import classifier, dropout
from cntk_testing.reference import ReferenceEngine


@pytest.fixture
def engine():
    return XlaEngine(XlaEngine.options(xla_cache="none"))


def test_the_series_of_buckets():
    found = sorted({bucket(count) for count in range(130)})
    assert found == [*range(9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160]


@given(st.integers(1, 1 << 40))
def test_a_bucket_has_room_and_wastes_little(count):
    size = bucket(count)
    assert count <= size <= 1.25 * count
    assert bucket(size) == size


def test_sizes_of_a_bucket_share_a_compilation(engine):
    run = start(engine, classifier("float32"), training=False)
    for frames in (9, 10, 9, 33, 40, 35):
        run.program.evaluate(run.sample.minibatch(frames))
    assert run.program.compilations == 2


def test_without_jax_it_says_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jax" else found(name))
    assert XlaEngine.availability() == Unavailable("JAX is not installed", 'pip install "cntk-engine-xla"')


def test_the_engine_can_be_changed_between_epochs(engine):
    """Reference, XLA, reference on one store: the same random numbers, and parameters that differ by rounding alone."""
    values = []
    for engines in ([ReferenceEngine()] * 3, [ReferenceEngine(), engine, ReferenceEngine()]):
        run = start(engines[0], dropout("float64"), rule=MOMENTUM, seed=9)
        for epoch, each in enumerate(engines):
            program = each.compile(run.plan, run.store, MOMENTUM, seed=9)
            program.begin_epoch(epoch, {"dropoutRate": 0.5})
            for step in range(3):
                program.train_step(run.sample.minibatch(9, step), run.scalars(MOMENTUM, step))
        values.append(run.values())
    for one, other in zip(*values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
