"""The contract of communicators.

A test file gives a fixture that runs a function on some ranks::

    class TestPipes(CommunicatorContract):
        @pytest.fixture
        def run_ranks(self):
            return run_on_processes     # (size, work) -> results by rank
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from cntk_core.contract.parallel import Communicator
from cntk_testing.contract import CHECKED, Contract
from cntk_testing.parallel_samples import (
    Array,
    RunRanks,
    numbers_of,
    serial_sum,
)
from cntk_testing.recipes import FILE, RecipeContract, inside, model_path


class CommunicatorRecipe(RecipeContract):
    """What is asked of a communicator whose ranks are processes: ``cntk train -n`` runs the recipe of its README.

    Attributes:
        ranks: how many.
        patience: seconds that a run may take.
    """

    recipe_key: ClassVar[str] = "communicator"
    ranks: ClassVar[int] = 2
    patience: ClassVar[float] = 120.0

    def launch(self, *words: str) -> tuple[int, str]:
        """Train the recipe that is here with ``cntk train -n``; return the exit status and what was printed."""
        command = [sys.executable, "-P", "-m", "cntk_core", "train", FILE, "-n", str(self.ranks), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=self.patience)
        return done.returncode, done.stdout + done.stderr

    @pytest.mark.recipe
    @pytest.mark.slow  # it starts processes
    def test_the_recipe_runs_and_resumes(self, tmp_path: Path) -> None:
        """The ranks train; after one was killed inside an epoch, they go on to the same model.

        Files in the working folder that are named as modules are imported by none of the processes.
        """
        plugins = [word for file in self.plugin_files for word in ("--plugin", file)]
        with inside(self.prepare(tmp_path / "straight")):
            for name in _MODULES:
                Path(f"{name}.py").write_text(f"raise SystemExit('{name}.py of the working folder was run')")
            model = model_path()
            assert model is not None, "the recipe trains nothing"
            code, output = self.launch(*plugins)
            assert code == 0, f"the recipe cannot be trained on {self.ranks} ranks:\n{output}"
            wanted = model.read_bytes()
        with inside(self.prepare(tmp_path / "killed")):
            Path("kill.py").write_text(_KILL, encoding="utf-8")
            code, output = self.launch("checkpointEverySamples=1", *plugins, "--plugin", "kill.py")
            assert code != 0, f"a rank was killed, and the run ends with success:\n{output}"
            assert not model.exists(), "the model is there although a rank was killed"
            code, output = self.launch(*plugins)
            assert code == 0, f"the training cannot be resumed:\n{output}"
            assert model.read_bytes() == wanted, "a rank killed and the training resumed, it gives another model"


_MODULES = ("numpy", "attrs", "queue", "token", "random", "secrets", "cntk_core", "subprocess")
"""Modules that ranks and what starts them import, and that files of a data folder may be named after."""

_KILL = """
import os, signal
from cntk_core.api import hookimpl

@hookimpl
def cntk_minibatch_end(job, result):
    if job.rank == 0 and (result.epoch, result.minibatch) == (1, 1):
        os.kill(os.getpid(), signal.SIGKILL)
