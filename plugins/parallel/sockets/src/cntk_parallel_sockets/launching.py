"""Starts ranks on this machine: ``python -m cntk_parallel_sockets.launching N [--elastic] COMMAND...``."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

_GRACE = 2.5
"""Seconds that the other ranks have to end by themselves after one has failed."""


_LAST = 30.0
"""Seconds that the others have to end after one has come to the end, where ranks may be lost."""


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
    processes = [
        subprocess.Popen(command, env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(ranks)
    ]

    def stop(number: int, frame: FrameType | None) -> None:
        for process in processes:
            process.send_signal(number)

    for name in ("SIGTERM", "SIGHUP", "SIGUSR1"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the ranks have it, too
    return _wait_for_those_left(processes) if elastic else _wait(processes)


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


def _wait_for_those_left(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    failed, end = 0, float("inf")
    while running := [process for process in processes if process.poll() is None]:
        failed = failed or next((code for process in processes if (code := process.poll())), 0)
        if end == float("inf") and any(process.returncode == 0 for process in processes):
            end = time.monotonic() + _LAST
        if time.monotonic() > end or all(map(_is_stopped, running)):
            for process in running:
                process.kill()
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
