"""Ranks that belong together: their collective operations, and the messages that wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cntk_parallel_simulated.world import Letter


@attrs.define(eq=False)
class Round:
    """One collective operation.

    Attributes:
        operation: what it is.
        brought: by rank of the group: what each has brought.
        came: when each came.
        result: what all get, when all are there.
        done: when each has it.
        taken: ranks that have taken it.
    """

    operation: str
    brought: dict[int, Any] = attrs.field(factory=dict)
    came: dict[int, float] = attrs.field(factory=dict)
    result: Any = None
    done: NDArray[np.float64] = attrs.field(factory=lambda: np.zeros(0))
    taken: int = 0


@attrs.define(eq=False)
class Group:
    """The ranks of one communicator.

    Attributes:
        members: their numbers among all.
        path: how the communicator was made, the same whatever the number of ranks.
        rounds: operations that not all have finished, by their number.
        mail: messages that are there, by receiver.
        parts: groups that were made of this one.
    """

    members: tuple[int, ...]
    path: str = ""
    rounds: dict[int, Round] = attrs.field(factory=dict)
    mail: dict[int, list[Letter]] = attrs.field(factory=dict)
    parts: dict[tuple[str, int], Group] = attrs.field(factory=dict)

    def part(self, name: str, color: int, members: tuple[int, ...]) -> Group:
        """Return a group of some ranks of this one; the same one for all of them."""
        path = f"{self.path}/{name}"
        return self.parts.setdefault((name, color), Group(tuple(self.members[one] for one in members), path))
