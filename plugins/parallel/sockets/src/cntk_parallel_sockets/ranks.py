"""The communicator on sockets."""

from __future__ import annotations

import sys

from cntk_core.api import Launcher, MeshCommunicator


class SocketCommunicator(MeshCommunicator):
    """Ranks that are processes, with a TCP connection between each two."""

    requires_api = "1.0"

    @classmethod
    def launcher(cls, ranks: int) -> Launcher:
        """A small program that starts processes and waits for them."""
        command = (sys.executable, "-m", "cntk_parallel_sockets.launching", str(ranks))
        return Launcher(command, {}, "the launcher of cntk-parallel-sockets")
