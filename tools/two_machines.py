"""Let ranks of two machines work over a network that loses packets, is slow, or is cut.

    python tools/two_machines.py                       # all trials but the long one
    python tools/two_machines.py lossy cut

The machines are network namespaces of this one, and the network between them is a process that hands packets on
(Linux, with unprivileged namespaces and /dev/net/tun). In each trial four ranks, two on each machine, meet and add up
arrays again and again. Either all sums are right to the last bit, or each rank ends in time with an error that says
for whom it has waited. The exit status is 1 if that is not so, 2 if there can be no such network here.
"""

from __future__ import annotations

import argparse
import fcntl
import heapq
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np

ADDRESSES = ("10.77.0.1", "10.77.0.2")
RANKS = 4
PORT = 29777
SECRET = "the secret of the two machines"

INSIDE = "CNTK_TWO_MACHINES"
"""Variable that says that this process has namespaces of its own."""


@attrs.frozen
class Trial:
    """A network, and what ranks do over it.

    Attributes:
        title: what is tried.
        loss: share of packets that are lost.
        delay: seconds that a packet takes at most; each takes between the half and all of it.
        cut: seconds after which the network is cut, and until it is mended.
        after: packets after which these seconds begin: with so many the ranks have met.
        ways: directions that are cut, as the machine that sends.
        seconds: for which ranks add up.
        deadline: seconds that a rank waits for others, also for those who do not come.
        ends: whether ranks come to the end; otherwise all must end in an error, at most so many seconds after the
            deadline.
    """

    title: str
    loss: float = 0.0
    delay: float = 0.0
    cut: tuple[float, float] = (float("inf"), float("inf"))
    after: int = 500
    ways: tuple[int, ...] = (0, 1)
    seconds: float = 6.0
    deadline: float = 60.0
    ends: bool = True


FOREVER = float("inf")

TRIALS = {
    "sound": Trial("a sound network"),
    "lossy": Trial("3 % of the packets lost, up to 10 ms on the way", loss=0.03, delay=0.01),
    "bad": Trial("15 % of the packets lost, up to 50 ms on the way", loss=0.15, delay=0.05, seconds=10.0),
    "mended": Trial("cut for 4 s", cut=(1.0, 5.0), seconds=12.0),
    "cut": Trial("cut for good", cut=(1.0, FOREVER), deadline=5.0, ends=False),
    "half": Trial("cut for good in one direction", cut=(1.0, FOREVER), ways=(1,), deadline=5.0, ends=False),
    "meeting": Trial("cut before the ranks meet", cut=(0.0, FOREVER), after=0, deadline=5.0, ends=False),
    "silent": Trial("cut for good, and nobody has a deadline", cut=(1.0, FOREVER), deadline=FOREVER, ends=False),
}

GRACE = 15.0
"""Seconds after the deadline in which a rank must have ended; this machine may be busy."""

NOTICED = 1100.0
"""Seconds in which a connection to a machine that is gone ends by itself: Linux repeats what was on its way for so
long."""


# -- a rank -------------------------------------------------------------------------------------------------------


def work(seconds: float, deadline: float) -> dict[str, object]:
    """Be a rank: meet the others and add up for so long; return what came of it."""
    from cntk_core.api import RankGone, RankMissing
    from cntk_core.api.parallel import Mesh, MeshCommunicator, Rendezvous

    began, sums = time.monotonic(), 0
    last = began
    try:
        communicator = MeshCommunicator(Mesh(Rendezvous.of(os.environ), min(deadline, 60.0)))
        communicator.watch.deadline = deadline
        begin = time.monotonic()
        going = np.ones(1)
        while going[0]:
            size = (1, 1000, 300_000)[sums % 3]
            array = np.random.default_rng([communicator.rank, sums]).normal(size=size)
            expected = np.random.default_rng([0, sums]).normal(size=size)
            for rank in range(1, communicator.size):
                expected += np.random.default_rng([rank, sums]).normal(size=size)
            communicator.allreduce(array)
            if not np.array_equal(array, expected):
                return {"outcome": "wrong", "sums": sums}
            sums, last = sums + 1, time.monotonic()
            going[0] = communicator.rank == 0 and last - begin < seconds
            communicator.broadcast(going)
        communicator.close()
    except (RankGone, RankMissing) as error:
        return {"outcome": str(error.message), "sums": sums, "waited": time.monotonic() - last}
    return {"outcome": "right", "sums": sums, "seconds": time.monotonic() - began}


# -- a machine ----------------------------------------------------------------------------------------------------


