"""Ranks on sockets, started as processes; and what happens when one fails."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from cntk_parallel_sockets import SocketCommunicator
from cntk_parallel_sockets.launching import launch

from cntk_core.api import RankGone, RankMissing
from cntk_core.api.parallel import Mesh, Rendezvous
from cntk_kit_parallel.array_bytes import pack
from cntk_kit_parallel.mesh_bytes import HEADER
from cntk_kit_parallel.mesh_communicator import _LETTERS
from cntk_testing import PackagingContract
from cntk_testing.ports import free_port

HERE = Path(__file__).parent


class TestPackaging(PackagingContract):
    distribution = "cntk-parallel-sockets"
    kind = "communicator"


def run(ranks, *arguments):
    command = [*SocketCommunicator.launcher(ranks).command, sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
def test_contract():
    """All ranks run the contract of communicators in step."""
    done = run(5, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "on_sockets.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"\d+ passed", done.stdout)) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "options", "where"),
    [
        ("DataParallelSGD", "", "inside"),
        ("DataParallelSGD", "gradientBits=1", "inside"),
        ("BlockMomentumSGD", "blockSizePerWorker=8", "behind"),
    ],
)
@pytest.mark.thinned(3)
def test_learners_and_functions_in_python(tmp_path, strategy, options, where):
    """Two processes train, save in the middle, go on, go back, and go on to the byte."""
    done = run(2, str(HERE / "python_on_sockets.py"), strategy, options, where, str(tmp_path / "net"))
    assert done.returncode == 0, done.stdout + done.stderr
    (inside, found), (other, same) = (
        json.loads((tmp_path / f"net.rank{rank}").read_text(encoding="utf-8")) for rank in range(2)
    )
    assert found == same  # they end an epoch with the same parameters, and with what rank 0 has counted
    assert inside != other  # until then each has what it has seen
    assert inside[1] == other[1] == found[1] == 24


FAULTS = """
import os, signal, sys, time
import numpy as np
from cntk_parallel_sockets import SocketCommunicator

communicator = SocketCommunicator()
communicator.watch.doing = "step 3"
communicator.watch.say = lambda text: print(text, file=sys.stderr, flush=True)
kind = sys.argv[1]
communicator.barrier()
communicator.watch.deadline, communicator.watch.report_after = (2.0, 0.5) if kind == "leaves" else (60.0, 30.0)
try:
    if communicator.rank == 1:
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "exception":
            raise ArithmeticError("no luck")
        if kind == "leaves":
            time.sleep(6)
    communicator.allreduce(np.zeros(10))
except Exception as error:
    communicator.abort(f"{type(error).__name__}: {error}")
    print(f"rank {communicator.rank}: {error}", file=sys.stderr, flush=True)
    sys.exit(3)
