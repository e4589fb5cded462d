"""Ranks with a GPU each, connected by NCCL."""

from cntk_parallel_nccl.communicator import NcclAllReduceCommunicator, NcclCommunicator

__all__ = ["NcclAllReduceCommunicator", "NcclCommunicator"]
