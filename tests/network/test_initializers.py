"""First values: fans of a shape, seeds of parameters, rules of plugins, and what is said where there is no value."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.errors import BuildError, CntkError, DataError, Location, NetworkError, Problems, ShapeError
from cntk_core.network.initializers import (
    FixedValue,
    FromRule,
    SeededInitializer,
    fans,
    initialize_parameters,
    numbered,
    use_one_seed,
)
from cntk_core.network.network import Network
from cntk_core.network.node import Parameter


def seeds(shape, dtype, seed):
    return np.full(shape, seed, dtype)


def random(name: str = "r", **settings) -> FromRule:
    return FromRule(name, seeds, **settings)


def network(*initializers, **settings) -> Network:
    made = Network(np.float64)
    for number, first in enumerate(initializers):
        made.add(Parameter.make(f"p{number}", (2,), first, where=Location("n.cntk", number + 1, 5), **settings))
    return made


def first_values(made: Network) -> list[float]:
    return [float(one.value[0]) for one in made.parameters]


@pytest.mark.parametrize(
    ("shape", "ranks", "fan"),
    [
        ((5, 3), {}, (5, 3)),
        ((5, 3), {"output_rank": -1}, (3, 5)),
        ((7, 5, 3), {}, (35, 3)),
        ((7, 5, 3), {"output_rank": 2}, (7, 15)),
        ((7, 5, 3), {"output_rank": -2}, (3, 35)),
        ((7, 5, 3), {"output_rank": 0}, (105, 1)),
        ((11, 7, 5, 3), {"filter_rank": 2, "output_rank": 1}, (165, 105)),
        ((11, 7, 5, 3), {"filter_rank": 2, "output_rank": -1}, (105, 165)),
        ((11, 7, 5, 3), {"filter_rank": 1, "output_rank": 0}, (1155, 3)),
        ((4,), {}, (1, 4)),
        ((), {"output_rank": 0}, (1, 1)),
        ((0, 3), {}, (1, 1)),
    ],
)
def test_fans(shape, ranks, fan):
    assert fans(shape, **ranks) == fan


@pytest.mark.parametrize("ranks", [(1, 2), (2, 1), (0, 3), (0, -3), (2, -1)])
def test_fans_of_too_few_axes(ranks):
    with pytest.raises(ShapeError) as error:
        fans((5, 3), *ranks)
    assert str(error.value) == (
        f"a filter rank of {ranks[0]} and an output rank of {ranks[1]} need more axes than [3 x 5] has"
    )


def test_random_parameters_are_numbered_in_the_order_of_their_making():
    made = network(random(), FixedValue(7), random(), random(takes_seed=False), random(seed=50), random())
    initialize_parameters(made, seed=100)
    assert first_values(made) == [101, 7, 102, 102, 50, 103]
    assert made["p0"].value.dtype == np.float64


def test_an_offset_is_added_to_either_seed():
    made = network(random(seed_offset=1000), random(seed=50, seed_offset=1000), random())
    initialize_parameters(made)
    assert first_values(made) == [1001, 1050, 2]


def test_values_that_are_there_stay_and_keep_their_number():
    made = network(random(), random(), seeds)
    made["p0"].value = np.array([-1.0, -1.0])
    initialize_parameters(made)
    assert first_values(made) == [-1, 2, 3]


def test_one_seed_for_all():
    made = network(random(seed=5), random(seed_offset=7), FixedValue(9))
    use_one_seed(made)
    initialize_parameters(made, seed=100)
    assert first_values(made) == [1, 1, 9]


def test_numbers_are_taken_by_random_ones_without_a_seed():
    numbers = iter(range(10))
    plain = FixedValue(1)
    given = [random(), random(seed=77), random(takes_seed=False), plain, random(seed_offset=3)]
    found = [numbered(one, lambda: next(numbers)) for one in given]
    assert [one.seed for one in found if isinstance(one, SeededInitializer)] == [0, 77, None, 1]
    assert found[3] is plain
    assert found[4].seed_offset == 3


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (lambda shape, dtype, seed: np.zeros(3), "the initializer 'r' gives [3] for a parameter [2]"),
        (lambda shape, dtype, seed: ["a", "b"], "the initializer 'r' gives values of the type <U1"),
        (lambda shape, dtype, seed: [1.0, np.nan], "the initializer 'r' gives values that are no finite numbers"),
    ],
)
def test_what_a_rule_may_not_give(rule, said):
    with pytest.raises(BuildError) as error:
        initialize_parameters(network(FromRule("r", rule)))
    assert str(error.value) == f"n.cntk:1:5: {said}"


def test_all_parameters_without_values_are_told():
    def elsewhere(hint=None):
        def rule(shape, dtype, seed):
            raise DataError("no such file", where=Location("n.cntk", 90, 1), hint=hint)

        return FromRule("file", rule)

    with pytest.raises(Problems) as error:
        initialize_parameters(network(None, elsewhere(), elsewhere("Look there.")))
    assert str(error.value) == (
        "n.cntk:1:5: the parameter 'p0' has neither a value nor an initializer\n"
        "n.cntk:90:1: no such file\n    They are the first values of the parameter 'p1' (n.cntk:2:5).\n"
        "n.cntk:90:1: no such file\n    Look there.\n"
        "3 problems found"
    )


def test_what_happened_at_the_parameter_itself_needs_no_more_words():
    def rule(shape, dtype, seed):
        raise DataError("no such file", where=Location("n.cntk", 1, 5))

    with pytest.raises(CntkError) as error:
        initialize_parameters(network(FromRule("file", rule)))
    assert str(error.value) == "n.cntk:1:5: no such file"
    made = Network()
    made.add(Parameter.make("lost", (2,), FromRule("file", rule)))
    with pytest.raises(CntkError) as error:
        initialize_parameters(made)
    assert str(error.value) == "n.cntk:1:5: no such file\n    They are the first values of the parameter 'lost'."


def test_a_parameter_without_anything_and_no_place():
    made = Network()
    made.add(Parameter.make("lost", (2,)))
    with pytest.raises(NetworkError) as error:
        initialize_parameters(made)
    assert str(error.value) == "the parameter 'lost' has neither a value nor an initializer"
