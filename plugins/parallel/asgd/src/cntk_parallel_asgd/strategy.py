"""The strategy: every rank is a worker, and keeps one part of the server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Communicator, GradientAggregation, Parallelizer, ParameterStore
from cntk_core.api.parallel import StepCounts
from cntk_parallel_asgd.options import AsynchronousOptions
from cntk_parallel_asgd.server import Answer, Server
from cntk_parallel_asgd.shard import (
    DEFAULT_LAMBDAS,
    AdaptiveCompensation,
    Compensation,
    ConstantCompensation,
    NoCompensation,
    Push,
    Shard,
)
from cntk_parallel_asgd.simulated import WorkerClock
from cntk_parallel_asgd.wire import ANSWER, PUSH, TAG, Letter, unpack

Array = NDArray[Any]

_COUNTS = "counts"
_TIME = "time"
_MEMORY = "compensation"


@attrs.define
class _Period:
    """What a worker has done since its last push.

    Attributes:
        samples: learned.
        rate: sum of the rate per sample times the samples.
    """

    samples: int = 0
    rate: float = 0.0


@attrs.define
class _Statistics:
    """For lines in the log, since the last one.

    Attributes:
        since: when.
        samples: learned.
        waited: seconds for answers.
        staleness, pushes: sum and number, at the last line.
    """

    since: float = 0.0
    samples: int = 0
    waited: float = 0.0
    staleness: int = 0
    pushes: int = 0


class AsynchronousSGD(Parallelizer):
    """Workers learn alone, send to a server what they have learned, and go on from the model it has then.

    The server has a part on each rank, which the rank looks after in each of its steps and while it waits.
    At the end of an epoch all workers wait for each other, and all have the model of the server. So they do inside of
    one, each after so many samples, where training is to be saved there.
    """

    requires_api = "1.0"
    options = AsynchronousOptions
    reduces_gradients = False
    saves_inside = True
    settings: AsynchronousOptions

    def __init__(self, options: Any = None, aggregations: Mapping[str, GradientAggregation] | None = None) -> None:
        super().__init__(options, aggregations)
        self._epochs = 0
        self._exchanges = 0
        self._clock: WorkerClock | None = None
        self._server: Server | None = None
        self._early: list[tuple[int, Letter]] = []
        self._answers: dict[int, Letter] = {}

    # -- beginnings ---------------------------------------------------------------------------------------

    def begin(self, store: ParameterStore, communicator: Communicator) -> None:
        """Divide the parameters among the ranks."""
        self._communicator = communicator
        self._store = store
        size = communicator.size
        self._edges = [store.learned_size * rank // size for rank in range(size + 1)]
        self._pipelined = self.settings.use_pipeline and size > 1 and not self.settings.sim_model_average
        self._compensation = self._make_compensation()
        if self.settings.simulated_time is not None:
            self._clock = WorkerClock(self.settings.simulated_time, communicator.rank)

    @property
    def _learned(self) -> Any:
        """The learned parameters, wherever an engine has kept them until now."""
        return self._store.values[: self._store.learned_size]

    def _make_compensation(self) -> Compensation:
        kind, strength = self.settings.delay_compensation, self.settings.compensation_lambda
        if kind == "none":
            return NoCompensation()
        strength = DEFAULT_LAMBDAS[kind] if strength is None else strength
        if kind == "constant":
            return ConstantCompensation(strength)
        own = self._learned[self._part(self._communicator.rank)]
        return AdaptiveCompensation(strength, self.settings.compensation_decay, own.size, own.dtype)

    def _part(self, rank: int) -> slice:
        return slice(self._edges[rank], self._edges[rank + 1])

    def describe(self, epoch: int) -> str:
        """As in the original's log."""
        own = self._communicator
        text = (
            f"DataParallelASGD training (myRank = {own.rank}, numNodes = {own.size}, "
            f"SamplesSyncToServer = {self.settings.period[epoch]}"
        )
        if self.settings.bound is not None:
            text += f", staleness = {self.settings.bound}"
        if self.settings.delay_compensation != "none":
            text += f", delayCompensation = {self.settings.delay_compensation}"
        return text + ")"

    def begin_epoch(self, epoch: int) -> None:
        """Begin with the model that all ranks have."""
        self._want = self.settings.period[epoch]
        self._statistics = _Statistics(time.monotonic())
        self._someone_ended = self.has_met = False
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Begin with the model that all ranks have, when nothing is under way: an epoch, or what follows a meeting."""
        self._epochs += 1
        self._period = _Period()
        self._alone = 0
        self._statistics.staleness = self._statistics.pushes = 0
        self._start = self._learned.copy()
        self._pulled = self._start.copy()
        self._is_out = False
        self._answers = {}
        own, size = self._communicator.rank, self._communicator.size
        shard = Shard(self._learned[self._part(own)], size, self._compensation, reads=2 if self._pipelined else 1)
        self._server = Server(shard, size, self.settings.bound, in_time=self._clock is not None)
        early, self._early = self._early, []
        for source, letter in early:
            self._take(source, letter)

    # -- the worker ---------------------------------------------------------------------------------------

    def sync(self, store: ParameterStore, counts: StepCounts, *, epoch_end: bool = False) -> None:
        """Look after the server; exchange with it when the period is over, and at the end of an epoch."""
        self.has_met = False
        self._alone += counts.samples
        self._period.samples += counts.samples
        self._period.rate += counts.learning_rate * counts.samples
        if self._clock is not None and counts.samples:
            self._clock.learn(counts.samples)
        self._serve()
        if epoch_end:
            self._end()
            return
        if self._period.samples >= self._want:
            self._exchange(ends=False)
        if 0 < self.meet_every <= self._alone and not self._someone_ended:
            self._exchange(ends=True)
            self.has_met = self._have_met(0)

    def _end(self) -> None:
        """Wait until all workers are at the end of their data; the others may have come to meet before."""
        self._exchange(ends=True)
        while self.meet_every and not self._have_met(1):
            self._exchange(ends=True)

    def _have_met(self, ended: int) -> bool:
        """Hear how many of the workers, which are all here now, have ended; return whether all have, or none has.

        Where some have, the others have come in vain: they go on, and do not meet again before they end, too.
        """
        total = np.array([ended])
        self._communicator.allreduce(total)
        self._someone_ended = bool(total[0])
        self._begin_anew()
        return int(total[0]) == ended * self._communicator.size

    def _exchange(self, *, ends: bool) -> None:
        """Give the server what was learned, and go on from its model; if this worker ends, from that of all."""
        self._exchanges += 1
        self._statistics.samples += self._period.samples
        if self._pipelined:
            self._exchange_in_turn(ends)
        else:
            self._push(ends)
            self._start[...] = self._await()
            self._learned[...] = self._start
        self._report()

    def _exchange_in_turn(self, epoch_end: bool) -> None:
        """Push, and go on with the answer to the push before; at the end of an epoch with that to this push."""
        if self._is_out:
            self._pulled = self._await()
        self._push(epoch_end)
        self._is_out = not epoch_end
        if epoch_end:
            self._pulled = self._await()
        self._start[...] = self._pulled
        self._learned[...] = self._start

    def _factor(self) -> float:
        """The part of an update that counts."""
        if self.settings.sim_model_average:
            return 1.0 / self._communicator.size
        warm_up = self.settings.adjust_learning_rate_at_beginning
        return 1.0 if warm_up is None else warm_up.factor(self._exchanges)

    def _push(self, ends: bool) -> None:
        """Send each part of the server what its parameters would be with what this worker has learned."""
        factor, values = self._factor(), self._learned
        if factor != 1.0:
            values = self._start - self._learned.dtype.type(factor) * (self._start - self._learned)
        rate, arrival = factor * self._period.rate, 0.0 if self._clock is None else self._clock.arrival()
        self._period = _Period()
        own = self._communicator.rank
        for server in range(self._communicator.size):
            letter = Letter(PUSH, self._epochs, values[self._part(server)], arrival, rate, ends)
            if server != own:
                self._communicator.send(letter.pack(), server, TAG)
        self._take(own, Letter(PUSH, self._epochs, values[self._part(own)].copy(), arrival, rate, ends))

    def _await(self) -> Array:
        """Wait for the answers of all parts of the server and look after the own one meanwhile."""
        began = time.monotonic()
        while len(self._answers) < self._communicator.size:
            message = self._communicator.receive(tag=TAG)
            self._take(message.source, unpack(message.array, self._learned.dtype))
        self._statistics.waited += time.monotonic() - began
        answers, self._answers = self._answers, {}
        if self._clock is not None:
            self._clock.hear(max(letter.time for letter in answers.values()))
        return np.concatenate([answers[server].values for server in range(self._communicator.size)])

    # -- the server ---------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Take the messages that are here."""
        while (message := self._communicator.poll(tag=TAG)) is not None:
            self._take(message.source, unpack(message.array, self._learned.dtype))

    def _take(self, source: int, letter: Letter) -> None:
        """Take a message. One of an epoch that this rank has not begun is kept; one of an older epoch is dropped."""
        if letter.epoch > self._epochs:
            self._early.append((source, letter))
        elif letter.epoch == self._epochs:
            if letter.kind == ANSWER:
                self._answers[source] = letter
                return
            assert self._server is not None, "a push came before the epoch began"
            push = Push(source, letter.values, letter.rate, letter.ends, letter.time)
            for answer in self._server.arrive(push):
                self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        own = self._communicator.rank
        letter = Letter(ANSWER, self._epochs, answer.values, answer.time)
        if answer.worker == own:
            self._answers[own] = letter
        else:
            self._communicator.send(letter.pack(), answer.worker, TAG)

    def _report(self) -> None:
        if not self.show_every or self._exchanges % self.show_every:
            return
        assert self._server is not None
        found, shard, now = self._statistics, self._server.shard, time.monotonic()
        total, greatest = shard.staleness
        behind = (total - found.staleness) / max(1, shard.version - found.pushes)
        text = (
            f"\t\t(asynchronous SGD stats) {self._exchanges}-th sync: {now - found.since:8.2f} seconds since last "
            f"report, {found.waited:.2f} of them waiting; {found.samples} samples processed by me; "
            f"pushes are {behind:.2f} behind on average, at most {greatest} in this epoch"
        )
        self.say(text if self._clock is None else f"{text}; simulated time {self._clock.now:.3f} s")
        self._statistics = _Statistics(now, staleness=total, pushes=shard.version)

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> Mapping[str, Array]:
        """Counts, the simulated clock and what the compensation remembers. Between two epochs nothing is under way."""
        clock = self._clock
        found = {
            _COUNTS: np.array([self._exchanges, 0 if clock is None else clock.steps], np.int64),
            _TIME: np.array([0.0 if clock is None else clock.now], np.float64),
        }
        if self._compensation.memory is not None:
            found[_MEMORY] = self._compensation.memory
        return found

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on after the epoch."""
        self._set_counts([state])
        self._remember(state.get(_MEMORY))

    def adopt(self, states: Sequence[Mapping[str, Array]]) -> str:
        """Divide what the server remembers anew. Each worker goes on with the greatest of the counts."""
        self._set_counts(states)
        parts = [state[_MEMORY] for state in states if _MEMORY in state]
        whole = np.concatenate(parts) if len(parts) == len(states) else None
        self._remember(None if whole is None else whole[self._part(self._communicator.rank)])
        return f"there are {self._communicator.size} workers instead of {len(states)}"

    def _set_counts(self, states: Sequence[Mapping[str, Array]]) -> None:
        counts = np.max([state[_COUNTS] for state in states], axis=0)
        self._exchanges, steps = counts.tolist()
        if self._clock is not None:
            self._clock.steps = steps
            self._clock.now = max(float(state[_TIME][0]) for state in states)

    def _remember(self, memory: Array | None) -> None:
        """Let the compensation go on with a memory; without one it begins anew."""
        if self._compensation.memory is not None:
            self._compensation.memory[...] = 0.0 if memory is None else memory
