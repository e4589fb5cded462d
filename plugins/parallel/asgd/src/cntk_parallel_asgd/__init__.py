"""Asynchronous SGD: a parameter server on the ranks, with bounded staleness and delay compensation."""

from cntk_parallel_asgd.options import AsynchronousOptions, SimulatedTime, WarmUp
from cntk_parallel_asgd.strategy import AsynchronousSGD

__all__ = ["AsynchronousOptions", "AsynchronousSGD", "SimulatedTime", "WarmUp"]
