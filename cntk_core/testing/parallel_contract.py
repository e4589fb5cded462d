"""The contracts of communicators and parallelizers.

A plugin's test file gives the parallelizer, which is then run on ranks that are threads of this process::

    class TestBlockMomentum(ParallelizerContract):
        parallelizer_class = BlockMomentum
        reduces_gradients = False

and a communicator's gives a fixture that runs a function on some ranks::

    class TestPipes(CommunicatorContract):
        @pytest.fixture
        def run_ranks(self):
            return run_on_processes     # (size, work) -> results by rank
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from cntk_core.interfaces.parallel import Communicator, Parallelizer, StepCounts
from cntk_core.network.node import Parameter
from cntk_core.testing.contract import Contract, check_component
from cntk_core.testing.virtual_ranks import VirtualRanks
from cntk_core.training.store import ParameterStore

RunRanks = Callable[[int, Callable[[Communicator], Any]], list[Any]]
Array = NDArray[Any]

STEPS = 4
"""Updates of a run of a parallelizer."""


def numbers_of(rank: int, dtype: Any, size: int = 257) -> Array:
    """Numbers of very different sizes, so that the order of a sum shows in its last bits."""
    rng = np.random.default_rng([rank, size])
    return (rng.normal(size=size) * 10.0 ** rng.integers(-6, 7, size=size)).astype(dtype)


def serial_sum(arrays: list[Array]) -> Array:
    """The sum in the order given."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total


class CommunicatorContract(Contract):
    """Tests of a communicator for pytest: subclass it with a fixture ``run_ranks``.

    Attributes:
        sizes: numbers of ranks that are tried.
        reports_errors: an error on one rank reaches the caller of ``run_ranks`` and ends the other ranks.
    """

    sizes: ClassVar[tuple[int, ...]] = (1, 2, 5)
    reports_errors: ClassVar[bool] = True

    @pytest.fixture
    def run_ranks(self) -> RunRanks:
        """Run a function on some ranks; return the results by rank."""
        raise NotImplementedError(f"{type(self).__name__} has no fixture run_ranks")

    def test_ranks_know_themselves(self, run_ranks: RunRanks) -> None:
        """Each rank has its number and the number of ranks."""
        for size in self.sizes:
            found = run_ranks(size, lambda communicator: (communicator.rank, communicator.size))
            assert found == [(rank, size) for rank in range(size)]

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_allreduce_adds_in_the_order_of_ranks(self, run_ranks: RunRanks, dtype: str) -> None:
        """The sum is that of a loop over the ranks, to the last bit, on every rank, and in place."""

        def work(communicator: Communicator) -> Array:
            array = numbers_of(communicator.rank, dtype)
            communicator.allreduce(array)
            return array

        for size in self.sizes:
            expected = serial_sum([numbers_of(rank, dtype) for rank in range(size)])
            for rank, found in enumerate(run_ranks(size, work)):
                np.testing.assert_array_equal(found, expected, err_msg=f"sum on rank {rank} of {size}")

    def test_allgather(self, run_ranks: RunRanks) -> None:
        """Every rank gets the arrays of all, by rank."""

        def work(communicator: Communicator) -> list[Array]:
            return communicator.allgather(numbers_of(communicator.rank, np.float32, 9))

        for size in self.sizes:
            for found in run_ranks(size, work):
                assert len(found) == size
                for rank, array in enumerate(found):
                    np.testing.assert_array_equal(array, numbers_of(rank, np.float32, 9), err_msg=f"of rank {rank}")

    def test_broadcast(self, run_ranks: RunRanks) -> None:
        """Each rank in turn overwrites the arrays of the others, in place."""

        def work(communicator: Communicator) -> list[Array]:
            found = []
            for root in range(communicator.size):
                array = numbers_of(communicator.rank, np.float64, 6)
                communicator.broadcast(array, root)
                found.append(array)
            return found

        for size in self.sizes:
            for found in run_ranks(size, work):
                for root, array in enumerate(found):
                    np.testing.assert_array_equal(array, numbers_of(root, np.float64, 6), err_msg=f"from rank {root}")

    def test_operations_follow_each_other(self, run_ranks: RunRanks) -> None:
        """Many operations of all kinds, with arrays of changing size, do not get mixed up."""

        def work(communicator: Communicator) -> list[float]:
            found = []
            for turn in range(30):
                array = np.full(turn % 7, float(communicator.rank + turn))
                communicator.allreduce(array)
                communicator.barrier()
                found += [float(array.sum()), float(communicator.allgather(np.array([turn]))[0][0])]
            return found

        for size in self.sizes:
            ranks = sum(range(size))
            expected = [
                number for turn in range(30) for number in (float((ranks + size * turn) * (turn % 7)), float(turn))
            ]
            assert run_ranks(size, work) == [expected] * size

    def test_an_error_ends_all_ranks(self, run_ranks: RunRanks) -> None:
        """An exception on one rank reaches the caller; nobody waits for ever."""
        if not self.reports_errors:
            pytest.skip("errors do not reach the caller")

        def work(communicator: Communicator) -> None:
            if communicator.rank == communicator.size - 1:
                raise ArithmeticError("no luck")
            communicator.barrier()

        with pytest.raises(ArithmeticError, match="no luck"):
            run_ranks(max(self.sizes), work)

    def test_abort_ends_all_ranks(self, run_ranks: RunRanks) -> None:
        """Abort says why and ends everybody."""
        if not self.reports_errors:
            pytest.skip("errors do not reach the caller")

        def work(communicator: Communicator) -> None:
            if communicator.rank == 0:
                communicator.abort("out of paper")
            communicator.barrier()

        with pytest.raises(Exception, match="out of paper"):
            run_ranks(max(self.sizes), work)


