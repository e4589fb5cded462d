"""Ranks that are processes connected by TCP."""

from cntk_parallel_sockets.communicator import SocketCommunicator

__all__ = ["SocketCommunicator"]
