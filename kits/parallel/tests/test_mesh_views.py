"""How the ranks of a mesh come to the same view of who is lost: messages and ends in any order."""

from __future__ import annotations

import random
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from cntk_kit_parallel.mesh_views import View, Views


class Simulation:
    """Ranks that tell each other their views; some crash, perhaps in the middle of telling.

    What one rank sends another arrives in order, and after it the news that a rank is gone.
    """

    def __init__(self, size, seed, crashes, finished):
        self.random = random.Random(seed)
        self.views = [Views(rank, size) for rank in range(size)]
        self.mail = {(a, b): deque() for a in range(size) for b in range(size) if a != b}
        self.told = {}
        self.fine = {}
        self.crashes, self.finished = crashes, finished
        self.alive = set(range(size))
        self.regrouping = set(range(size))

    def run(self):
        """Let everything happen in some order, until nothing is left to happen."""
        while choices := self.choices():
            kind, *what = self.random.choice(choices)
            getattr(self, kind)(*what)

    def choices(self):
        found = [("deliver", a, b) for (a, b), mail in self.mail.items() if mail and b in self.alive]
        for rank in self.alive:
            if rank not in self.regrouping:
                found += [("come_back", rank)] if self.views[rank].alarm() else []
                continue
            view = self.views[rank].own(done=rank in self.finished)
            if view != self.told.get(rank) or not self.views[rank].awaited(view):
                found.append(("step", rank))
        return found + [("crash", rank) for rank in self.crashes if rank in self.alive]

    def deliver(self, source, to):
        message = self.mail[source, to].popleft()
        if message is None:
            self.views[to].lose(source, f"rank {source} is gone")
        else:
            self.views[to].hear(source, message)

    def come_back(self, rank):
        self.regrouping.add(rank)
        self.told.pop(rank)

    def step(self, rank):
        view = self.views[rank].own(done=rank in self.finished)
        if view == self.told.get(rank):
            self.fine[rank] = self.views[rank].agree(view)
            self.regrouping.discard(rank)
            return
        self.told[rank] = view
        for other in range(len(self.views)):
            if other != rank:
                self.mail[rank, other].append(view)

    def crash(self, rank):
        self.alive.discard(rank)
        for other in self.alive:
            mail = self.mail[rank, other]
            for _ in range(self.random.randint(0, len(mail))):
                mail.pop()
            mail.append(None)


@settings(max_examples=300, deadline=None)
@given(
    size=st.integers(2, 5),
    seed=st.integers(0, 1 << 32),
    crashes=st.sets(st.integers(0, 4)),
    finished=st.sets(st.integers(0, 4)),
)
def test_all_who_are_left_agree(size, seed, crashes, finished):
    crashes = {rank for rank in crashes if rank < size - 1}
    simulation = Simulation(size, seed, crashes, finished)
    simulation.run()
    assert simulation.alive == set(range(size)) - crashes
    assert not simulation.regrouping & simulation.alive
    agreed = {simulation.views[rank].agreed.same for rank in simulation.alive}
    assert len(agreed) == 1
    assert agreed.pop()[1] == crashes
    assert len({simulation.fine[rank] for rank in simulation.alive}) == 1
    for rank in simulation.alive:
        assert set(simulation.views[rank].lost) == crashes
        assert not simulation.views[rank].is_excluded


def test_a_rank_that_others_take_for_lost_hears_of_it():
    views = Views(1, 3)
    assert views.alarm() == ""
    views.hear(0, View(1, frozenset({1})))
    assert views.alarm() == "the other ranks have gone on without rank 1"


def test_a_rank_that_has_ended_is_not_waited_for():
    views = Views(0, 3)
    views.ended.add(2)
    view = views.own(done=False)
    assert view.same == (1, frozenset({2}))
    assert views.awaited(view) == [1]
    views.hear(1, View(1, frozenset({2})))
    assert views.awaited(view) == []
    assert not views.agree(view)


def test_all_are_there_and_have_done_their_work():
    views = Views(0, 2)
    view = views.own(done=True)
    views.hear(1, View(1, frozenset(), done=True))
    views.ended.add(1)  # it has ended after it has said so
    assert views.own(done=True) == view
    assert views.agree(view)
    assert views.alarm() == ""


def test_a_rank_that_goes_on_hears_that_others_cannot():
    views = Views(0, 4)
    views.hear(1, View(1, frozenset(), done=True))
    assert views.alarm() == ""  # it has come to the end, where this rank will come, too
    views.hear(1, View(1, frozenset(), done=False))
    assert views.alarm() == "rank 1 waits to go on with those that are left"
    view = views.own(done=False)
    views.hear(2, view)
    views.hear(3, view)
    views.agree(view)
    assert views.alarm() == ""
    views.hear(2, View(1, frozenset({3})))  # rank 3 was lost before it could tell rank 2 its view
    assert views.alarm() == "rank 2 waits to go on with those that are left"
    assert views.own(done=False).same == (2, frozenset({3}))
    assert views.lost == {3: "rank 3 is gone, as rank 2 says"}
