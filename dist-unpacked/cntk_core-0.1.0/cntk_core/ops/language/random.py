"""Counter-based random streams, so that every engine draws the same numbers for the same node and minibatch."""

from __future__ import annotations

import numpy as np

MASK = (1 << 64) - 1


SEEDED = MASK - 1
"""Stands for the place of every node that has a seed of its own."""


def stream_key(seed: int, node: int, attributes: object) -> tuple[int, int]:
    """Return the seed and the node's number that key a node's stream: nodes with the same seed draw the same numbers.

    Args:
        seed: the run's seed.
        node: place of the node in the network's order.
        attributes: of the node; a ``seed`` of 0 or above among them is its own.
    """
    own = getattr(attributes, "seed", -1)
    return (own, SEEDED) if isinstance(own, int) and own >= 0 else (seed, node)


def random_stream(seed: int, node: int, step: int) -> np.random.Generator:
    """Return the generator of a node in a minibatch.

    Args:
        seed: the run's seed.
        node: place of the node in the network's order.
        step: number of minibatches computed before.

    Philox with key (seed, node); ``step`` stands in the highest word of the counter, so that streams never overlap.
    """
    key = np.array([seed & MASK, node & MASK], dtype=np.uint64)
    counter = np.array([0, 0, 0, step & MASK], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