print("done", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "code", "said"),
    [
        pytest.param("kill", 137, "rank [02]: rank 1 is gone", marks=pytest.mark.thorough),
        ("exception", 3, r"rank 0: (rank 2 has failed: RankGone: )?rank 1 has failed: ArithmeticError: no luck"),
        pytest.param(
            "leaves",
            3,
            r"rank [02] has waited \d+ s in a sum \(step 3\) for rank 1[\s\S]*rank [02] has waited \d+ s in a sum",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_rank_that_fails_ends_all(kind, code, said):
    done = run(3, "-c", FAULTS, kind)
    assert done.returncode in (code, 3)
    assert "done" not in done.stdout
    assert re.search(said, done.stderr), done.stderr


STOPPED = """
import os, signal, sys, time
if os.environ["RANK"] == "0":
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(0.3)
sys.exit(3)
"""


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs waitid")
def test_a_stopped_rank_is_not_given_time_to_end(monkeypatch):
    monkeypatch.setattr("cntk_parallel_sockets.launching._GRACE", 1e9)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert launch(3, [sys.executable, "-c", STOPPED]) == 3


def meeting(rank, size, port, secret=""):
    given = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_PORT": str(port), "CNTK_SECRET": secret}
    return Rendezvous.of(given)


def test_where_ranks_meet():
    assert Rendezvous.of({}).size == 1
    given = {"RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
    found = Rendezvous.of(given)
    assert (found.rank, found.size, found.address, found.port) == (2, 4, "node1", 29500)
    assert Rendezvous.of({**given, "TORCHELASTIC_USE_AGENT_STORE": "True"}).port == 29501
    assert Rendezvous.of({**given, "CNTK_SECRET": "x"}).secret != found.secret


def test_one_rank_needs_nobody():
    communicator = SocketCommunicator(Mesh(meeting(0, 1, 1)))
    array = np.arange(3.0)
    communicator.allreduce(array)
    assert array.tolist() == [0.0, 1.0, 2.0]
    communicator.send(array, 0, tag=3)
    assert communicator.receive(tag=3).array.tolist() == [0.0, 1.0, 2.0]
    communicator.close()


def test_ranks_of_which_a_message_is_awaited_are_named():
    port = free_port()

    def connect(rank):
        return SocketCommunicator(Mesh(meeting(rank, 3, port)))

    with ThreadPoolExecutor() as threads:
        first, second, third = threads.map(connect, range(3))
    with closing(first), closing(second), closing(third):
        second.watch.deadline = 0.2
        with pytest.raises(RankMissing, match="rank 1 has waited 0 s in receiving a message for rank 0, 2\n"):
            second.receive(tag=3)
        with pytest.raises(RankMissing, match="rank 1 has waited 0 s in receiving a message for rank 2\n"):
            second.receive(2)


@pytest.fixture
def pair():
    """Two ranks in this process."""
    port = free_port()
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(lambda rank: SocketCommunicator(Mesh(meeting(rank, 2, port))), range(2)))
    yield found
    for one in found:
        one.close()


def test_a_rank_that_takes_nothing(monkeypatch):
    """What was sent fills the buffers between, and a sender must not wait for ever."""
    said, port = [], free_port()
    with monkeypatch.context() as patched, ThreadPoolExecutor() as threads:
        patched.setattr(Mesh, "_read", lambda mesh: None)
        first, second = threads.map(lambda rank: SocketCommunicator(Mesh(meeting(rank, 2, port))), range(2))
    with closing(first), closing(second):
        second.watch.deadline, second.watch.report_after, second.watch.say = 0.4, 0.1, said.append
        second.watch.doing = "step 3"
        with pytest.raises(RankMissing, match=r"rank 1 has waited 0 s in sending an array \(step 3\) for rank 0\n"):
            second.allreduce(np.zeros(1 << 22))
        assert said == ["Warning: rank 1 has waited 0 s in sending an array (step 3) for rank 0"]
        second.abort("no luck")
        with pytest.raises(RankGone, match="rank 0 is gone"):  # half an array cannot be followed by anything
            second.send(np.zeros(1), 0)
    for one in (first, second):
        for line in one._mesh._peers.values():
            line.connection.close()


def test_a_rank_that_has_failed_sends_nothing(pair):
    """Otherwise others could come through what they were in, without noticing."""
    first, second = pair
    first.abort("no luck")
    with pytest.raises(RankGone, match=r"^rank 0 has failed: no luck$"):
        first.barrier()
    with pytest.raises(RankGone, match=r"^rank 0 has failed: no luck$"):
        second.barrier()


def test_a_slow_sender_keeps_nobody_waiting():
    """A message of which only a part has come does not stop those of others."""
    port = free_port()
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(lambda rank: SocketCommunicator(Mesh(meeting(rank, 3, port))), range(3)))
    with closing(found[0]), closing(found[1]), closing(found[2]):
        packed = pack(np.arange(1000.0))
        connection = found[1]._mesh._peers[0].connection
        letter = HEADER.pack(0, _LETTERS + 7, len(packed)) + packed
        connection.sendall(letter[:3000])
        found[2].send(np.arange(3.0), 0, 7)
        found[0].watch.deadline = 30.0
        assert found[0].receive(tag=7).source == 2
        connection.sendall(letter[3000:])
        np.testing.assert_array_equal(found[0].receive(tag=7).array, np.arange(1000.0))


def test_arrays_of_all_sizes_at_once(pair):
    """Both ranks send more than the buffers between them take, before either looks for what has come."""

    def work(communicator):
        found = [np.full(1 << size, communicator.rank + 1.0) for size in (0, 21, 3, 19)]
        communicator.allreduce_all(found)
        return found

    with ThreadPoolExecutor() as threads:
        for sums in threads.map(work, pair):
            assert all(np.array_equal(one, np.full_like(one, 3.0)) for one in sums)


@pytest.mark.slow
def test_ranks_that_do_not_come():
    with pytest.raises(RankGone, match="rank 0 has waited in vain for rank 1, 2 to connect"):
        Mesh(meeting(0, 3, free_port()), patience=0.1)
    with pytest.raises(RankGone, match=r"rank 1 does not reach 127\.0\.0\.1:\d+: "):
        Mesh(meeting(1, 2, free_port()), patience=0.1)


def test_strangers_are_turned_away():
    """Who does not know the secret, or talks something else, is not taken for a rank."""
    port, found = free_port(), {}

    def first():
        found[0] = Mesh(meeting(0, 2, port, "ours"), patience=30.0)

    thread = threading.Thread(target=first)
    thread.start()
    for _ in range(100):
        try:
            stranger = socket.create_connection(("127.0.0.1", port), timeout=5.0)
            break
        except OSError:
            time.sleep(0.05)
    stranger.sendall(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n" + b" " * 32)
    with suppress(ConnectionResetError):
        assert stranger.recv(1) == b""
    stranger.close()
    found[1] = Mesh(meeting(1, 2, port, "ours"), patience=30.0)
    thread.join()
    found[1].post(0, 5, 1, b"hello", lambda: 0.1)
    while (message := found[0].take(5, 1, range(2))) is None:
        found[0].wait(found[0].arrivals, 0.1)
    assert message == (1, b"hello")
    for mesh in found.values():
        mesh.end()
    for reader in [one for one in threading.enumerate() if one.name == "messages"]:
        reader.join(30.0)
        assert not reader.is_alive()


TOLD = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: os._exit(3))
os.write(1, b"ready\\n")  # at once: print may write the end of the line by itself, and another rank come between
signal.pause()
"""


def test_all_ranks_hear_what_their_launcher_is_told():
    command = [*SocketCommunicator.launcher(2).command, sys.executable, "-c", TOLD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGUSR1)
        assert said == ["ready\n"] * 2
        assert process.wait(60) == 3
