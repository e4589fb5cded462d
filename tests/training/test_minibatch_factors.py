"""Settings for minibatches that a reader makes larger in some epochs."""

from __future__ import annotations

import pytest

from cntk_core.config import Schedule
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.session.minibatch_factors import for_factors


def settings(**changes):
    given = {"max_epochs": 3, "minibatch_size": Schedule.constant(8), "truncated": True, **changes}
    return SGDSettings(**given)


def test_minibatches_of_the_usual_size_change_nothing():
    one = settings()
    assert for_factors(one, lambda epoch: 1) is one


@pytest.mark.parametrize("larger", [0, 2])
def test_momentum_and_rates_are_spread_over_larger_minibatches(larger):
    one = settings(momentum_per_mb=Schedule.of([0.81, 0.64, 0.36]), learning_rates_per_mb=Schedule.of([0.8, 0.4, 0.2]))
    found = for_factors(one, lambda epoch: 2 if epoch == larger else 1)
    assert not found.truncated
    for epoch, (momentum, rate) in enumerate(((0.81, 0.8), (0.64, 0.4), (0.36, 0.2))):
        expected = (momentum**0.5, rate / 2) if epoch == larger else (momentum, rate)
        assert (found.momentum_per_mb[epoch], found.learning_rates_per_mb[epoch]) == pytest.approx(expected)


def test_the_momentum_that_nobody_gave_is_spread_too():
    found = for_factors(settings(), lambda epoch: 1 + epoch)
    assert [found.momentum_per_mb[epoch] for epoch in range(3)] == pytest.approx([0.9, 0.9**0.5, 0.9 ** (1 / 3)])
    assert found.learning_rates_per_mb is None
