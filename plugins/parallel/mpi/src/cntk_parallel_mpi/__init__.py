"""Ranks that are processes of an MPI program."""

from cntk_parallel_mpi.communicator import MPICommunicator

__all__ = ["MPICommunicator"]
