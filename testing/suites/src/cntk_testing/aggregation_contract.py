"""The contract of gradient aggregations (compression schemes).

A plugin's test file gives the aggregation, which is run on ranks that are threads of this process, or, with a fixture
``run_ranks``, on those of another communicator::

    class TestOneBit(AggregationContract):
        aggregation_class = OneBit
        exact = False
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from cntk_core.contract.parallel import Communicator, GradientAggregation
from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Parameter
from cntk_testing.contract import check_component
from cntk_testing.parallel_samples import (
    STEPS,
    Array,
    RunRanks,
    fill_gradients,
    gradients_in,
    gradients_of,
    serial_sum,
    store_of,
)
from cntk_testing.recipes import RecipeContract
from cntk_testing.virtual_ranks import VirtualRanks

EARLY, LATE = 100, 400
"""Steps after which is measured what was left out."""
DESCENT = 200
"""Steps of a descent."""


class AggregationContract(RecipeContract):
    """Tests of a gradient aggregation for pytest: subclass it with ``aggregation_class`` or a fixture.

    Attributes:
        aggregation_class: the aggregation, made with its default options.
        exact: the result is the sum in the order of the ranks, to the last bit.
        drift: how far the mean of many results of the same gradients may be from their sum, as a share of the largest
            sum. What a compression leaves out of one step must come with later ones.
        repeats: how many results that is.
        growth: how many times more of a step's gradient may be left out after 400 steps than after 100.
        slack: how many times the error of exact sums a descent with these sums may leave.
        sizes: numbers of ranks that are tried.
    """

    recipe_key: ClassVar[str] = "parallelizationMethod"
    ranks: ClassVar[int] = 2
    aggregation_class: ClassVar[type[GradientAggregation]]
    exact: ClassVar[bool] = True
    drift: ClassVar[float] = 0.1
    repeats: ClassVar[int] = 500
    growth: ClassVar[float] = 1.5
    slack: ClassVar[float] = 3.0
    sizes: ClassVar[tuple[int, ...]] = (1, 2, 4)

    @pytest.fixture
    def aggregation_factory(self) -> Callable[[], GradientAggregation]:
        """Make an aggregation, one for each rank."""
        return self.aggregation_class

    @pytest.fixture
    def run_ranks(self) -> RunRanks:
        """Run a function on some ranks; a subclass may give another communicator than the virtual one."""
        return lambda size, work: VirtualRanks(size).run(work)

    def test_component(self, aggregation_factory: Callable[[], GradientAggregation]) -> None:
        """Options are an attrs class; the interface version fits."""
        check_component(type(aggregation_factory()))

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_all_ranks_get_the_same(
        self, aggregation_factory: Callable[[], GradientAggregation], run_ranks: RunRanks, dtype: str
    ) -> None:
        """The results are equal on all ranks, the header is the sum, an exact aggregation gives the serial sum."""

        def work(communicator: Communicator) -> list[tuple[Array, Array]]:
            store, aggregation, found = store_of(dtype), aggregation_factory(), []
            aggregation.begin(store, communicator)
            aggregation.begin_epoch(0)
            for step in range(STEPS):
                fill_gradients(store, communicator.rank, step)
                header = _header(communicator.rank, step)
                aggregation.aggregate(store.gradients, header, communicator)
                found.append((gradients_in(store), header))
            return found

        for size in self.sizes:
            results = run_ranks(size, work)
            for step in range(STEPS):
                where = f"of step {step} on rank %d of {size}"
                first = results[0][step][0]
                if self.exact:
                    first = serial_sum([gradients_of(rank, step, dtype) for rank in range(size)])
                total = serial_sum([_header(rank, step) for rank in range(size)])
                for rank in range(size):
                    gradients, header = results[rank][step]
                    np.testing.assert_array_equal(gradients, first, err_msg=f"gradients {where % rank}")
                    np.testing.assert_array_equal(header, total, err_msg=f"header {where % rank}")

    def test_nothing_is_lost(self, aggregation_factory: Callable[[], GradientAggregation], run_ranks: RunRanks) -> None:
        """The mean of the results over many steps with the same gradients is their sum."""

        def work(communicator: Communicator) -> Array:
            store, aggregation = store_of(np.float64), aggregation_factory()
            aggregation.begin(store, communicator)
            aggregation.begin_epoch(0)
            total = np.zeros_like(store.gradients)
            for _ in range(self.repeats):
                store.gradients[...] = _even(communicator.rank, store.gradients.size)
                aggregation.aggregate(store.gradients, np.zeros(2), communicator)
                total += store.gradients
            store.gradients[...] = total / self.repeats
            return gradients_in(store)

        for size in self.sizes:
            expected = np.zeros_like(store_of(np.float64).gradients)
            for rank in range(size):
                expected += _even(rank, expected.size)
            wanted = store_of(np.float64)
            wanted.gradients[...] = expected
            found = run_ranks(size, work)[0]
            off = float(np.max(np.abs(found - gradients_in(wanted))) / np.max(np.abs(expected)))
            assert off <= self.drift, f"with {size} ranks the mean result is off by {off:.3f} of the largest sum"

    def test_what_is_left_out_does_not_pile_up(
        self, aggregation_factory: Callable[[], GradientAggregation], run_ranks: RunRanks
    ) -> None:
        """The sum of the results stays as near to the sum of the gradients late as it was early.

        Parameters with gradients of very different sizes show whether each has its share of what goes over the wire.
        """

        def work(communicator: Communicator) -> list[float]:
            store, aggregation = layers(), aggregation_factory()
            aggregation.begin(store, communicator)
            aggregation.begin_epoch(0)
            rows = [_uneven(store, rank) for rank in range(communicator.size)]
            behind, found = np.zeros_like(store.gradients), []
            for step in range(LATE):
                store.gradients[...] = rows[communicator.rank]
                aggregation.aggregate(store.gradients, np.zeros(1), communicator)
                behind += sum(rows) - store.gradients
                if step + 1 in (EARLY, LATE):
                    found.append(float(np.linalg.norm(behind) / np.linalg.norm(sum(rows))))
            return found

        for size in self.sizes:
            early, late = run_ranks(size, work)[0]
            assert late <= self.growth * early + 0.1, (
                f"with {size} ranks, what is left out is {early:.2f} times a step's gradient after {EARLY} steps and "
                f"{late:.2f} times after {LATE}: it is kept, but comes too late or never"
            )

    def test_descent_follows_full_precision(
        self, aggregation_factory: Callable[[], GradientAggregation], run_ranks: RunRanks
    ) -> None:
        """Gradient descent down a quadratic bowl comes about as far as with the exact sums."""

        def work(communicator: Communicator) -> float:
            store, aggregation = layers(), aggregation_factory()
            aggregation.begin(store, communicator)
            aggregation.begin_epoch(0)
            return descend(store, communicator, aggregation)

        for size in self.sizes:
            exact = run_ranks(size, lambda communicator: descend(layers(), communicator))[0]
            found = run_ranks(size, work)[0]
            assert found <= self.slack * exact, (
                f"with {size} ranks, {DESCENT} steps of gradient descent leave an error of {found:.3g}, "
                f"with the exact sums of {exact:.3g}"
            )

    def test_zeros_stay_zeros(
        self, aggregation_factory: Callable[[], GradientAggregation], run_ranks: RunRanks
    ) -> None:
        """Ranks without data bring zeros; if all do, nothing comes out."""

        def work(communicator: Communicator) -> Array:
            store, aggregation = store_of(), aggregation_factory()
            aggregation.begin(store, communicator)
            aggregation.begin_epoch(0)
            aggregation.aggregate(store.gradients, np.zeros(1), communicator)
            return gradients_in(store)

        for size in self.sizes:
            for found in run_ranks(size, work):
                assert not found.any()

    def test_a_restart_goes_on_where_it_was(
        self, aggregation_factory: Callable[[], GradientAggregation], run_ranks: RunRanks
    ) -> None:
        """With the state of another, a new aggregation continues to the last bit; without it, it may not."""

        def work(communicator: Communicator) -> tuple[Array, Array]:
            store, aggregation = store_of(), aggregation_factory()
            aggregation.begin(store, communicator)
            aggregation.begin_epoch(0)
            for step in range(STEPS):
                _aggregate(aggregation, store, communicator, step)
            kept = {name: array.copy() for name, array in aggregation.state().items()}
            _aggregate(aggregation, store, communicator, STEPS)
            through = gradients_in(store)
            fresh = aggregation_factory()
            fresh.begin(store, communicator)
            fresh.begin_epoch(0)
            fresh.restore(kept)
            _aggregate(fresh, store, communicator, STEPS)
            return through, gradients_in(store)

        for size in self.sizes:
            for rank, (through, restarted) in enumerate(run_ranks(size, work)):
                np.testing.assert_array_equal(restarted, through, err_msg=f"restart on rank {rank} of {size}")

    def test_another_number_of_ranks(
        self, aggregation_factory: Callable[[], GradientAggregation], run_ranks: RunRanks
    ) -> None:
        """The states of more or fewer ranks can be taken over, and the ranks still agree afterwards."""

        def first(communicator: Communicator) -> dict[str, Array]:
            store, aggregation = store_of(), aggregation_factory()
            aggregation.begin(store, communicator)
            aggregation.begin_epoch(0)
            _aggregate(aggregation, store, communicator, 0)
            return {name: array.copy() for name, array in aggregation.state().items()}

        for before, now in ((2, 3), (3, 2), (2, 1)):
            states = run_ranks(before, first)

            def second(communicator: Communicator, states: Any = states) -> tuple[str, Array]:
                store, aggregation = store_of(), aggregation_factory()
                aggregation.begin(store, communicator)
                aggregation.begin_epoch(0)
                said = aggregation.adopt(states)
                _aggregate(aggregation, store, communicator, 1)
                return said, gradients_in(store)

            results = run_ranks(now, second)
            for said, gradients in results:
                assert isinstance(said, str)
                assert "\n" not in said
                np.testing.assert_array_equal(gradients, results[0][1], err_msg=f"{now} ranks after {before}")


def layers() -> ParameterStore:
    """A store of two layers, weights and biases, all 0."""
    shapes = {"W0": (16, 8), "b0": (8,), "W1": (8, 3), "b1": (3,)}
    parameters = [Parameter.make(name, shape, value=np.zeros(shape)) for name, shape in shapes.items()]
    return ParameterStore(parameters, np.float64)


def descend(store: ParameterStore, communicator: Communicator, aggregation: GradientAggregation | None = None) -> float:
    """Take steps down a bowl, of which each rank knows its own; return how far the sum of all is from its bottom.

    The bowls are steep in some directions and flat in others, and their bottoms lie at different distances.
    """
    steep, goal = np.zeros(store.values.size), np.zeros(store.values.size)
    numbers = np.random.default_rng(3)
    for parameter in store.parameters:
        first, end = store.range(parameter)
        steep[first:end] = 10.0 ** -numbers.uniform(0, 2, size=end - first)
        goal[first:end] = numbers.normal(size=end - first) * 10.0 ** numbers.uniform(-1, 1)
    own = [goal + 0.3 * np.random.default_rng([5, rank]).normal(size=goal.size) for rank in range(communicator.size)]
    for _ in range(DESCENT):
        store.gradients[...] = steep * (store.values - own[communicator.rank]) / communicator.size
        if aggregation is None:
            communicator.allreduce(store.gradients)
        else:
            aggregation.aggregate(store.gradients, np.zeros(1), communicator)
        store.values -= 0.5 * store.gradients
    return float(np.sum(steep * (store.values - np.mean(own, axis=0)) ** 2))


def _uneven(store: ParameterStore, rank: int) -> Array:
    """Gradients of a rank that are ten times smaller from one parameter to the next."""
    found = np.zeros_like(store.gradients)
    for number, parameter in enumerate(store.parameters):
        first, end = store.range(parameter)
        found[first:end] = np.random.default_rng([rank, number]).normal(size=end - first) * 10.0**-number
    return found


def _header(rank: int, step: int) -> Array:
    return np.array([rank, 0.1 * step, 1.0 + 2.0**-40 * rank])


def _even(rank: int, size: int) -> Array:
    """Gradients of about equal sizes."""
    return np.random.default_rng([rank, size]).normal(size=size)


def _aggregate(aggregation: GradientAggregation, store: ParameterStore, communicator: Communicator, step: int) -> None:
    fill_gradients(store, communicator.rank, step)
    aggregation.aggregate(store.gradients, np.zeros(1), communicator)
