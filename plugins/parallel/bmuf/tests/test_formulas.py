"""What happens to models at the end of a block, against the formulas written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from block_ranks import SIZE, Rank, first, models, run, targets
from cntk_parallel_bmuf import BlockMomentum, BlockMomentumOptions, ModelAveraging, ModelAveragingOptions
from hypothesis import given, settings
from hypothesis import strategies as st

SETTINGS = settings(max_examples=25, deadline=None)
RANKS = st.integers(1, 5)
MOMENTA = st.floats(0.0, 0.99)


def momentum(**options):
    return lambda: BlockMomentum(BlockMomentumOptions(**options))


def averaging(**options):
    return lambda: ModelAveraging(ModelAveragingOptions(**options))


def even(count, blocks=3, steps=2, **changes):
    """Ranks with blocks of 10 samples in steps of 5, in one epoch."""
    return [Rank(target, ((5,) * (steps * blocks),), **changes) for target in targets(count)]


def after_block(rank, model, steps=2):
    """The model of a rank after the steps of a block, without momentum."""
    for _ in range(steps):
        model = model - rank.rate * (model - rank.target)
    return model


@pytest.mark.parametrize("count", [2, 3])
def test_classical_form_of_the_paper(count):
    """W(t) = W(t-1) + Delta(t), Delta(t) = eta Delta(t-1) + zeta G(t), G(t) = mean of the models - W(t-1)."""
    eta, zeta, ranks = 0.6, 0.8, even(count)
    given_ = {"block_momentum_per_sync": eta, "block_learning_rate": zeta, "variant": "paper"}
    found = models(run(momentum(**given_, use_nesterov_momentum=False, block_size_per_worker=10), ranks))
    w, delta = first(), np.zeros(SIZE)
    for _ in range(3):
        g = sum(after_block(rank, w) for rank in ranks) / count - w
        delta = eta * delta + zeta * g
        w = w + delta
    np.testing.assert_allclose(found, w, rtol=1e-12)


@pytest.mark.parametrize("count", [2, 3])
def test_nesterov_form_of_the_paper(count):
    """The same, but a block begins at W_g(t) = W(t) + eta Delta(t), and G(t) is measured from there."""
    eta, zeta, ranks = 0.6, 0.8, even(count)
    given_ = {"block_momentum_per_sync": eta, "block_learning_rate": zeta, "variant": "paper"}
    found = models(run(momentum(**given_, block_size_per_worker=10), ranks))
    w, delta, begin = first(), np.zeros(SIZE), first()
    for _ in range(3):
        g = sum(after_block(rank, begin) for rank in ranks) / count - begin
        delta = eta * delta + zeta * g
        w = w + delta
        begin = w + eta * delta
    np.testing.assert_allclose(found, begin, rtol=1e-12)


@pytest.mark.parametrize("nesterov", [True, False])
def test_form_of_cntk(nesterov):
    b, rate, ranks = 0.6, 0.8, even(3)
    given_ = {"block_momentum_per_sync": b, "block_learning_rate": rate, "use_nesterov_momentum": nesterov}
    found = models(run(momentum(**given_, block_size_per_worker=11), [Rank(r.target, ((5,) * 9,)) for r in ranks]))
    w, delta = first(), np.zeros(SIZE)
    for _ in range(3):
        g = sum(w - after_block(rank, w, 3) for rank in ranks)
        delta = b * delta + (1 - b) * rate * g
        w = w - delta - (b * delta if nesterov else 0)
    delta = b * delta  # the end of the epoch is one more step, without samples
    w = w - delta - (b * delta if nesterov else 0)
    np.testing.assert_allclose(found, w, rtol=1e-12)


def test_nothing_is_learned_from_an_empty_block_in_the_paper():
    ranks = even(2)
    given_ = {"block_momentum_per_sync": 0.6, "variant": "paper"}
    exact = models(run(momentum(**given_, block_size_per_worker=30), ranks))
    # The block ends with the epoch, or just before it.
    np.testing.assert_array_equal(models(run(momentum(**given_, block_size_per_worker=31), ranks)), exact)


class OuterNesterov:
    """Nesterov's SGD as PyTorch has it: what DiLoCo (Douillard et al. 2023) takes for its outer optimizer."""

    def __init__(self, rate, momentum):
        self.rate, self.momentum, self.buffer = rate, momentum, None

    def step(self, theta, gradient):
        self.buffer = gradient if self.buffer is None else self.momentum * self.buffer + gradient
        return theta - self.rate * (gradient + self.momentum * self.buffer)


@SETTINGS
@given(RANKS, st.integers(1, 4), st.integers(1, 5), MOMENTA, st.floats(0.05, 1.2))
def test_nesterov_block_momentum_is_diloco(workers, blocks, inner_steps, outer_momentum, outer_rate):
    ranks = even(workers, blocks, inner_steps)
    theta, outer = first(), OuterNesterov(outer_rate, outer_momentum)
    for _ in range(blocks):
        replicas = []
        for rank in ranks:
            replica = theta.copy()
            for _ in range(inner_steps):
                replica -= rank.rate * (replica - rank.target)
            replicas.append(replica)
        outer_gradient = sum(theta - replica for replica in replicas) / workers
        theta = outer.step(theta, outer_gradient)
    make = momentum(
        variant="paper",
        block_momentum_per_sync=outer_momentum,
        block_learning_rate=outer_rate,
        block_size_per_worker=5 * inner_steps,
        reset_sgd_momentum=False,
    )
    np.testing.assert_allclose(models(run(make, ranks)), theta, rtol=1e-10, atol=1e-12)


