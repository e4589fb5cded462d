"""Where the processes of ranks are, so that one that does not answer any more can be ended by another one."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import attrs
import numpy as np

from cntk_core.contract.parallel import Communicator
from cntk_core.system.processes import Process


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
        process = Process.own()
        own = np.frombuffer(f"{process.machine} {process.number} {process.began}".encode(), np.uint8)
        return cls(tuple(bytes(one).decode(errors="replace") for one in communicator.allgather(own)))

    def end(self, rank: int) -> bool:
        """End the process of a rank, if it is on this machine; return whether it is, or was."""
        machine, number, began = ["", "", "", *self.texts[rank].rsplit(" ", 2)][-3:]
        if not (number.isascii() and number.isdecimal()):
            return False
        process = Process(machine, int(number), began)
        if not process.is_here or not began:
            return False
        if process.lives():  # otherwise it has ended, and its number may be another one's
            with suppress(OSError):
                os.kill(process.number, signal.SIGKILL)
        return True
