"""The contract of parallelizers.

A plugin's test file gives the parallelizer, which is then run on ranks that are threads of this process::

    class TestBlockMomentum(ParallelizerContract):
        parallelizer_class = BlockMomentum
        reduces_gradients = False
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from cntk_core.contract.parallel import Communicator, Parallelizer, StepCounts
from cntk_core.contract.store import ParameterStore
from cntk_testing.contract import check_component
from cntk_testing.parallel_samples import (
    STEPS,
    Array,
    counts_of,
    fill_gradients,
    gradients_in,
    gradients_of,
    serial_sum,
    store_of,
)
from cntk_testing.recipes import RecipeContract
from cntk_testing.virtual_ranks import VirtualRanks


class ParallelizerContract(RecipeContract):
    """Tests of a parallelizer for pytest: subclass it with ``parallelizer_class`` or a fixture.

    Attributes:
        parallelizer_class: the parallelizer, made with its default options.
        reduces_gradients: ``reduce`` merges gradients (a model scheme merges parameters in ``sync``).
        exact: the merged gradient is the sum in the order of the ranks, to the last bit.
        repeatable: two runs give the same numbers; False where it matters which rank is faster.
        delay: steps after which ``reduce`` gives the sums of a step (1 with double buffering).
        sizes: numbers of ranks that are tried.
    """

    recipe_key: ClassVar[str] = "parallelizationMethod"
    ranks: ClassVar[int] = 2
    parallelizer_class: ClassVar[type[Parallelizer]]
    reduces_gradients: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    repeatable: ClassVar[bool] = True
    delay: ClassVar[int] = 0
    sizes: ClassVar[tuple[int, ...]] = (1, 2, 4)

    @pytest.fixture
    def parallelizer_factory(self) -> Callable[[], Parallelizer]:
        """Make a parallelizer, one for each rank."""
        return self.parallelizer_class

    def test_component(self, parallelizer_factory: Callable[[], Parallelizer]) -> None:
        """Options are an attrs class; the interface version fits."""
        check_component(type(parallelizer_factory()))

    def test_gradients_are_added_in_the_order_of_ranks(self, parallelizer_factory: Callable[[], Parallelizer]) -> None:
        """The gradients of each step are the serial sum, on every rank."""
        if not (self.reduces_gradients and self.exact):
            pytest.skip("the parallelizer does not give the exact sum of gradients")

        def work(communicator: Communicator) -> list[Array]:
            store, parallelizer, found = store_of(), parallelizer_factory(), []
            parallelizer.begin(store, communicator)
            parallelizer.begin_epoch(0)
            for step in range(STEPS):
                fill_gradients(store, communicator.rank, step)
                parallelizer.reduce(store, counts_of(communicator.rank, step))
                found.append(gradients_in(store))
            parallelizer.finish()
            return found

        for size in self.sizes:
            results = VirtualRanks(size).run(work)
            for step in range(STEPS):
                expected = np.zeros_like(gradients_of(0, step))
                if step >= self.delay:
                    expected = serial_sum([gradients_of(rank, step - self.delay) for rank in range(size)])
                for rank in range(size):
                    np.testing.assert_array_equal(
                        results[rank][step], expected, err_msg=f"gradients of step {step} on rank {rank} of {size}"
                    )

    def test_counts_ride_along(self, parallelizer_factory: Callable[[], Parallelizer]) -> None:
        """Samples and criteria of all ranks are added up, those of ranks without samples too."""
        if not self.reduces_gradients:
            pytest.skip("the parallelizer does not reduce gradients")

        def work(communicator: Communicator) -> list[StepCounts]:
            store, parallelizer, found = store_of(), parallelizer_factory(), []
            parallelizer.begin(store, communicator)
            parallelizer.begin_epoch(0)
            for step in range(STEPS):
                fill_gradients(store, communicator.rank, step)
                found.append(parallelizer.reduce(store, counts_of(communicator.rank, step)))
            parallelizer.finish()
            return found

        for size in self.sizes:
            for found in VirtualRanks(size).run(work):
                for step, counts in enumerate(found):
                    if step < self.delay:
                        assert counts.pending, f"the counts of step {step} are neither there nor pending"
                        assert counts.samples == 0
                        continue
                    parts = [counts_of(rank, step - self.delay) for rank in range(size)]
                    assert counts.samples == sum(part.samples for part in parts), f"samples of step {step}: {counts}"
                    for name in ("ce", "err"):
                        total = sum(part.criteria[name] for part in parts)
                        assert counts.criteria[name] == pytest.approx(total), f"'{name}' of step {step}"

    def test_ranks_agree_at_the_end_of_an_epoch(self, parallelizer_factory: Callable[[], Parallelizer]) -> None:
        """After the last synchronization all ranks have the same parameters."""

        def work(communicator: Communicator) -> Array:
            store, parallelizer = store_of(), parallelizer_factory()
            parallelizer.begin(store, communicator)
            parallelizer.begin_epoch(0)
            for step in range(STEPS):
                _train(store, parallelizer, communicator.rank, step)
            parallelizer.sync(store, counts_of(communicator.rank, STEPS), epoch_end=True)
            parallelizer.finish()
            return store.values.copy()

        for size in self.sizes:
            first, *others = VirtualRanks(size).run(work)
            for rank, other in enumerate(others, 1):
                np.testing.assert_array_equal(other, first, err_msg=f"parameters of rank {rank} of {size}")

    def test_a_restart_goes_on_where_it_was(self, parallelizer_factory: Callable[[], Parallelizer]) -> None:
        """With the state of another, a new parallelizer continues to the last bit.

        The state is taken inside an epoch with a gradient scheme, between two epochs with a model scheme.
        """
        if not self.repeatable:
            pytest.skip("no two runs of the parallelizer are the same")

        def first(communicator: Communicator) -> tuple[Array, Mapping[str, Array], Array]:
            store, parallelizer = store_of(), parallelizer_factory()
            parallelizer.begin(store, communicator)
            parallelizer.begin_epoch(0)
            self._train_on(store, parallelizer, communicator.rank, 0, epoch_end=not self.reduces_gradients)
            kept = {name: array.copy() for name, array in parallelizer.state().items()}
            values = store.values.copy()
            if not self.reduces_gradients:
                parallelizer.begin_epoch(1)
            self._train_on(store, parallelizer, communicator.rank, STEPS, epoch_end=True)
            parallelizer.finish()
            return values, kept, store.values.copy()

        def second(communicator: Communicator) -> Array:
            store, parallelizer = store_of(), parallelizer_factory()
            store.values[...], kept, _ = found[size][communicator.rank]
            parallelizer.begin(store, communicator)
            if self.reduces_gradients:
                parallelizer.begin_epoch(0)
            parallelizer.restore(kept)
            if not self.reduces_gradients:
                parallelizer.begin_epoch(1)
            self._train_on(store, parallelizer, communicator.rank, STEPS, epoch_end=True)
            parallelizer.finish()
            return store.values.copy()

        found = {size: VirtualRanks(size).run(first) for size in self.sizes}
        for size in self.sizes:
            restarted = VirtualRanks(size).run(second)
            for rank, ((_, _, through), again) in enumerate(zip(found[size], restarted, strict=True)):
                np.testing.assert_array_equal(again, through, err_msg=f"restart on rank {rank} of {size}")

    def _train_on(
        self, store: ParameterStore, parallelizer: Parallelizer, rank: int, first: int, *, epoch_end: bool
    ) -> None:
        for step in range(first, first + STEPS):
            _train(store, parallelizer, rank, step)
        if epoch_end:
            parallelizer.sync(store, counts_of(rank, first + STEPS), epoch_end=True)

    def test_another_number_of_ranks(self, parallelizer_factory: Callable[[], Parallelizer]) -> None:
        """The states of more or fewer ranks can be taken over, and the ranks agree at the end."""

        def first(communicator: Communicator) -> dict[str, Array]:
            store, parallelizer = store_of(), parallelizer_factory()
            parallelizer.begin(store, communicator)
            parallelizer.begin_epoch(0)
            _train(store, parallelizer, communicator.rank, 0)
            parallelizer.sync(store, counts_of(communicator.rank, 0), epoch_end=True)
            state = {name: array.copy() for name, array in parallelizer.state().items()}
            parallelizer.finish()
            return state

        for before, now in ((2, 3), (3, 2), (2, 1)):
            states = VirtualRanks(before).run(first)

            def second(communicator: Communicator, states: Any = states) -> tuple[str, Array]:
                store, parallelizer = store_of(), parallelizer_factory()
                parallelizer.begin(store, communicator)
                said = parallelizer.adopt(states)
                parallelizer.begin_epoch(1)
                _train(store, parallelizer, communicator.rank, 1)
                parallelizer.sync(store, counts_of(communicator.rank, 1), epoch_end=True)
                parallelizer.finish()
                return said, store.values.copy()

            results = VirtualRanks(now).run(second)
            for said, values in results:
                assert isinstance(said, str)
                assert "\n" not in said
                np.testing.assert_array_equal(values, results[0][1], err_msg=f"{now} ranks after {before}")

    def test_finish_after_a_failure(self, parallelizer_factory: Callable[[], Parallelizer]) -> None:
        """When one rank fails, every rank that trains can still finish, and the failure is what the caller sees.

        The others notice it when they meet next: a strategy with a period at the end of the epoch at the latest.
        """
        begun: list[int] = []
        finished: list[int] = []

        def work(communicator: Communicator) -> None:
            store, parallelizer = store_of(), parallelizer_factory()
            parallelizer.begin(store, communicator)
            communicator.barrier()  # nobody fails before all have begun
            begun.append(communicator.rank)
            try:
                parallelizer.begin_epoch(0)
                _train(store, parallelizer, communicator.rank, 0)
                if communicator.rank == 0:
                    raise ArithmeticError("no luck")
                self._train_on(store, parallelizer, communicator.rank, 1, epoch_end=True)
            finally:
                parallelizer.finish()
                finished.append(communicator.rank)

        for size in self.sizes:
            begun.clear()
            finished.clear()
            with pytest.raises(ArithmeticError, match="no luck"):
                VirtualRanks(size).run(work)
            assert sorted(finished) == sorted(begun), f"only the ranks {sorted(finished)} of {sorted(begun)} finished"


def _train(store: ParameterStore, parallelizer: Parallelizer, rank: int, step: int) -> None:
    """One update of plain gradient descent."""
    fill_gradients(store, rank, step)
    counts = parallelizer.reduce(store, counts_of(rank, step))
    store.values -= store.dtype.type(1e-9) * store.gradients
    parallelizer.sync(store, counts)
