"""Simulated ranks: what a communicator offers that runs ranks on a simulated network."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeVar

import attrs

from cntk_core.contract.parallel import Communicator

T = TypeVar("T")


@attrs.frozen
class NetworkModel:
    """A network and what stands at its ends. Seconds, and bytes per second.

    Every host has one link to the network. Each direction of it carries one message at a time, and both directions
    work at the same time. The inside of the network holds nothing up.

    Attributes:
        bandwidth: of a host's link, in each direction.
        latency: between the moment when a byte leaves and the one when it arrives.
        overhead: of a rank's processor for each message that it sends or receives.
        ranks_per_host: neighbouring ranks that share a link.
        local_bandwidth, local_latency: the same between ranks of a host, which do not use the link.
        sum_rate: bytes of arrays that a rank adds up per second; ``inf`` if that takes no time worth mentioning.
        title: for tables and figures.
    """

    bandwidth: float = math.inf
    latency: float = 0.0
    overhead: float = 0.0
    ranks_per_host: int = 1
    local_bandwidth: float = math.inf
    local_latency: float = 0.0
    sum_rate: float = math.inf
    title: str = ""


@attrs.define
class TimeSpent:
    """Where the simulated seconds of a rank went.

    Attributes:
        computing: passed by :meth:`SimulatedRank.advance`.
        communicating: sending, and waiting for what was on its way.
        waiting: for other ranks that had not come, or not sent, yet.
    """

    computing: float = 0.0
    communicating: float = 0.0
    waiting: float = 0.0

    def since(self, before: TimeSpent) -> TimeSpent:
        """Return what was spent after another record of the same rank was made."""
        return TimeSpent(
            self.computing - before.computing,
            self.communicating - before.communicating,
            self.waiting - before.waiting,
        )


class SimulatedRank(Communicator):
    """The communicator of a simulated rank: it has a clock of its own, which :meth:`now` reads.

    Attributes:
        spent: where the rank's time went so far. What goes on in the background counts where the rank waits for it.
    """

    spent: TimeSpent

    @abstractmethod
    def advance(self, seconds: float) -> None:
        """Let time pass in which the rank computes."""


Traffic = tuple[str, int]
"""What kind of operation, or of message, and its index on its rank: equal whatever the number of ranks."""


@attrs.frozen
class WireSize:
    """How many bytes an array stands for that is smaller than what would really be sent.

    Attributes:
        fixed: bytes of an array that do not depend on the size of the model.
        factor: what the others stand for.
    """

    fixed: float = 0.0
    factor: float = 1.0

    def of(self, size: int) -> float:
        """Return the bytes that ``size`` bytes stand for."""
        return self.fixed + self.factor * (size - self.fixed) if size > self.fixed else float(size)


class Simulation(ABC):
    """Ranks of one process on a simulated network.

    Attributes:
        traffic: of the last run: for each operation the bytes of all arrays that were handed over, and how many.
        ended_at: simulated seconds that the last run took.
    """

    traffic: Mapping[Traffic, tuple[int, int]]
    ended_at: float

    @abstractmethod
    def run(self, work: Callable[[SimulatedRank], T]) -> list[T]:
        """Call ``work(communicator)`` on all ranks and return the results by rank.

        Raises:
            BaseException: the first error of a rank.
            RankGone: a rank failed as it was told to, and others cannot go on without it.
        """


@attrs.frozen
class SimulationPlan:
    """What is simulated.

    Attributes:
        ranks: how many.
        network: between them.
        wire: bytes that arrays stand for, where they are not what would be sent.
        failures: simulated seconds after which a rank fails, by rank.
        patience: real seconds after which a run is given up.
    """

    ranks: int
    network: NetworkModel = attrs.field(factory=NetworkModel)
    wire: Mapping[Traffic, WireSize] = attrs.field(factory=dict)
    failures: Mapping[int, float] = attrs.field(factory=dict)
    patience: float = 3600.0
