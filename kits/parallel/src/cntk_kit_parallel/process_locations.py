"""Where the processes of ranks are, so that one that does not answer any more can be ended by another one."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import attrs
import numpy as np

from cntk_core.contract.parallel import Communicator


@attrs.frozen
class Whereabouts:
    """Processes of ranks.

    Attributes:
        texts: of each rank its machine, its process and when that began.
    """

    texts: tuple[str, ...]

    @classmethod
    def gather(cls, communicator: Communicator) -> Whereabouts:
        """Ask all ranks; each of them calls this."""
        own = np.frombuffer(_own().encode(), np.uint8)
        return cls(tuple(bytes(one).decode(errors="replace") for one in communicator.allgather(own)))

    def end(self, rank: int) -> bool:
        """End the process of a rank, if it is on this machine; return whether it is, or was."""
        machine, process, began = ["", "", "", *self.texts[rank].rsplit(" ", 2)][-3:]
        if machine != _machine() or not began or not process.isdecimal():
            return False
        if _began(int(process)) == began:  # otherwise it has ended, and its number may be another one's
            with suppress(OSError):
                os.kill(int(process), signal.SIGKILL)
        return True


def _own() -> str:
    return f"{_machine()} {os.getpid()} {_began(os.getpid())}"


def _machine() -> str:
    """Return a text that processes have in common if they see each other's numbers."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _began(process: int) -> str:
    """Return when a process began; nothing if it is not there, or where the system does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
