"""What a training and an evaluation need of whoever prints values of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cntk_core.contract.engine import Program
from cntk_core.network.network import Network
from cntk_core.network.node import Node


class Traces(Protocol):
    """Prints values of nodes after each minibatch."""

    def nodes(self, network: Network, roots: Sequence[Node]) -> Sequence[Node]:
        """Return those of the nodes that are computed for some roots; the program must have them as roots, too."""

    def show(self, program: Program) -> None:
        """Print their values in the last minibatch."""
