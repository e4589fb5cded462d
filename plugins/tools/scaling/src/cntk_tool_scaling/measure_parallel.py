"""Measuring what ranks do beside computing: compressing gradients, adding them up, sending messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cntk_core.api import Communicator, GradientAggregation, Parameter, ParameterStore, Registry
from cntk_core.api.parallel import NetworkModel, SimulatedRank, SimulationPlan, sum_by_rank

SIMULATED = "simulated"
"""The communicator that simulates, as plugins offer it."""

COLUMNS, ROWS = 1024, 2048
"""Of the parameter with whose gradient aggregations are measured."""

_TURNS = 7
_SMALL, _LARGE = 8, 4 * 1024 * 1024
_MANY = 200


def aggregation_seconds(registry: Registry, make: Callable[[], GradientAggregation], dtype: Any = np.float32) -> float:
    """Return for how many seconds a processor is busy with each value of a gradient when ranks add gradients up.

    Two ranks of this process do it, without a network, and the time of the processor counts: that of one rank is
    about the same with any number of them.

    Raises:
        PluginError: the communicator that simulates is not installed.
    """
    plan = SimulationPlan(2, NetworkModel())

    def work(communicator: SimulatedRank) -> float:
        parameter = Parameter.make("W", (COLUMNS, ROWS), value=np.broadcast_to(np.zeros(1, dtype), (COLUMNS, ROWS)))
        store = ParameterStore([parameter], dtype)
        aggregation = make()
        aggregation.begin(store, communicator)
        aggregation.begin_epoch(0)
        gradients = np.random.default_rng(communicator.rank).normal(size=store.learned_size).astype(dtype)
        header, times = np.zeros(8), []
        for _ in range(_TURNS):
            store.gradients[...] = gradients
            began = time.thread_time()
            aggregation.aggregate(store.gradients, header, communicator)
            times.append(time.thread_time() - began)
        return min(times[1:])

    simulation = registry.communicators.get(SIMULATED).simulation(plan)
    return min(simulation.run(work)) / (COLUMNS * ROWS)


def sum_rate(dtype: Any = np.float32) -> float:
    """Return the bytes of arrays that a rank adds up per second."""
    parts = [np.ones(_LARGE // np.dtype(dtype).itemsize, dtype) for _ in range(2)]
    times = []
    for _ in range(_TURNS):
        began = time.perf_counter()
        sum_by_rank(parts)
        times.append(time.perf_counter() - began)
    return sum(part.nbytes for part in parts) / min(times)


def measure_network(communicator: Communicator, title: str) -> NetworkModel:
    """Measure messages between the first two ranks and exchanges between all; every rank gets the same numbers.

    The best of several attempts counts, so that what else the machine does matters little.

    - overhead: of one of many small messages that are sent without waiting,
    - latency: half of a small message's way there and back, less what both processors are busy,
    - bandwidth: of exchanges of large arrays, in which both directions work at once, as in sums.
    """
    overhead = _overhead(communicator)
    there_and_back = _ping(communicator)
    latency = max(0.0, there_and_back / 2 - 2 * overhead)
    large = _exchange(communicator)
    others = communicator.size - 1
    bandwidth = others * _LARGE / max(large - latency, 1e-9)
    numbers = np.array([bandwidth, latency, overhead])
    communicator.broadcast(numbers)
    bandwidth, latency, overhead = numbers.tolist()
    return NetworkModel(bandwidth, latency, overhead, title=title)


def _ping(communicator: Communicator) -> float:
    """Seconds of a small message from rank 0 to rank 1 and back."""
    small, times = np.zeros(_SMALL, np.uint8), []
    communicator.barrier()
    for _ in range(_MANY):
        began = time.perf_counter()
        if communicator.rank == 0:
            communicator.send(small, 1)
            communicator.receive(1)
        elif communicator.rank == 1:
            communicator.receive(0)
            communicator.send(small, 0)
        times.append(time.perf_counter() - began)
    return min(times)


def _overhead(communicator: Communicator) -> float:
    """Seconds between two of many small messages."""
    small = np.zeros(_SMALL, np.uint8)
    communicator.barrier()
    times = []
    for _ in range(_TURNS):
        began = time.perf_counter()
        if communicator.rank == 0:
            for _ in range(_MANY):
                communicator.send(small, 1)
            communicator.receive(1)
        elif communicator.rank == 1:
            for _ in range(_MANY):
                communicator.receive(0)
            communicator.send(small, 0)
        times.append(time.perf_counter() - began)
    # A message keeps the slower of both processors busy.
    return min(times) / _MANY


def _exchange(communicator: Communicator) -> float:
    """Seconds in which each rank sends a large array to each other one."""
    large = [np.ones(_LARGE, np.uint8) for _ in range(communicator.size)]
    times = []
    for _ in range(_TURNS):
        communicator.barrier()
        began = time.perf_counter()
        communicator.alltoall(large)
        times.append(time.perf_counter() - began)
    return min(times)
