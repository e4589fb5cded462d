"""Which ranks of a mesh are lost, in the view of each; and how those that are left come to the same view.

Each rank tells all others its view whenever that changes: a number, the ranks that it takes for lost, and whether it
has done its work. What one takes for lost, all others that hear of it do, too, so views only grow. A rank that has
heard its own view from everybody else in it goes on. If another one is lost in that moment, some may have gone on and
others not: the latter tell of a greater view, and the former come back and try again with a greater number.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class View:
    """What a rank tells of the others.

    Attributes:
        number: of the attempt to regroup.
        lost: ranks of the mesh.
        done: the rank has done its work.
    """

    number: int = 0
    lost: frozenset[int] = frozenset()
    done: bool = False

    @property
    def same(self) -> tuple[int, frozenset[int]]:
        """What must be equal in the views of all."""
        return self.number, self.lost


@attrs.define(eq=False)
class Views:
    """What a rank knows of the others. The mesh guards it with its lock.

    Attributes:
        rank, size: this rank, and how many there were.
        agreed: the view that this rank goes on with.
        lost: ranks, and why.
        ended: ranks that have said that they need nothing any more.
        is_excluded: the others go on without this rank.
        missed: this rank has waited in vain for another one.
    """

    rank: int
    size: int
    agreed: View = attrs.field(factory=View)
    lost: dict[int, str] = attrs.field(factory=dict)
    ended: set[int] = attrs.field(factory=set)
    is_excluded: bool = False
    missed: bool = False
    _said: dict[int, View] = attrs.field(factory=dict)

    def lose(self, rank: int, reason: str) -> None:
        """Take a rank for lost."""
        self.lost.setdefault(rank, reason)

    def hear(self, rank: int, view: View) -> None:
        """Note what a rank tells; one that is lost has nothing to say any more."""
        if rank in self.lost:
            return
        self._said[rank] = view
        self.is_excluded |= self.rank in view.lost

    def alarm(self) -> str:
        """Return why this rank cannot go on with the view that was agreed; empty if it can."""
        if self.is_excluded:
            return f"the other ranks have gone on without rank {self.rank}"
        for rank, reason in self.lost.items():
            if rank not in self.agreed.lost:
                return reason
        for rank, view in self._heard().items():
            news = view.number >= self.agreed.number and not view.lost <= self.agreed.lost
            if news or (view.number > self.agreed.number and not view.done):
                return f"rank {rank} waits to go on with those that are left"
        return ""

    def _heard(self) -> dict[int, View]:
        return {rank: view for rank, view in self._said.items() if rank not in self.lost}

    def own(self, *, done: bool) -> View:
        """Return the view of this rank now, with all that it has heard."""
        for rank, view in self._heard().items():
            for other in view.lost - set(self.lost) - {self.rank}:
                self.lose(other, f"rank {other} is gone, as rank {rank} says")
        numbers = [view.number for view in self._heard().values()]
        view = View(max(self.agreed.number + 1, *numbers, 0), frozenset(self.lost), done)
        for rank in self.ended - set(self.lost):
            if self._said.get(rank, View()).same != view.same:
                self.lose(rank, f"rank {rank} has ended")
        return attrs.evolve(view, lost=frozenset(self.lost))

    def awaited(self, view: View) -> list[int]:
        """Return the ranks that have not told the same view yet."""
        others = set(range(self.size)) - {self.rank} - set(self.lost)
        return sorted(rank for rank in others if self._said.get(rank, View()).same != view.same)

    def agree(self, view: View) -> bool:
        """Go on with a view that all who are left have; return whether all were there and have done their work."""
        fine = view.lost == self.agreed.lost and view.done and all(one.done for one in self._heard().values())
        self.agreed, self.missed = view, False
        return fine