def store_of(dtype: Any = np.float32) -> ParameterStore:
    """A store of two parameters, the same each time."""
    rng = np.random.default_rng(2)
    shapes = {"W": (7, 5), "b": (5,)}
    return ParameterStore([Parameter.make(name, s, value=rng.normal(size=s)) for name, s in shapes.items()], dtype)


def fill_gradients(store: ParameterStore, rank: int, step: int) -> None:
    """Gradients of a rank in a step."""
    store.gradients[...] = numbers_of(1000 * step + rank, store.dtype, store.gradients.size)


def counts_of(rank: int, step: int) -> StepCounts:
    """Counts of a rank in a step; some ranks have no samples."""
    samples = (3 * rank + step) % 5
    return StepCounts(samples, {"ce": 0.5 * samples, "err": float(rank)})


class ParallelizerContract(Contract):
    """Tests of a parallelizer for pytest: subclass it with ``parallelizer_class`` or a fixture.

    Attributes:
        parallelizer_class: the parallelizer, made with its default options.
        reduces_gradients: ``reduce`` merges gradients (a model scheme merges parameters in ``sync``).
        exact: the merged gradient is the sum in the order of the ranks, to the last bit.
        sizes: numbers of ranks that are tried.
    """

    parallelizer_class: ClassVar[type[Parallelizer]]
    reduces_gradients: ClassVar[bool] = True
    exact: ClassVar[bool] = True
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
            for step in range(STEPS):
                fill_gradients(store, communicator.rank, step)
                parallelizer.reduce(store, counts_of(communicator.rank, step))
                found.append(_gradients(store))
            parallelizer.finish()
            return found

        for size in self.sizes:
            results = VirtualRanks(size).run(work)
            for step in range(STEPS):
                expected = serial_sum([_gradients_of(rank, step) for rank in range(size)])
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
            for step in range(STEPS):
                fill_gradients(store, communicator.rank, step)
                found.append(parallelizer.reduce(store, counts_of(communicator.rank, step)))
            parallelizer.finish()
            return found

        for size in self.sizes:
            for found in VirtualRanks(size).run(work):
                for step, counts in enumerate(found):
                    parts = [counts_of(rank, step) for rank in range(size)]
                    assert counts.samples == sum(part.samples for part in parts), f"samples of step {step}: {counts}"
                    for name in ("ce", "err"):
                        total = sum(part.criteria[name] for part in parts)
                        assert counts.criteria[name] == pytest.approx(total), f"'{name}' of step {step}"

    def test_ranks_agree_at_the_end_of_an_epoch(self, parallelizer_factory: Callable[[], Parallelizer]) -> None:
        """After the last synchronization all ranks have the same parameters."""

        def work(communicator: Communicator) -> Array:
            store, parallelizer = store_of(), parallelizer_factory()
            parallelizer.begin(store, communicator)
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
        """With the state of another, a new parallelizer continues to the last bit."""

        def work(communicator: Communicator) -> tuple[Array, Array]:
            store, parallelizer = store_of(), parallelizer_factory()
            parallelizer.begin(store, communicator)
            for step in range(STEPS):
                _train(store, parallelizer, communicator.rank, step)
            kept: Mapping[str, Array] = {name: array.copy() for name, array in parallelizer.state().items()}
            again = store_of()
            again.values[...] = store.values
            for step in range(STEPS, 2 * STEPS):
                _train(store, parallelizer, communicator.rank, step)
            parallelizer.finish()
            fresh = parallelizer_factory()
            fresh.begin(again, communicator)
            fresh.restore(kept)
            for step in range(STEPS, 2 * STEPS):
                _train(again, fresh, communicator.rank, step)
            fresh.finish()
            return store.values.copy(), again.values.copy()

        for size in self.sizes:
            for rank, (through, restarted) in enumerate(VirtualRanks(size).run(work)):
                np.testing.assert_array_equal(restarted, through, err_msg=f"restart on rank {rank} of {size}")

    def test_finish_after_a_failure(self, parallelizer_factory: Callable[[], Parallelizer]) -> None:
        """When one rank fails, every rank can still finish, and the failure is what the caller sees."""
        finished = []

        def work(communicator: Communicator) -> None:
            store, parallelizer = store_of(), parallelizer_factory()
            parallelizer.begin(store, communicator)
            try:
                _train(store, parallelizer, communicator.rank, 0)
                if communicator.rank == 0:
                    raise ArithmeticError("no luck")
                _train(store, parallelizer, communicator.rank, 1)
            finally:
                parallelizer.finish()
                finished.append(communicator.rank)

        for size in self.sizes:
            finished.clear()
            with pytest.raises(ArithmeticError, match="no luck"):
                VirtualRanks(size).run(work)
            assert sorted(finished) == list(range(size)), f"only the ranks {sorted(finished)} of {size} finished"


def _train(store: ParameterStore, parallelizer: Parallelizer, rank: int, step: int) -> None:
    """One update of plain gradient descent."""
    fill_gradients(store, rank, step)
    counts = parallelizer.reduce(store, counts_of(rank, step))
    store.values -= store.dtype.type(1e-9) * store.gradients
    parallelizer.sync(store, counts)


def _gradients(store: ParameterStore) -> Array:
    """The gradients of all parameters, without what lies between them in the buffer."""
    return np.concatenate([store.gradient(parameter).reshape(-1) for parameter in store.parameters])


def _gradients_of(rank: int, step: int) -> Array:
    store = store_of()
    fill_gradients(store, rank, step)
    return _gradients(store)
