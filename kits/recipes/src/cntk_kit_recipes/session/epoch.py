"""The minibatch loop of an epoch, of one rank or of several: gradients, update, and a line now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from signal import Signals
from typing import Protocol

import attrs
import numpy as np

from cntk_core.contract.engine import Program
from cntk_core.contract.events import Job, MinibatchResult
from cntk_core.contract.learner import Learner
from cntk_core.contract.parallel import StepCounts
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError, RankGone
from cntk_core.network.node import Node
from cntk_core.records.minibatch import Minibatch
from cntk_core.training.files.position import Position
from cntk_core.training.loop.alone import Alone
from cntk_core.training.loop.criteria import CriterionSums
from cntk_core.training.loop.learner_group import LearnerGroup, Rates, StepPlace
from cntk_core.training.loop.minibatch_sizes import MinibatchSizes
from cntk_core.training.loop.ranks import Ranks
from cntk_core.training.loop.step import Stepper, has_frames
from cntk_core.training.loop.update import count_uses
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.session.epoch_progress import EpochProgress, EpochResult, Pace
from cntk_kit_recipes.session.run_log import RunLog
from cntk_kit_recipes.session.stop_request import StopRequest, stopped_together


class Keeper(Protocol):
    """Saves training inside an epoch."""

    def is_due(self, read: int) -> bool:
        """Whether to save now, after so many samples of the epoch."""
        ...

    def keep(self, position: Position | None) -> bool:
        """Save, and say whether it was done; None says that the program cannot tell what it takes along."""
        ...


class Check(Protocol):
    """Looks at gradients."""

    def check(self, minibatch: Minibatch, epoch: int, index: int) -> None:
        """Look at those of a minibatch that is about to be learned, the one with this index in its epoch."""
        ...


@attrs.define(eq=False)
class EpochLoop:
    """Trains one epoch after the other.

    Attributes:
        program: compiled with the update rule.
        store: its parameters.
        learner, settings: what the rule was composed of.
        criteria: the training criterion, then the evaluation nodes.
        log: where lines go.
        job: for listeners.
        seed: of the injected noise.
        listeners: called after each minibatch with ``job`` and ``result``.
        before_update: called with the gradients of each update; usually none.
        check: compares gradients before each minibatch is learned; None if that is not asked for.
        ranks: who trains.
        stop: asks training to end after a minibatch.
        rows: sequences side by side in the minibatch learned last, of truncated training.
        stepper: makes the steps.
    """

    program: Program
    store: ParameterStore
    learner: Learner
    settings: SGDSettings
    criteria: tuple[Node, ...]
    log: RunLog
    job: Job
    seed: int = 0
    listeners: Sequence[Callable[..., object]] = ()
    before_update: Sequence[Callable[..., object]] = ()
    check: Check | None = None
    ranks: Ranks = attrs.field(factory=Alone)
    stop: StopRequest = attrs.field(factory=StopRequest)
    rows: int = 1
    stepper: Stepper = attrs.field(init=False)
    _alone: Ranks = attrs.field(factory=Alone, init=False)

    @stepper.default
    def _make_stepper(self) -> Stepper:
        plan = self.program.plan
        group = LearnerGroup(self.learner, self.settings, self.program, plan.trained, count_uses(plan))
        sizes = MinibatchSizes(plan.network, self.log.line)
        return Stepper(self.program, self.store, (group,), sizes, self.seed, self.job, self.before_update)

    @property
    def steps(self) -> int:
        """Updates done so far."""
        return self.stepper.steps

    @steps.setter
    def steps(self, steps: int) -> None:
        self.stepper.steps = steps

    def run(
        self,
        minibatches: Iterable[Minibatch],
        pace: Pace,
        epoch_samples: int = 0,
        *,
        position: Position | None = None,
        keeper: Keeper | None = None,
    ) -> EpochResult:
        """Train an epoch, or the rest of one.

        Args:
            minibatches: the data of the whole epoch.
            pace: its index, rate and size of minibatches.
            epoch_samples: its size in samples, 0 if it is not known.
            position: where an earlier run left off; the minibatches before it are read and left out.
            keeper: saves training between minibatches.

        Raises:
            NotANumber: the criterion is not a number.
            Stopped: the process was told to end.
            DataError: there was no data, or less than up to the position.
        """
        team, epoch = self.together(pace), pace.epoch
        passes = team.first_stream + (position.passes if position is not None else 0)
        self.program.begin_epoch(epoch, self.settings.program_settings(epoch), minibatches_done=passes)
        state = EpochProgress(
            CriterionSums(self.program, self.criteria),
            pace,
            self.log,
            self.settings,
            self._tell if self.listeners else None,
            epoch_samples=epoch_samples,
            first_stream=team.first_stream,
        )
        if position is not None:
            self.program.restore(position.program)
            state.go_on(position)
            minibatches = _after(minibatches, position)
        self._learn(team, minibatches, state, keeper)
        self._end(team, state)
        return state.finish()

    def together(self, pace: Pace) -> Ranks:
        """The ranks that learn with this pace together; those that each learn everything are alone.

        They learn together in trials unless their strategy brings models together only after some time.
        """
        ranks = self.ranks
        apart = pace.trial and not ranks.strategy.reduces_gradients
        return ranks if ranks.train_epoch(pace.epoch) and not apart else self._alone

    def _tell(self, result: MinibatchResult) -> None:
        for listener in self.listeners:
            listener(job=self.job, result=result)

    def _learn(
        self, team: Ranks, minibatches: Iterable[Minibatch], state: EpochProgress, keeper: Keeper | None
    ) -> None:
        """Learn the minibatches of an epoch.

        Where gradients are merged, all ranks make the same steps: one whose data has ended goes on with empty steps
        until no rank has any. As in the original, where each rank reads its share, the last minibatch that is shown
        has no samples: that last step, or the one with which the share of a rank ends that learns apart.
        """
        pace, merge = state.pace, team.merge_gradients
        place_of, shares = self._places(pace), team.shares(minibatches)
        learned, given = True, state.count
        for read, minibatch in chain(shares, repeat((0, None))) if merge else shares:
            given += 1
            state.own_read += read
            if minibatch is None and not merge:
                continue
            team.doing(f"minibatch {state.count + 1} of epoch {pace.epoch + 1}")
            learned = minibatch is not None and has_frames(minibatch)
            if merge or learned:
                total = self._step(
                    team, minibatch if learned else None, place_of(state.count, minibatch), state, keeper
                )
            else:
                total = StepCounts(0, {}, read=0 if minibatch is None else minibatch.samples)
            over = merge and total.is_end
            if not over or team.distributed:
                state.done(total.counted, total.read)
            if merge:
                team.compare(self.store, state.count, pace.epoch)
            if over or state.is_over:
                break
            if merge or learned:
                self._save_if_due(team, total.flags, state, keeper, is_known=given == state.count)
            if keeper is None or not team.strategy.reduces_gradients:
                self.stop.obey(state.place)
        if not merge and team.distributed and learned:
            state.done(0, 0)

    def _step(
        self, team: Ranks, minibatch: Minibatch | None, place: StepPlace, state: EpochProgress, keeper: Keeper | None
    ) -> StepCounts:
        """Make a step; rank 0 decides when to save, and any may be told to end: others hear of it with the counts."""
        pace, merge = state.pace, team.merge_gradients
        flags: tuple[float, ...] = ()
        if self.check is not None and minibatch is not None and not pace.trial:
            self.check.check(minibatch, pace.epoch, state.count)
        if merge:
            due = keeper is not None and team.is_main and keeper.is_due(state.read)
            flags = (float(due), float(self.stop.asked))
        return self.stepper.learn(minibatch, place, state.sums, team.strategy, merge=merge, flags=flags)

    def step(self, minibatch: Minibatch, pace: Pace, index: int) -> None:
        """Learn a minibatch, the one with this index in its epoch, without other ranks."""
        self.stepper.learn_alone(minibatch, self._places(pace)(index, minibatch))

    def _places(self, pace: Pace) -> Callable[[int, Minibatch | None], StepPlace]:
        """Return what gives the place of a minibatch with an index in its epoch."""
        learns = pace.rate > 0.01 * self.settings.min_learning_rate_per_sample
        rates = (Rates(pace.rate, self.settings.momentum(pace.epoch)),)
        parts = self.settings.parts(pace.minibatch_size)

        def truncated(index: int, minibatch: Minibatch | None) -> StepPlace:
            if minibatch is not None and has_frames(minibatch):
                self.rows = self.stepper.sizes.rows(minibatch)
            rates = (Rates(pace.rate, self.settings.momentum(pace.epoch, self.rows)),)
            return StepPlace(pace.epoch, index, rates, parts, learns)

        if self.settings.truncated:
            return truncated
        return lambda index, minibatch: StepPlace(pace.epoch, index, rates, parts, learns)

    def _save_if_due(
        self, team: Ranks, flags: Sequence[float], state: EpochProgress, keeper: Keeper | None, *, is_known: bool
    ) -> None:
        """Save where all ranks are at the same place, if that is due, and end if one of them was told to.

        Args:
            team: those that learn together.
            flags: sums of ``due`` and of ``asked`` over all ranks, if they came with the gradients.
            state: of the epoch.
            keeper: saves; None if nobody does.
            is_known: the count of minibatches says where this rank's reader is. It must do so on all ranks.
        """
        if keeper is None:
            return
        if not team.strategy.reduces_gradients:
            if not team.strategy.has_met:
                return
            due = self.ranks.is_main and keeper.is_due(state.read)
            *flags, unknown = self.ranks.add([due, self.stop.asked, not is_known])
            if unknown:
                return
        if any(flags):
            self._save(flags[1] > 0, state, keeper)

    def _save(self, asked: bool, state: EpochProgress, keeper: Keeper) -> None:
        """Save on all ranks; if one of them was asked to end, all do.

        Raises:
            Stopped: a rank was told to end.
            RankGone: another one was, and this one goes on without it.
        """
        # Counts that were on their way when training was saved tell of a request to an earlier run.
        own = np.array([self.stop.number if self.stop.asked else 0])
        communicator = self.ranks.communicator
        told = [int(one[0]) for one in communicator.allgather(own)] if asked else []
        saved = keeper.keep(state.position())
        if any(told):
            if communicator.is_elastic and not told[communicator.rank]:
                rank, number = next((rank, number) for rank, number in enumerate(told) if number)
                raise RankGone(f"rank {rank} was told to end ({Signals(number).name}), and has")
            raise stopped_together(told, state.place, saved=saved)

    def _end(self, team: Ranks, state: EpochProgress) -> None:
        """Bring the ranks together at the end of an epoch; what they learned apart is added up.

        The log lines of minibatches are then those of rank 0 or its group; the sums of the epoch are of all ranks.
        """
        pace, sums = state.pace, state.sums
        team.doing(f"the end of epoch {pace.epoch + 1}")
        team.strategy.sync(self.store, StepCounts(0, {}, learning_rate=pace.rate), epoch_end=True)
        if not team.strategy.reduces_gradients:
            sums.read()
            own = [state.read, sums.samples, *sums.fetched.values()]
            all_read, all_counted, *totals = team.add_up(own)
            state.read = round(all_read)
            sums.restore(dict(zip(sums.names, totals, strict=True)), round(all_counted))
            if team.settings.check_every:
                team.check_parameters(self.store, f"after epoch {pace.epoch + 1}")
        team.share_statistics(self.store)


def _after(minibatches: Iterable[Minibatch], position: Position) -> Iterator[Minibatch]:
    """Yield the minibatches after a position. Every reader can do it; some leave out the streams of those before.

    Then minibatches may be among them that were not learned, since nothing of them could be read: their samples were
    counted in the next ones.
    """
    read = count = 0
    streams: object = None
    rest = iter(minibatches)
    while count < position.minibatches or (read < position.read and not streams):
        minibatch = next(rest, None)
        if minibatch is None:
            break
        read, count, streams = read + minibatch.samples, count + 1, minibatch.streams
    if read != position.read:
        raise DataError(
            f"the data are not those of the checkpoint: it had read {position.read} samples of the epoch in "
            f"{position.minibatches} minibatches, now these have {read}",
            hint="Give the data that training began with, or remove the checkpoints inside the epoch "
            "(MODEL.n.m.ckp) to begin the epoch again.",
        )
    yield from rest