def machine(number: int, channel: socket.socket, seconds: float, deadline: float) -> None:
    """Be a machine: connect it to the network and run its ranks; say what came of them and where they listened."""
    tunnel = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tunnel, 0x400454CA, struct.pack("16sH22x", b"net0", 0x1001))  # TUNSETIFF: packets, no further header
    for words in (
        f"addr add {ADDRESSES[number]}/24 dev net0",
        "link set net0 mtu 9000 up",
        "link set lo up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    socket.send_fds(channel, [b"ready"], [tunnel])
    assert channel.recv(5) == b"begin"
    common = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": str(PORT), "CNTK_SECRET": SECRET}
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--rank", str(seconds), str(deadline)]
    ranks = [rank for rank in range(RANKS) if rank * 2 // RANKS == number]
    processes = [
        subprocess.Popen(command, env={**os.environ, **common, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in ranks
    ]
    heard: set[str] = set()
    while any(process.poll() is None for process in processes):
        heard |= listeners()
        time.sleep(0.02)
    said = {}
    for rank, process in zip(ranks, processes, strict=True):
        text = process.communicate()[0]
        said[rank] = json.loads(text) if text else {"outcome": f"ended with the code {process.returncode}"}
    channel.sendall(json.dumps({"said": said, "listened": sorted(heard)}).encode())


def listeners() -> set[str]:
    """Return the addresses of this machine at which somebody listens."""
    found = set()
    for line in Path("/proc/self/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        if state == "0A":
            found.add(socket.inet_ntoa(int(local.partition(":")[0], 16).to_bytes(4, "little")))
    return found


# -- the network --------------------------------------------------------------------------------------------------


class Network:
    """Hands on packets between two machines.

    Args:
        trial: says what becomes of them.
        tunnels: of the machines.
    """

    def __init__(self, trial: Trial, tunnels: Sequence[int]) -> None:
        self._trial, self._tunnels = trial, tunnels
        self._pick = random.Random(1)
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._begun = FOREVER
        self.packets = self.lost = 0

    def run(self, channels: Sequence[socket.socket]) -> list[bytes]:
        """Hand on packets until both machines have said what came of their ranks; return that."""
        said: dict[int, bytes] = {}
        while len(said) < 2:
            now = time.monotonic()
            seconds = min(0.2, max(0.0, self._waiting[0][0] - now)) if self._waiting else 0.2
            others = {one.fileno(): number for number, one in enumerate(channels) if number not in said}
            for one in select.select([*self._tunnels, *others], [], [], seconds)[0]:
                if one in others:
                    said[others[one]] = channels[others[one]].recv(1 << 20)
                else:
                    self._receive(self._tunnels.index(one))
            self._hand_on()
        return [said[0], said[1]]

    def _receive(self, source: int) -> None:
        packet = os.read(self._tunnels[source], 10_000)
        self.packets += 1
        now = time.monotonic()
        if self._begun == FOREVER and self.packets > self._trial.after:
            self._begun = now
        begin, end = self._trial.cut
        is_cut = source in self._trial.ways and begin <= now - self._begun < end
        if is_cut or self._pick.random() < self._trial.loss:
            self.lost += 1
            return
        at = now + self._trial.delay * self._pick.uniform(0.5, 1.0)
        heapq.heappush(self._waiting, (at, self.packets, 1 - source, packet))

    def _hand_on(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(self._waiting)
            os.write(self._tunnels[to], packet)


def attempt(name: str) -> list[str]:
    """Do a trial, and return what is wrong."""
    trial = TRIALS[name]
    channels, tunnels, processes = [], [], []
    for number in range(2):
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = ["--machine", str(number), str(there.fileno()), str(trial.seconds), str(trial.deadline)]
        command = ["unshare", "--net", sys.executable, "-P", str(Path(__file__).resolve()), *words]
        processes.append(subprocess.Popen(command, pass_fds=[there.fileno()]))
        there.close()
        channels.append(here)
        tunnels.append(socket.recv_fds(here, 10, 1)[1][0])
    for channel in channels:
        channel.sendall(b"begin")
    network = Network(trial, tunnels)
    answers = [json.loads(text) for text in network.run(channels)]
    for process in processes:
        process.wait()
    for tunnel in tunnels:
        os.close(tunnel)
    said = {int(rank): one for answer in answers for rank, one in answer["said"].items()}
    print(f"{name}: {trial.title}; {network.packets} packets, {network.lost} lost")
    for rank, one in sorted(said.items()):
        print(f"  rank {rank}: {json.dumps(one)}")
    listened = [sorted(answer["listened"]) for answer in answers]
    print(f"  listened at {listened[0]} and {listened[1]}")
    problems = [text for rank, one in sorted(said.items()) if (text := judge(trial, rank, one))]
    if any(set(places) - {address} for places, address in zip(listened, ADDRESSES, strict=True)):
        problems.append(f"ranks listened at {listened}")
    return [f"{name}: {problem}" for problem in problems]


def judge(trial: Trial, rank: int, one: dict[str, object]) -> str:
    """Return what is wrong with what came of a rank; empty if nothing is."""
    outcome, waited = str(one["outcome"]), one.get("waited", 0.0)
    if trial.ends:
        return "" if outcome == "right" else f"rank {rank}: {outcome}"
    limit = NOTICED if trial.deadline == FOREVER else trial.deadline + GRACE
    if not isinstance(waited, float) or waited > limit:
        return f"rank {rank} has waited for {waited} s"
    return "" if outcome.startswith("rank ") else f"rank {rank}: {outcome}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("trials", nargs="*", choices=[*TRIALS, []])
    parser.add_argument("--rank", nargs=2, type=float, help=argparse.SUPPRESS)
    parser.add_argument("--machine", nargs=4, type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        print(json.dumps(work(*options.rank)))
        return 0
    if options.machine:
        number, handle, seconds, deadline = options.machine
        machine(int(number), socket.socket(fileno=int(handle)), seconds, deadline)
        return 0
    if INSIDE not in os.environ:
        can = subprocess.run(["unshare", "-rn", "test", "-w", "/dev/net/tun"], capture_output=True, check=False)
        if can.returncode:
            print("there are no network namespaces or no /dev/net/tun here", file=sys.stderr)
            return 2
        command = ["unshare", "-rn", sys.executable, "-P", *sys.argv]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    problems = [text for name in options.trials or list(TRIALS)[:-1] for text in attempt(name)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(problems)} failures")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
