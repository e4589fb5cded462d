"""Ranks of one process on a simulated network: the communicator ``simulated``."""

from cntk_parallel_simulated.communicator import SimulatedCommunicator
from cntk_parallel_simulated.world import World

__all__ = ["SimulatedCommunicator", "World"]
