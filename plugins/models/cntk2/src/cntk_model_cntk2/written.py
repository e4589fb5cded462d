"""What writers of functions need, and what they return."""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from cntk_core.api import Node
from cntk_model_cntk2.values import NDShape


class Exporter(Protocol):
    """What a writer needs of the exporter."""

    uids: dict[Node, str]
    readers: dict[Node, set[str]]
    count: int
    seeds: int

    def constant(self, value: Any, name: str = "", *, learned: bool = False) -> str:
        """Add a parameter or a constant, and return its uid."""

    def helper(self, called: str, inputs: list[str], attributes: dict[str, Any]) -> str:
        """Add a function that no node of ours is, and return the uid of its output."""


@attrs.frozen
class Written:
    """What is said of a function.

    Attributes:
        attributes: by key.
        inputs: uids in the original's order; None are those of the node's.
        ours: the op whose function it is, if that is not the node's.
    """

    attributes: dict[str, Any] = attrs.field(factory=dict)
    inputs: list[str] | None = None
    ours: str = ""


def shape_of(dims: Any) -> NDShape:
    """Return sizes as a file has them."""
    return NDShape(tuple(int(dim) for dim in dims))
