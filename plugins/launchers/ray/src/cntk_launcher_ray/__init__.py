"""Ranks that are actors of a Ray cluster."""

from __future__ import annotations

import os
import secrets
import sys
from importlib.util import find_spec

from cntk_core.api import Available, Unavailable
from cntk_core.api.parallel import Launcher, RankLauncher


class RayLauncher(RankLauncher):
    """The cluster that ``RAY_ADDRESS`` names, that of this machine, or one that is started for the run."""

    requires_api = "1.0"
    communicator = "sockets"

    @classmethod
    def availability(cls) -> Available | Unavailable:
        """Whether Ray is installed."""
        if find_spec("ray") is None:
            return Unavailable("Ray is not installed", 'pip install "cntk-launcher-ray[ray]"')
        return Available()

    def launcher(self, ranks: int, *, elastic: bool = False) -> Launcher:
        """A program that makes an actor for each rank and waits for them."""
        own = (str(ranks), "--elastic") if elastic else (str(ranks),)
        command = (sys.executable, "-P", "-m", "cntk_launcher_ray.job", *own)
        return Launcher(command, {"CNTK_SECRET": os.environ.get("CNTK_SECRET") or secrets.token_hex(16)}, "Ray")