@SETTINGS
@given(RANKS, st.data())
def test_without_momentum_the_paper_is_model_averaging(count, data):
    """Also with data that differ between the ranks."""
    minibatches = st.lists(st.integers(0, 9), max_size=6).map(tuple)
    ranks = [Rank(target, (data.draw(minibatches), data.draw(minibatches))) for target in targets(count)]
    given_ = {"block_size_per_worker": data.draw(st.integers(1, 20))}
    plain = {"block_momentum_per_sync": 0.0, "variant": "paper", "reset_sgd_momentum": False}
    found = models(run(momentum(**given_, **plain), ranks))
    expected = models(run(averaging(**given_), ranks))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@SETTINGS
@given(st.integers(2, 5), st.booleans())
def test_cntk_without_momentum_adds_up(count, nesterov):
    """Rate 1 takes the sum of what the workers have learned, 1 / workers its mean: model averaging."""
    ranks = even(count)
    given_ = {"block_momentum_per_sync": 0.0, "use_nesterov_momentum": nesterov, "block_size_per_worker": 10}
    found = models(run(momentum(**given_, block_learning_rate=1 / count), ranks))
    np.testing.assert_allclose(found, models(run(averaging(block_size_per_worker=10), ranks)), rtol=1e-12)


@SETTINGS
@given(st.sampled_from(["cntk", "paper"]), st.integers(1, 40), st.lists(st.integers(0, 9), max_size=8))
def test_one_worker_is_serial_training(variant, block, minibatches):
    rank = Rank(targets(1)[0], (tuple(minibatches),), momentum=0.9)
    found = models(run(momentum(variant=variant, block_size=block, reset_sgd_momentum=False), [rank]))
    alone = models(run(averaging(block_size=1000), [rank]))
    np.testing.assert_allclose(found, alone, rtol=1e-12, atol=1e-12)


@SETTINGS
@given(RANKS, st.sampled_from(["cntk", "paper"]), st.integers(1, 6))
def test_equal_data_are_serial_training(count, variant, steps):
    """The models of all ranks are equal, so their mean is each of them."""
    one = Rank(targets(1)[0], ((5,) * steps,))
    serial = after_block(one, first(), steps)
    np.testing.assert_allclose(models(run(averaging(block_size_per_worker=10), [one] * count)), serial, rtol=1e-12)
    rate = 1.0 if variant == "paper" else 1 / count
    given_ = {"block_momentum_per_sync": 0.0, "variant": variant, "block_learning_rate": rate}
    found = models(run(momentum(**given_, block_size_per_worker=10), [one] * count))
    np.testing.assert_allclose(found, serial, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("workers", [2, 4])
def test_default_momentum_makes_the_sum_a_mean(workers):
    """With 1 - 1/n the first block takes CNTK's sum as the paper takes its mean."""
    ranks = even(workers, blocks=1)
    forms = [
        models(run(momentum(variant=variant, use_nesterov_momentum=False, block_size=10 * workers - 1), ranks))
        for variant in ("cntk", "paper")
    ]
    mean = sum(after_block(rank, first()) for rank in ranks) / workers
    np.testing.assert_allclose(forms[1], mean, rtol=1e-12)
    # CNTK takes one more step at the end of the epoch, although nothing was learned since.
    step = mean - first()
    np.testing.assert_allclose(forms[0], mean + (1 - 1 / workers) * step, rtol=1e-12)


@pytest.mark.parametrize(
    ("given_", "workers", "expected"),
    [
        ({}, 4, 0.75),
        ({}, 1, 0.0),
        ({"block_momentum_per_sync": 0.3}, 4, 0.3),
        ({"block_size": 96, "block_momentum_as_time_constant": 200.0}, 2, math.exp(-96 / 200)),
        ({"block_size_per_worker": 48, "block_momentum_as_time_constant": 200.0}, 2, math.exp(-96 / 200)),
        ({"block_momentum_as_time_constant": 240000.0}, 2, math.exp(-1)),
        ({"block_momentum_as_time_constant": 0.0}, 2, 0.0),
    ],
)
def test_momentum_of_a_block(given_, workers, expected):
    assert BlockMomentumOptions(**given_).rule(workers).momentum == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("kind", "given_", "workers", "expected"),
    [
        (ModelAveragingOptions, {}, 3, 40000),
        (BlockMomentumOptions, {}, 3, 120000),
        (BlockMomentumOptions, {"block_size": 100}, 3, 33),
        (BlockMomentumOptions, {"block_size": 2}, 3, 1),
        (ModelAveragingOptions, {"block_size_per_worker": 7}, 3, 7),
    ],
)
def test_samples_of_a_block(kind, given_, workers, expected):
    assert kind(**given_).samples_per_worker(workers) == expected
