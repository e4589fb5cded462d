"""Ranks that are processes connected by TCP."""

from cntk_parallel_sockets.ranks import SocketCommunicator

__all__ = ["SocketCommunicator"]
