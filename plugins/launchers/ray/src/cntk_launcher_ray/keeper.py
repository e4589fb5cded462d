"""Runs a command that ends when its standard input does: ``python -m cntk_launcher_ray.keeper COMMAND...``.

A process that an actor has started outlives it when its worker is killed. The input of this one is a pipe of the actor,
which ends with it, however that happens.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType


def keep(command: Sequence[str]) -> int:
    """Run the command and return its exit code, of a signal 128 and its number. Signals are passed on."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def end() -> None:
        while os.read(0, 1):
            pass
        process.kill()

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGINT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    threading.Thread(target=end, daemon=True).start()
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1:]))
