"""What ranks do together, as one of them sees it: a communicator that notes what it is asked stands for the others."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cntk_core.contract.learner import Slot
from cntk_core.contract.parallel import Communicator, Parallelizer
from cntk_core.contract.reader import EpochSpec
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CheckpointError, TrainingError
from cntk_core.network.node import Parameter
from cntk_core.training.loop.rank_state import collect_state, take_back
from cntk_core.training.loop.ranks import STATE_TAG, STREAMS, ParallelSettings, Ranks, rank_arrays


class Others(Communicator):
    """A rank of several; the others do as it does, and say what is put into ``said``."""

    requires_api = "1.0"
    alltoall = background = now = poll = split = None  # nobody asks for them here

    def __init__(self, rank: int = 0, size: int = 2) -> None:
        super().__init__()
        self.rank, self.size = rank, size
        self.told: list[Any] = []
        self.said: list[Any] = []

    def barrier(self):
        self.told.append(("barrier", self.watch.doing))

    def allreduce(self, array):
        array *= self.size

    def allgather(self, array):
        return [array, *(np.frombuffer(text.encode(), np.uint8) for text in self.said)] if self.said else [array] * 2

    def broadcast(self, array, root=0):
        self.told.append(("broadcast", array.tolist()))
        array += 1

    def send(self, array, rank, tag=0):
        self.told.append((np.array(array).tobytes(), rank, tag))

    def receive(self, rank, tag=0):
        return SimpleNamespace(array=self.said.pop(0))

    def abort(self, reason):
        raise AssertionError(reason)


class Strategy(Parallelizer):
    """Notes what it is asked."""

    requires_api = "1.0"

    def __init__(self, reduces: bool = True, group: Communicator | None = None, saves: bool = False) -> None:
        super().__init__()
        self.reduces_gradients, self.group, self.saves_inside = reduces, group, saves
        self.told: list[Any] = []
        self.kept = {"sum": np.array([3.0])}

    def begin(self, store, communicator):
        self.told.append("begin")

    def begin_epoch(self, epoch):
        self.told.append(epoch)

    def state(self):
        return self.kept

    def restore(self, state):
        self.told.append({name: array.tolist() for name, array in state.items()})

    def adopt(self, states):
        self.told.append(len(states))
        return "halved"


def store(*multipliers: float) -> ParameterStore:
    made = [
        Parameter.make(f"p{number}", (2,), value=np.array([1.0, 2.0]), learning_rate_multiplier=multiplier)
        for number, multiplier in enumerate(multipliers)
    ]
    return ParameterStore(made, np.float64)


GROUP = Others(0, 3)


@pytest.mark.parametrize(
    ("strategy", "merges", "saves", "counts"),
    [
        (Strategy(), True, True, 4),
        (Strategy(False), False, False, 1),
        (Strategy(False, saves=True), False, True, 1),
        (Strategy(False, GROUP), True, False, 3),
        (Strategy(True, GROUP), True, True, 4),
    ],
)
def test_what_a_strategy_means(strategy, merges, saves, counts):
    ranks = Ranks(Others(1, 4), strategy, "S")
    assert (ranks.merge_gradients, ranks.saves_inside, ranks.count_for) == (merges, saves, counts)
    assert (ranks.exchange, ranks.is_main, ranks.rank, ranks.size) == (True, False, 1, 4)
    assert ranks.entries() == {"ranks": 4, "strategy": "S"}
    assert ranks.first_stream == STREAMS


def test_ranks_that_only_evaluate_together():
    ranks = Ranks(Others(0, 4))
    assert (ranks.exchange, ranks.is_main, ranks.merge_gradients, ranks.saves_inside) == (False, True, False, False)
    assert (ranks.entries(), ranks.count_for, ranks.first_stream) == ({}, 1, 0)
    assert [ranks.train_epoch(epoch) for epoch in (0, 5)] == [False, False]


def test_settings_reach_the_communicator_and_the_strategy():
    ranks = Ranks(Others(), Strategy(), settings=ParallelSettings(deadline=5, report_after=3, show_every=7))
    assert (ranks.communicator.watch.deadline, ranks.communicator.watch.report_after) == (5, 3)
    assert ranks.strategy.show_every == 7


def test_the_first_epoch_that_is_trained_together():
    ranks = Ranks(Others(), Strategy(), settings=ParallelSettings(start_epoch=3))
    assert [ranks.train_epoch(epoch) for epoch in range(4)] == [False, False, True, True]


def test_what_is_asked_of_readers_and_said_of_it():
    whole = EpochSpec(0, 10)
    for distributed, share, words in ((True, (1, 4), ", distributed reading is ENABLED"), (False, (0, 1), "")):
        ranks = Ranks(Others(1, 4), Strategy(), "S", ParallelSettings(distributed_reading=distributed))
        spec = ranks.spec(whole)
        assert (spec.rank, spec.ranks) == share
        assert ranks.describe(0) == f"S training (myRank = 1, numNodes = 4){words}"


def test_meeting_and_what_is_agreed():
    ranks = Ranks(Others(), Strategy())
    ranks.meet("waiting for all")
    assert ranks.communicator.told == [("barrier", "waiting for all")]
    assert ranks.first_text("mine") == "mine"
    ranks.communicator.said = ["theirs", "others"]
    assert ranks.first_text("") == "theirs"
    assert ranks.first_text("mine") == "mine"
    assert Ranks(Others()).first_text("") == ""
    assert ranks.add([1.0, 2.5]) == [2.0, 5.0]
    Ranks(Others()).agree("seed", {"b": 1, "a": 2})
    ranks.communicator.said = ['{"a": 3}']
    with pytest.raises(TrainingError) as caught:
        ranks.agree("seed", {"a": 2})
    assert str(caught.value) == (
        "the ranks do not have the same seed\n"
        '    All ranks need the same recipe, data and model files.\n    rank 0: {"a": 2}\n    rank 1: {"a": 3}'
    )
    assert ranks.communicator.watch.doing == "comparing seed"


@pytest.mark.parametrize(("rank", "added"), [(0, [2.0, 4.0]), (1, [0.0, 0.0])])
def test_numbers_of_a_group_count_once(rank, added):
    assert Ranks(Others(), Strategy(False, Others(rank, 2))).add_up([1.0, 2.0]) == added
    assert Ranks(Others(), Strategy(False)).add_up([1.0, 2.0]) == [2.0, 4.0]


def test_statistics_are_those_of_rank_0():
    made, ranks = store(1, 0), Ranks(Others(), Strategy())
    ranks.share_statistics(made)
    ((_, sent),) = ranks.communicator.told
    assert sent[:2] == [1, 2]
    assert [made.value(one).tolist() for one in made.parameters] == [[1, 2], [2, 3]]
    ranks = Ranks(Others(), Strategy())
    ranks.share_statistics(store(1, 1))
    assert ranks.communicator.told == []


def test_parameters_are_compared_every_so_often():
    def compared(count, every=3, **settings):
        ranks = Ranks(Others(), Strategy(**settings), "S", ParallelSettings(check_every=every))
        ranks.communicator.said = ["x" * 16]
        try:
            ranks.compare(store(1, 0), count, 1)
        except TrainingError as error:
            return error.message
        return ""

    assert [compared(count) != "" for count in range(7)] == [False, False, False, True, False, False, True]
    assert compared(3) == "after minibatch 3 of epoch 2 the parameters of rank 1 are not those of rank 0"
    assert compared(3, every=0) == compared(3, reduces=False, group=GROUP) == ""


def test_training_begins_once_and_takes_states_back():
    ranks, made = Ranks(Others(), Strategy(), "S"), store(1)
    arrays = {f"rank/{rank}/strategy/sum": np.array([float(rank)]) for rank in range(3)}
    assert ranks.remember({"ranks": 2, "strategy": "S"}, arrays) == ""
    assert ranks.strategy.told == []
    assert ranks.begin_epoch(made, 4) == ""
    assert ranks.strategy.told == ["begin", {"sum": [0.0]}, 4]
    assert len(ranks.communicator.told) == 1
    assert ranks.begin_epoch(made, 5) == ""
    assert ranks.strategy.told[3:] == [5]
    said = ranks.remember({"ranks": 3, "strategy": "S"}, arrays)
    assert said == "The checkpoint is of 3 ranks, now there are 2: halved."
    assert ranks.strategy.told[4:] == [3]
    said = ranks.remember({"ranks": 2, "strategy": "T"}, arrays)
    assert said == "The state of 'T' in the checkpoint is of no use to 'S'."
    assert ranks.remember({}, arrays) == ranks.remember({"ranks": 2, "strategy": "S"}, {}) == ""
    assert len(ranks.communicator.told) == 1


def test_inside_an_epoch_the_state_comes_back_after_its_beginning():
    ranks = Ranks(Others(), Strategy(), "S")
    ranks.remember({"ranks": 2, "strategy": "S"}, {"rank/0/strategy/sum": np.array([7.0])})
    assert ranks.begin_epoch(store(1), 4, inside=True) == ""
    assert ranks.strategy.told == ["begin", 4, {"sum": [7.0]}]


def test_a_trial_leaves_no_trace():
    ranks = Ranks(Others(), Strategy())
    with ranks.trial(2):
        ranks.strategy.kept["sum"][...] = 9
    assert ranks.strategy.told == [2, 2, {"sum": [3.0]}]


def test_states_of_all_ranks_come_to_rank_0():
    ranks = Ranks(Others(1), Strategy())
    assert ranks.collect({"a": np.array([1.0])}) == {}
    names = json.dumps(["session/a"]).encode()
    assert ranks.communicator.told == [(names, 0, STATE_TAG), (np.array([1.0]).tobytes(), 0, STATE_TAG)]
    ranks = Ranks(Others(), Strategy())
    ranks.begin(store(1))
    ranks.communicator.said = [np.frombuffer(json.dumps(["session/a", "strategy/sum"]).encode(), np.uint8), 5, 6]
    found = ranks.collect({"a": np.array([1.0])})
    assert found == {"rank/0/session/a": 1, "rank/0/strategy/sum": 3, "rank/1/session/a": 5, "rank/1/strategy/sum": 6}
    assert rank_arrays(found, 1, "strategy/") == {"sum": 6}


def apart() -> Ranks:
    return Ranks(Others(0, 1), Strategy(False), "S")


def kept(ranks: Ranks, arrays: dict[str, Any]) -> Any:
    return SimpleNamespace(progress=SimpleNamespace(ranks=ranks.entries()), arrays=arrays, position=None)


def test_ranks_that_learn_apart_have_their_own_numbers():
    made = store(1, 0)
    made.add_slots([Slot("m", 0.5)])
    made.slot("m", made.parameters[0])[...] = [3, 4]
    made.state = {"n": 7.0}
    arrays = collect_state(apart(), made, 12, None, {"ce": [1.5, 2]})
    other = store(1, 0)
    other.add_slots([Slot("m", 0.5)])
    found = take_back(kept(apart(), arrays), other, apart())
    assert (found.steps, found.totals, found.position) == (12, {"ce": [1.5, 2]}, None)
    assert other.slot("m", other.parameters[0]).tolist() == [3, 4]
    assert other.state == {"n": 7.0}
    arrays["rank/0/session/slot/m"] = np.zeros(3)
    with pytest.raises(CheckpointError) as caught:
        take_back(kept(apart(), arrays), other, apart())
    assert str(caught.value) == "the state of a rank in the checkpoint has 3 elements, not 8"


def test_ranks_that_make_the_same_steps_keep_nothing_of_their_own():
    together = Ranks(Others(0, 1), Strategy(), "S")
    assert collect_state(together, store(1, 0), 12, None, {"ce": 1}) == {}
    found = take_back(kept(together, {}), store(1), together)
    assert (found.steps, found.totals, found.said) == (None, {}, "")


def test_of_other_ranks_nothing_is_taken_but_the_place():
    made = store(1)
    checkpoint = kept(apart(), collect_state(apart(), made, 12, None, {}))
    checkpoint.progress.ranks = {"ranks": 2, "strategy": "S"}
    assert take_back(checkpoint, made, apart()).steps is None
    checkpoint.progress.ranks = {}
    assert take_back(checkpoint, made, apart()).steps is None
