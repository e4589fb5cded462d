"""Where ranks meet, as mpiexec, srun and torchrun say it; and processes that meet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from cntk_parallel_nccl import NcclCommunicator, libraries, meeting
from cntk_parallel_nccl.meeting import meet, meet_by_mpi
from gpu_ranks import gpus, put
from nccl_stand_in import make_nccl

from cntk_core.api import Available, Unavailable, UnsupportedError
from cntk_testing.ports import free_port
from cntk_testing_gpu.cupy_stand_in import CudaError, make_cupy

HERE = Path(__file__).parent

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from nccl_stand_in import make_nccl
from cntk_testing_gpu.cupy_stand_in import make_cupy

class Noted:
    def __init__(self, size, identity, rank):
        self.said = f"{rank} of {size}, {identity[0]} {identity[127]} {len(identity)}"
    def destroy(self):
        pass
    abort = destroy

nccl = make_nccl()
nccl.NcclCommunicator, nccl.get_unique_id = Noted, lambda: (77, *range(1, 127), -5)
sys.modules["cupy"], sys.modules["cupy.cuda.nccl"] = make_cupy(devices=4, background=True), nccl
from cntk_parallel_nccl import NcclCommunicator

communicator = NcclCommunicator()
array = np.array([communicator.rank + 1.0])
communicator.allreduce(array)
link, _ = communicator._connected()
me = f"rank {communicator.rank} of {communicator.size} on GPU {communicator._number}"
print(f"{me}: {array[0]:g}; {link._comm.said}\\n", end="")
communicator.close()
"""


def lines(done):
    assert done.returncode == 0, done.stderr
    return sorted(line for line in done.stdout.splitlines() if line)


def expected(size):
    total = sum(range(size + 1))
    return [f"rank {rank} of {size} on GPU {rank}: {total}; {rank} of {size}, 77 -5 128" for rank in range(size)]


def clean(**more):
    """The environment without what a launcher may have set."""
    words = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "SLURM_", "OMPI_", "PMI", "MPI_")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(words)}, **more}


def run_all(environments):
    command = [sys.executable, "-c", PROGRAM, str(HERE)]
    running = [
        subprocess.Popen(command, env=one, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for one in environments
    ]
    said = []
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        said += out.splitlines()
    return sorted(said)


@pytest.mark.slow
def test_processes_that_torchrun_starts():
    common = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    found = run_all([clean(RANK=str(rank), LOCAL_RANK=str(rank), **common) for rank in range(3)])
    assert found == expected(3)


def test_processes_that_srun_starts():
    common = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "127.0.0.1"}
    common["MASTER_PORT"] = str(free_port())
    found = run_all([clean(SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank), **common) for rank in range(2)])
    assert found == expected(2)


@pytest.mark.slow
def test_processes_that_mpiexec_starts():
    beside = str(Path(sys.executable).parent)
    mpiexec = shutil.which("mpiexec", path=beside + os.pathsep + os.environ.get("PATH", ""))
    if mpiexec is None or find_spec("mpi4py") is None:
        pytest.skip("there is no mpiexec, or mpi4py is not installed")
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
    more = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version or "OpenRTE" in version else []
    command = [mpiexec, *more, "-n", "2", sys.executable, "-c", PROGRAM, str(HERE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=clean())
    if "PMIX" in done.stderr or ("lib" in done.stderr.lower() and "mpi" in done.stderr.lower() and done.returncode):
        pytest.skip("mpi4py does not find the library of this mpiexec")
    assert lines(done) == expected(2)


# -- what the environment says --------------------------------------------------------------------------------


def test_one_rank_alone():
    assert (meet({}).rank, meet({}).size) == (0, 1)


def test_torchrun():
    given = {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "node1", "MASTER_PORT": "1234"}
    found = meet(given)
    assert (found.rank, found.size, found.address, found.port) == (3, 8, "node1", 1234)
    assert meet({**given, "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "16"}).rank == 3, "torchrun under Slurm"


def test_slurm():
    given = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "16", "SLURM_JOB_ID": "123456", "SLURM_STEP_ID": "2"}
    given["SLURM_STEP_NODELIST"] = "gpu[03-07,9],login"
    found = meet(given)
    assert (found.rank, found.size, found.address) == (5, 16, "gpu03")
    assert 20000 <= found.port < 40000
    assert found == meet({**given, "SLURM_PROCID": "5"})
    assert found.port != meet({**given, "SLURM_STEP_ID": "3"}).port, "steps of a job may run at the same time"
    assert found.secret == b"", "the number of a job is no secret"
    assert meet({**given, "CNTK_SECRET": "a"}).secret == b"a"
    assert meet({**given, "SLURM_STEP_NUM_NODES": "1"}).address == "127.0.0.1"
    there = meet({**given, "MASTER_ADDR": "head", "MASTER_PORT": "7"})
    assert (there.address, there.port) == ("head", 7)
    assert meet({**given, "SLURM_STEP_NUM_TASKS": "1"}).size == 1


class Program:
    """An MPI program, as one of its ranks sees it."""

    said = None

    def __init__(self, rank, hosts):
        self.rank, self.hosts = rank, hosts

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return len(self.hosts)

    def allgather(self, host):
        return self.hosts

    def bcast(self, said, root):
        type(self).said = said if self.rank == root else self.said
        return self.said


def test_mpi_on_one_machine():
    first, second = (meet_by_mpi(Program(rank, ["a", "a"]), {"MASTER_ADDR": "b"}) for rank in range(2))
    assert (first.address, first.rank, second.rank, first.size) == ("127.0.0.1", 0, 1, 2)
    assert (first.port, first.secret, first.address) == (second.port, second.secret, second.address)
    assert len(first.secret) == 16


def test_mpi_on_several_machines(monkeypatch):
    monkeypatch.setattr(meeting.socket, "getfqdn", lambda: "a.example")
    assert meet_by_mpi(Program(0, ["a", "b"]), {}).address == "a.example"
    assert meet_by_mpi(Program(0, ["a", "b"]), {"MASTER_ADDR": "10.1.2.3"}).address == "10.1.2.3"


def test_mpiexec_with_mpi4py(monkeypatch):
    program = SimpleNamespace(COMM_WORLD=Program(0, ["a", "a"]))
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=program))
    monkeypatch.setattr(meeting, "find_spec", lambda name: name == "mpi4py")
    for names in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")):
        assert meet(dict(zip(names, ("0", "2"), strict=True))).size == 2


