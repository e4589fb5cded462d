"""The nodes that a program has a trainer look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cntk_core.errors import NetworkError, did_you_mean
from cntk_core.network.network import Network
from cntk_core.network.node import Node


def check_network(network: Any, op_settings: Mapping[str, float]) -> None:
    """Check what a trainer is made of.

    Raises:
        NetworkError: it is no network, or nothing in it asks for one of the numbers.
    """
    if not isinstance(network, Network):
        kind = type(network).__name__
        raise NetworkError(f"a trainer takes a Network, not a {kind}", hint="graph.finish() of a graph gives one.")
    known = {name for node in network for name in node.op.traits.settings}
    for name in op_settings:
        if name not in known:
            guess = did_you_mean(name, known)
            raise NetworkError(f"no operation of the network asks for the number '{name}'{guess}")


def choose_nodes(network: Network, criterion: Any, evaluations: Sequence[Any] | None) -> tuple[Node, ...]:
    """Return the criterion and the evaluation nodes that a program means.

    Raises:
        NetworkError: a node is not there, or no criterion is marked.
    """
    if criterion is None and not network.roots["criterion"]:
        raise NetworkError("the network marks no criterion", hint="Name the node that is to be minimised.")
    chosen = network.roots["criterion"][0] if criterion is None else find_node(network, criterion)
    others = network.roots["evaluation"] if evaluations is None else [find_node(network, one) for one in evaluations]
    return tuple(dict.fromkeys([chosen, *others]))


def find_node(network: Network, wanted: Any) -> Node:
    """Return a node of a network. Raises NetworkError if what is given (a node, a term or a name) is none of it."""
    found = network[wanted] if isinstance(wanted, str) else getattr(wanted, "node", wanted)
    if not isinstance(found, Node) or found.name not in network or network[found.name] is not found:
        raise NetworkError(f"{wanted!r} is no node of the network", hint="Give a node, a term of its graph, or a name.")
    return found
