"""The place of a process among the ranks of its machine, as launchers say it."""

from __future__ import annotations

import os
from collections.abc import Mapping

LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
"""Variables in which launchers say the place of a process among those of its machine."""


def local_rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the place of this process among the ranks of its machine, from 0; None if no launcher says it."""
    found = next((environment[name] for name in LOCAL_RANKS if environment.get(name, "").isdecimal()), None)
    return None if found is None else int(found)
