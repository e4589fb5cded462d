"""A trainer makes the steps that a recipe's training makes."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_cpu import CpuEngine
from cntk_learner_adam import Adam
from cntk_learner_fsadagrad import FSAdaGrad
from cntk_learner_sgd import SGD, SGDOptions

from cntk_core.config import Schedule
from cntk_testing import ReferenceEngine
from tests.trainer.driven import assert_same, learner, make_network, train, trainer, values
from tests.training.small import make_session

RULES = {"sgd": SGD(), "nesterov": SGD(SGDOptions(use_nag=True)), "adam": Adam(), "fsadagrad": FSAdaGrad()}

AROUND = {
    "nothing": ({}, {}),
    "l1 and l2": ({"l1_reg_weight": 0.001, "l2_reg_weight": 0.01}, {"l1": 0.001, "l2": 0.01}),
    "clipped": ({"clipping_threshold_per_sample": 0.05}, {"clip": 0.05}),
    "norms clipped": (
        {"clipping_threshold_per_sample": 0.05, "gradient_clipping_with_truncation": False},
        {"clip": 0.05, "clip_norm": True},
    ),
    "noise": ({"gaussian_noise_inject_std": 0.01}, {"noise": 0.01}),
}


def recipe(folder, network, **changes):
    make_session(folder, network=network, **changes).run()
    return values(network)


@pytest.mark.parametrize("engine", [ReferenceEngine, CpuEngine])
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_with_dropout(tmp_path, rule, engine):
    dtype = np.float32 if engine is CpuEngine else np.float64
    given = {"engine": engine(), "learner": RULES[rule], "dropout_rate": 0.5, "seed": 3}
    expected = recipe(tmp_path, make_network(dtype, dropout=True), **given)
    network = make_network(dtype, dropout=True)
    train(trainer(network, learner(RULES[rule]), engine=engine(), op_settings={"dropoutRate": 0.5}, seed=3))
    assert_same(values(network), expected)


@pytest.mark.parametrize("around", AROUND)
def test_what_stands_around_the_rule(tmp_path, around):
    block, own = AROUND[around]
    expected = recipe(tmp_path, make_network(), **block)
    network = make_network()
    train(trainer(network, learner(**own)))
    assert_same(values(network), expected)


def test_minibatches_in_parts(tmp_path):
    expected = recipe(tmp_path, make_network(), num_subminibatches=3)
    network = make_network()
    train(trainer(network, parts=3))
    assert_same(values(network), expected)


def test_sparse_inputs(tmp_path):
    from scipy.sparse import csr_array

    from tests.trainer.driven import minibatches
    from tests.training.small import ListReader

    class Sparse(ListReader):
        def minibatches(self, epoch):
            import attrs

            for one in super().minibatches(epoch):
                streams = dict(one.streams)
                streams["features"] = attrs.evolve(streams["features"], data=csr_array(streams["features"].data))
                yield attrs.evolve(one, streams=streams)

    expected = recipe(tmp_path, make_network(sparse=True), reader=Sparse(), engine=CpuEngine())
    network = make_network(sparse=True)
    made = trainer(network, engine=CpuEngine())
    for epoch in range(3):
        for one in minibatches(epoch):
            sequences = [csr_array(row[None]) for row in one["features"]]
            made.train_minibatch({"features": sequences, "labels": one["labels"]})
        made.end_epoch()
    assert_same(values(network), expected)


def test_rates_by_epoch_and_by_point(tmp_path):
    rates = [0.0625, 0.03125, 0.015625]
    expected = recipe(tmp_path, make_network(), learning_rates_per_sample=Schedule.of(rates))
    points = []

    def of_point(point):
        points.append(point)
        return rates[point.epoch]

    for rate in (Schedule.of(rates), of_point):
        network = make_network()
        train(trainer(network, learner(rate=rate)))
        assert_same(values(network), expected)
    # The rate is asked for once in a step, and at the end of an epoch.
    assert [point.steps for point in points] == [*range(7), *range(6, 13), *range(12, 19)]
    assert [point.samples for point in points][:8] == [0, 8, 16, 24, 32, 40, 43, 43]
