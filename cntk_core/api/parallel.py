"""The kit of authors of communicators and strategies: meshes, messages, simulation."""

from __future__ import annotations

from cntk_core.contract.parallel import Launcher, Message, Pending, RankLauncher, StepCounts, Watch
from cntk_core.contract.simulation import (
    NetworkModel,
    SimulatedRank,
    Simulation,
    SimulationPlan,
    TimeSpent,
    Traffic,
    WireSize,
)
from cntk_kit_parallel.background_worker import BackgroundWorker, sum_by_rank
from cntk_kit_parallel.mesh import Mesh
from cntk_kit_parallel.mesh_communicator import MeshCommunicator
from cntk_kit_parallel.mesh_joining import Joining
from cntk_kit_parallel.process_locations import Whereabouts
from cntk_kit_parallel.rendezvous import Rendezvous

KIT_VERSION = "1.0"
"""Version of this kit. Names may change with its major; what goes is announced for two minor versions."""

__all__ = [
    "KIT_VERSION",
    "BackgroundWorker",
    "Joining",
    "Launcher",
    "Mesh",
    "MeshCommunicator",
    "Message",
    "NetworkModel",
    "Pending",
    "RankLauncher",
    "Rendezvous",
    "SimulatedRank",
    "Simulation",
    "SimulationPlan",
    "StepCounts",
    "TimeSpent",
    "Traffic",
    "Watch",
    "Whereabouts",
    "WireSize",
    "sum_by_rank",
]
