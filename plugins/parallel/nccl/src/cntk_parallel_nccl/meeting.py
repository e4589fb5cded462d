"""Where ranks meet: the first connections are made by what launched them, MPI or variables of the environment."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cntk_core.api import UnsupportedError
from cntk_core.api.parallel import Rendezvous

if TYPE_CHECKING:
    from mpi4py import MPI

LOOPBACK = "127.0.0.1"

_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
)
"""What mpiexec sets: rank, number of ranks, and how many of them are on this machine."""


def meet(environment: Mapping[str, str]) -> Rendezvous:
    """Return where the ranks of this process meet; a single rank if nothing has launched it.

    Raises:
        UnsupportedError: the ranks are on several machines, and nothing says where rank 0 is.
    """
    for rank, size, local in _MPI:
        if _count(environment, size) > 1 and environment.get(rank, "").isdecimal():
            if find_spec("mpi4py") is not None:
                from mpi4py import MPI

                return meet_by_mpi(MPI.COMM_WORLD, environment)
            return _by_address(int(environment[rank]), int(environment[size]), environment.get(local), environment)
    return Rendezvous.of(environment)


def meet_by_mpi(world: MPI.Intracomm | Any, environment: Mapping[str, str]) -> Rendezvous:
    """Let rank 0 of an MPI program tell the others where it listens, and a secret."""
    rank, size = world.Get_rank(), world.Get_size()
    hosts = world.allgather(socket.gethostname())
    said = None
    if rank == 0:
        address = LOOPBACK if len(set(hosts)) == 1 else environment.get("MASTER_ADDR") or socket.getfqdn()
        said = (address, _free_port(), secrets.token_bytes(16))
    address, port, secret = world.bcast(said, root=0)
    return Rendezvous(rank, size, address, port, secret, environment.get("CNTK_BIND", ""))


def _free_port() -> int:
    with socket.socket() as free:  # nobody can connect to it
        free.bind(("", 0))
        return int(free.getsockname()[1])


def _by_address(rank: int, size: int, local_size: str | None, environment: Mapping[str, str]) -> Rendezvous:
    """Ranks of ``mpiexec`` without mpi4py."""
    address = environment.get("MASTER_ADDR")
    if address is None and local_size != str(size):
        raise UnsupportedError(
            f"{size} ranks on several machines do not find each other: mpi4py is not installed here, and MASTER_ADDR "
            "is not set",
            hint='pip install "cntk-parallel-nccl[mpi]", or let MASTER_ADDR and MASTER_PORT say where rank 0 listens.',
        )
    return Rendezvous.named(environment, rank, size, address or LOOPBACK)


def _count(environment: Mapping[str, str], name: str) -> int:
    """Return a number that a launcher sets; 0 if there is none."""
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else 0