def test_mpiexec_without_mpi4py(monkeypatch):
    monkeypatch.setattr(meeting, "find_spec", lambda name: None)
    given = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    found = meet(given)
    assert (found.rank, found.size, found.address, found.port) == (1, 4, "127.0.0.1", 29500)
    found = meet({**given, "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "77"})
    assert (found.address, found.port) == ("node1", 77)
    with pytest.raises(UnsupportedError) as caught:
        meet({**given, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert str(caught.value) == (
        "4 ranks on several machines do not find each other: mpi4py is not installed here, and MASTER_ADDR is not set\n"
        '    pip install "cntk-parallel-nccl[mpi]", or let MASTER_ADDR and MASTER_PORT say where rank 0 listens.'
    )


# -- what is here -----------------------------------------------------------------------------------------------


def test_availability_without_cupy(monkeypatch):
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)
    assert NcclCommunicator.availability() == Unavailable(
        "CuPy is not installed", 'pip install "cntk-parallel-nccl[cuda12]", or [cuda13]'
    )


@pytest.fixture
def found(monkeypatch):
    """Let CuPy be found, whatever there is."""
    monkeypatch.setattr(libraries, "find_spec", lambda name: object() if name == "cupy" else None)


def fail(text):
    def raising(*given):
        raise CudaError(text)

    return raising


@pytest.mark.usefixtures("found")
def test_availability():
    with gpus(2):
        assert NcclCommunicator.availability() == Available("2 GPUs, NCCL 2.27.3")
    with gpus(1):
        assert NcclCommunicator.availability() == Available("1 GPU, NCCL 2.27.3")
    with gpus(0):
        assert NcclCommunicator.availability() == Unavailable(
            "CUDA finds no GPU", "CUDA_VISIBLE_DEVICES may hide them; nvidia-smi shows those that are there."
        )


@pytest.mark.usefixtures("found")
def test_availability_with_a_driver_that_is_too_old(monkeypatch):
    cupy = make_cupy()
    cupy.cuda.runtime.getDeviceCount = fail("cudaErrorInsufficientDriver: CUDA driver version is insufficient\nmore")
    put(monkeypatch, cupy, make_nccl())
    assert NcclCommunicator.availability() == Unavailable(
        "CUDA finds no GPU: cudaErrorInsufficientDriver: CUDA driver version is insufficient",
        "It needs a GPU of NVIDIA and a driver that is as new as CuPy's CUDA; nvidia-smi shows both.",
    )


@pytest.mark.usefixtures("found")
def test_availability_without_nccl(monkeypatch):
    put(monkeypatch, make_cupy(), SimpleNamespace(available=False))
    assert NcclCommunicator.availability() == Unavailable(
        "CuPy finds no NCCL", 'pip install "cntk-parallel-nccl[cuda12]", or [cuda13]'
    )


@pytest.mark.usefixtures("found")
def test_availability_with_a_cupy_that_does_not_load(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    said = NcclCommunicator.availability()
    assert isinstance(said, Unavailable)
    assert said.reason.startswith("CuPy does not load: ")
    assert said.hint == 'pip install "cntk-parallel-nccl[cuda12]", or [cuda13]'