"""
"""A plugin that kills rank 0 inside the second epoch."""


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
        CHECKED.append(run_ranks(self.sizes[0], type)[0])
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

    def test_allgather_of_different_arrays(self, run_ranks: RunRanks) -> None:
        """The ranks may bring arrays of different sizes, shapes and types, empty ones too."""

        def bring(rank: int) -> Array:
            kinds: list[Any] = [np.float32, np.uint8, np.int64, np.float64]
            return np.arange(6 * rank).reshape(rank, 3, 2).astype(kinds[rank % 4])

        for size in self.sizes:
            for found in run_ranks(size, lambda communicator: communicator.allgather(bring(communicator.rank))):
                for rank, array in enumerate(found):
                    assert array.dtype == bring(rank).dtype, f"type of rank {rank}'s array"
                    np.testing.assert_array_equal(array, bring(rank), err_msg=f"of rank {rank}")

    def test_alltoall(self, run_ranks: RunRanks) -> None:
        """Each rank gets what every other one has for it, by rank; some have nothing."""

        def bring(source: int, to: int) -> Array:
            return np.full((source + 2 * to) % 4, 10 * source + to, np.uint32)

        def work(communicator: Communicator) -> list[Array]:
            return communicator.alltoall([bring(communicator.rank, to) for to in range(communicator.size)])

        for size in self.sizes:
            for rank, found in enumerate(run_ranks(size, work)):
                assert len(found) == size
                for source, array in enumerate(found):
                    np.testing.assert_array_equal(array, bring(source, rank), err_msg=f"from {source} to {rank}")

    def test_split(self, run_ranks: RunRanks) -> None:
        """The ranks of a color are a communicator of their own; the whole one goes on beside it."""

        def work(communicator: Communicator) -> tuple[int, int, float, float]:
            part = communicator.split(communicator.rank % 2)
            one, all_ranks = np.array([float(communicator.rank)]), np.array([1.0])
            part.allreduce(one)
            communicator.allreduce(all_ranks)
            part.barrier()
            return part.rank, part.size, float(one[0]), float(all_ranks[0])

        for size in self.sizes:
            for rank, found in enumerate(run_ranks(size, work)):
                members = list(range(rank % 2, size, 2))
                assert found == (members.index(rank), len(members), float(sum(members)), float(size))

    def test_messages(self, run_ranks: RunRanks) -> None:
        """Messages arrive whole, with their source and tag, and those of a kind in order; nobody waits to send."""

        def work(communicator: Communicator) -> list[tuple[int, int, list[int]]]:
            rank, size = communicator.rank, communicator.size
            for turn in range(3):
                for to in range(size):
                    communicator.send(np.full(turn, rank), to, tag=turn % 2)
            found = []
            for source in range(size):
                found += [communicator.receive(source, 1)]
                found += [communicator.receive(source), communicator.receive(source, 0)]
            assert communicator.poll() is None
            return [(message.source, message.tag, message.array.tolist()) for message in found]

        for size in self.sizes:
            expected = [
                one
                for source in range(size)
                for one in ((source, 1, [source]), (source, 0, []), (source, 0, [source] * 2))
            ]
            assert run_ranks(size, work) == [expected] * size

    def test_messages_of_anybody(self, run_ranks: RunRanks) -> None:
        """Without a source a rank takes what comes; polling does not wait and finds it in the end."""

        def work(communicator: Communicator) -> list[int]:
            if communicator.rank:
                communicator.send(np.array([communicator.rank]), 0, tag=7)
                return []
            found = [] if communicator.size == 1 else [communicator.receive(None, 7).source]
            while len(found) < communicator.size - 1:
                message = communicator.poll(tag=7)
                found += [] if message is None else [message.source]
            return sorted(found)

        for size in self.sizes:
            assert run_ranks(size, work)[0] == list(range(1, size))

    def test_background(self, run_ranks: RunRanks) -> None:
        """Work in the background does not mix with what its rank does meanwhile, and works follow each other."""

        def work(communicator: Communicator) -> list[float]:
            def add(number: float) -> Callable[[Communicator], float]:
                def run(own: Communicator) -> float:
                    array = np.array([number + own.rank])
                    own.allreduce(array)
                    return float(array[0])

                return run

            pending = [communicator.background(add(float(turn))) for turn in range(3)]
            here = np.array([1.0])
            communicator.allreduce(here)
            return [*(one.wait() for one in pending), float(here[0])]

        for size in self.sizes:
            ranks = sum(range(size))
            expected = [*(float(ranks + size * turn) for turn in range(3)), float(size)]
            assert run_ranks(size, work) == [expected] * size

    def test_bytes_are_counted(self, run_ranks: RunRanks) -> None:
        """What a rank hands to others is counted, what it keeps is not."""

        def work(communicator: Communicator) -> list[int]:
            found = []
            for operation in (communicator.allreduce, communicator.allgather):
                before = communicator.bytes_sent
                operation(np.zeros(1000))
                found.append(communicator.bytes_sent - before)
            return found

        for size in self.sizes:
            for found in run_ranks(size, work):
                least = [0, 0] if size == 1 else [8000, 8000 * (size - 1)]
                assert all(a <= b <= 2 * a for a, b in zip(least, found, strict=True)), (
                    f"{found} bytes for {size} ranks"
                )

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
