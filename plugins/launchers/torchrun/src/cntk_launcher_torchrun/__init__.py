"""Ranks that ``torchrun`` starts."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sys
from pathlib import Path

from cntk_core.api import UnsupportedError
from cntk_core.api.parallel import Launcher, RankLauncher

COMMAND = "CNTK_TORCHRUN"
"""Variable with the command, where it is that of another environment."""


class TorchrunLauncher(RankLauncher):
    """All ranks on this machine; over several machines ``torchrun`` is given to each of them by hand."""

    requires_api = "1.0"
    communicator = "sockets"
    is_here = True

    def launcher(self, ranks: int, *, elastic: bool = False) -> Launcher:
        """``torchrun --standalone`` of this environment, of the path, or that of ``CNTK_TORCHRUN``."""
        if elastic:
            raise UnsupportedError(
                "torchrun ends all ranks when one has failed (--elastic)",
                hint="Leave --on torchrun away: cntk -n starts ranks that go on; so does --on ray.",
            )
        command = (*find_torchrun(), "--standalone", "--no-python", "--nproc-per-node", str(ranks))
        return Launcher(command, {"CNTK_SECRET": os.environ.get("CNTK_SECRET") or secrets.token_hex(16)}, "torchrun")


def find_torchrun() -> tuple[str, ...]:
    """Return the command.

    Raises:
        UnsupportedError: there is none.
    """
    given = os.environ.get(COMMAND)
    if given:
        return tuple(shlex.split(given))
    beside = Path(sys.executable).with_name("torchrun")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("torchrun")
    if found is None:
        raise UnsupportedError(
            "there is no torchrun: PyTorch is not installed here",
            hint=f"pip install torch, or let {COMMAND} name the torchrun of another environment.",
        )
    return (found,)
