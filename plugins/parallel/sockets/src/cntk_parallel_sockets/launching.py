"""Starts ranks on this machine: ``python -m cntk_parallel_sockets.launching N [--elastic] COMMAND...``."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

_GRACE = 2.5
"""Seconds that the other ranks have to end by themselves after one has failed."""


_BOUND = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
try:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
except (OSError, AttributeError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit(128 + signal.SIGTERM)
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Lets a rank be told to end when this process is killed, and then becomes the rank (Linux)."""

_PAUSE = 2.0
"""Seconds after which a rank is started again, if others still run then: what all ranks have wrong ends all of them."""

_TOLD = tuple(
    128 + getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGINT") if hasattr(signal, name)
)
"""Exit codes of ranks that were told to end; nobody wants them back."""

_LAST, _LATE_LAST = 30.0, 5.0
"""Seconds that the others have to end after one has come to the end, where ranks may be lost; and those that were
started again, which may still look for the others."""


def launch(ranks: int, command: Sequence[str], *, elastic: bool = False) -> int:
    """Run a command as so many ranks; return the exit code of the first that fails, 0 if none does.

    With ``elastic`` the others go on when one fails; it is 0 if one comes to the end.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "CNTK_SECRET": secrets.token_hex(16),
    }

    def start(rank: int, **more: str) -> subprocess.Popen[bytes]:
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), **more}
        return subprocess.Popen([*bound, *command], env={**os.environ, **common, **own})

    bound = [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid())] if sys.platform == "linux" else []
    processes = [start(rank) for rank in range(ranks)]
    told: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        told.append(number)
        for process in processes:
            process.send_signal(number)

    for name in ("SIGTERM", "SIGHUP", "SIGUSR1"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the ranks have it, too
    if not elastic:
        return _wait(processes)
    again = _Again(processes, lambda rank: start(rank, CNTK_JOIN="1"), told, int(os.environ.get("CNTK_RESTARTS", "0")))
    return _wait_for_those_left(processes, again.look)


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    failed, end = 0, float("inf")
    while running := [process for process in processes if process.poll() is None]:
        failed = failed or next((code for process in processes if (code := process.poll())), 0)
        if failed and end == float("inf"):
            end = time.monotonic() + _GRACE
        if time.monotonic() > end or (failed and all(map(_is_stopped, running))):
            for process in running:
                process.kill()
        time.sleep(0.05)
    failed = failed or next((process.returncode for process in processes if process.returncode), 0)
    return failed if failed >= 0 else 128 - failed


class _Again:
    """Starts ranks again that have failed, so that they join the others.

    Args:
        processes: of the ranks; one that is started again takes the place of the one before.
        start: starts a rank.
        told: not empty when all were told to end.
        left: so many times.
    """

    def __init__(
        self,
        processes: list[subprocess.Popen[bytes]],
        start: Callable[[int], subprocess.Popen[bytes]],
        told: Sequence[int],
        left: int,
    ) -> None:
        self._processes, self._start, self._told, self._left = processes, start, told, left
        self._due: dict[int, float] = {}
        self._late: set[int] = set()
        self._end = float("inf")

    def look(self) -> None:
        """Start those again that have failed some time ago."""
        codes = [process.poll() for process in self._processes]
        if 0 in codes:
            self._end_late(codes)
        if self._told or 0 in codes or None not in codes:
            return
        for rank, code in enumerate(codes):
            if code is None or code in _TOLD or -code + 128 in _TOLD or not self._left:
                continue
            if time.monotonic() > self._due.setdefault(rank, time.monotonic() + _PAUSE):
                self._left -= 1
                del self._due[rank]
                self._processes[rank] = self._start(rank)
                self._late.add(rank)

    def _end_late(self, codes: Sequence[int | None]) -> None:
        self._end = min(self._end, time.monotonic() + _LATE_LAST)
        for rank in self._late:
            if codes[rank] is None and time.monotonic() > self._end:
                self._processes[rank].kill()


def _wait_for_those_left(processes: Sequence[subprocess.Popen[bytes]], look: Callable[[], None]) -> int:
    failed, end = 0, float("inf")
    while running := [process for process in processes if process.poll() is None]:
        failed = failed or next((code for process in processes if (code := process.poll())), 0)
        if end == float("inf") and any(process.returncode == 0 for process in processes):
            end = time.monotonic() + _LAST
        if time.monotonic() > end or all(map(_is_stopped, running)):
            for process in running:
                process.kill()
        look()
        time.sleep(0.05)
    codes = [process.returncode for process in processes]
    if 0 in codes:
        return 0
    failed = failed or codes[0]
    return failed if failed >= 0 else 128 - failed


def _is_stopped(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process that has not ended is stopped by a signal, so that it will not end by itself."""
    if not hasattr(os, "waitid"):
        return False
    return os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None


if __name__ == "__main__":
    going_on = sys.argv[2] == "--elastic"
    sys.exit(launch(int(sys.argv[1]), sys.argv[3 if going_on else 2 :], elastic=going_on))
