"""The minibatch loop of an epoch that several ranks train."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from signal import Signals
from typing import TYPE_CHECKING

import attrs
import numpy as np

from cntk_core.contract.parallel import StepCounts
from cntk_core.errors import RankGone
from cntk_core.records.minibatch import Minibatch
from cntk_core.training.loop.epoch_progress import Pace, Running
from cntk_core.training.loop.ranks import Ranks
from cntk_core.training.loop.stop_request import stopped_together

if TYPE_CHECKING:
    from cntk_core.training.loop.epoch import EpochLoop, Keeper


def learn_together(
    loop: EpochLoop, ranks: Ranks, minibatches: Iterable[Minibatch], state: Running, pace: Pace, keeper: Keeper | None
) -> None:
    """Train an epoch with a gradient scheme: all ranks make the same steps."""
    _make_steps(loop, ranks, minibatches, state, pace, keeper)
    ranks.strategy.sync(loop.store, StepCounts(0, {}), epoch_end=True)


def _make_steps(
    loop: EpochLoop,
    ranks: Ranks,
    minibatches: Iterable[Minibatch],
    state: Running,
    pace: Pace,
    keeper: Keeper | None,
    meeting: Keeper | None = None,
) -> None:
    """Make the same steps as the other ranks, or as those of the group if the strategy has groups.

    All ranks save with ``keeper``, those of groups with ``meeting``.

    A rank whose data has ended goes on with empty steps until no rank has any. As in the original, that last step is
    shown as a minibatch without samples where each rank reads its share.
    """
    rest = ranks.shares(minibatches)
    over = False
    while not over and not state.is_over:
        ranks.doing(f"minibatch {state.count + 1} of epoch {pace.epoch + 1}")
        read, minibatch = next(rest, (0, None))
        counts = _gradients(loop, minibatch, state, pace)
        due = keeper is not None and ranks.is_main and keeper.is_due(state.read)
        total = ranks.strategy.reduce(loop.store, _with_flags(counts, due, loop.stop.asked))
        _update(loop, total, pace, state.count)
        ranks.strategy.sync(loop.store, total)
        over = total.is_end
        state.sums.put(total.criteria, total.counted)
        if not over or ranks.distributed:
            state.done(total.counted, total.read)
        state.own_read += read
        if ranks.strategy.group is None:
            _check(loop, ranks, state, pace)
        if keeper is None:
            _save_if_met(loop, ranks, state, meeting)
            loop.stop.obey(state.place)
        elif not over:
            save_if_due(loop, ranks, total.flags, state, keeper)


def _save_if_met(
    loop: EpochLoop, ranks: Ranks, state: Running, keeper: Keeper | None, *, is_known: bool = True
) -> None:
    """Save where the models of all ranks have just become one, if that is due.

    Args:
        loop: of this rank.
        ranks: all of them.
        state: of the epoch.
        keeper: saves; None if nobody does.
        is_known: the count of minibatches says where this rank's reader is. It must do so on all ranks.
    """
    if keeper is not None and ranks.strategy.has_met:
        due = ranks.is_main and keeper.is_due(state.read)
        *flags, unknown = ranks.add([due, loop.stop.asked, not is_known])
        if not unknown:
            save_if_due(loop, ranks, flags, state, keeper)


def save_if_due(loop: EpochLoop, ranks: Ranks, flags: Sequence[float], state: Running, keeper: Keeper) -> None:
    """Save on all ranks, and end if one of them was told to.

    Args:
        loop: of this rank.
        ranks: all of them, at the same step.
        flags: sums of ``due`` and of ``asked`` over all ranks.
        state: of the epoch.
        keeper: saves.

    Raises:
        Stopped: a rank was told to end.
        RankGone: another one was, and this one goes on without it.
    """
    if not any(flags):
        return
    # Counts that were on their way when training was saved tell of a request to an earlier run.
    own = np.array([loop.stop.number if loop.stop.asked else 0])
    told = [int(one[0]) for one in ranks.communicator.allgather(own)] if flags[1] else []
    saved = keeper.keep(state.position())
    if any(told):
        if ranks.communicator.is_elastic and not told[ranks.rank]:
            rank, number = next((rank, number) for rank, number in enumerate(told) if number)
            raise RankGone(f"rank {rank} was told to end ({Signals(number).name}), and has")
        raise stopped_together(told, state.place, saved=saved)


def _with_flags(counts: StepCounts, *flags: bool) -> StepCounts:
    """Rank 0 decides when to save, and any rank may be told to end; the others hear of it with the counts."""
    return attrs.evolve(counts, flags=tuple(map(float, flags)))


def _gradients(loop: EpochLoop, minibatch: Minibatch | None, state: Running, pace: Pace) -> StepCounts:
    """Compute the gradients of this rank's share into the store; zeros if it has none."""
    if minibatch is None or not _has_frames(minibatch):
        loop.store.gradients[...] = 0.0
        return StepCounts(0, dict.fromkeys(state.sums.names, 0.0), learning_rate=pace.rate)
    loop.gradients(minibatch, pace)
    return StepCounts(
        loop.sizes.columns(minibatch),
        state.sums.take(),
        loop.sizes.samples(minibatch),
        minibatch.samples,
        learning_rate=pace.rate,
    )


def _update(loop: EpochLoop, total: StepCounts, pace: Pace, index: int) -> None:
    if total.samples and loop.learns(pace):
        loop.update(total.samples, pace, index)
    else:
        loop.store.forget_gradients(loop.program.plan.sparse)


def _check(loop: EpochLoop, ranks: Ranks, state: Running, pace: Pace) -> None:
    every = ranks.settings.check_every
    if every and state.count and state.count % every == 0:
        ranks.check_parameters(loop.store, f"after minibatch {state.count} of epoch {pace.epoch + 1}")


def learn_apart(
    loop: EpochLoop, ranks: Ranks, minibatches: Iterable[Minibatch], state: Running, pace: Pace, keeper: Keeper | None
) -> None:
    """Train an epoch with a model scheme: the strategy brings together what ranks, or groups of them, learn alone.

    The log lines of minibatches are those of rank 0 or its group; the sums of the epoch are of all ranks.
    """
    group = ranks.strategy.group
    if group is None:
        _learn_alone(loop, ranks, minibatches, state, pace, keeper)
    else:
        _make_steps(loop, ranks, minibatches, state, pace, None, keeper)
    ranks.doing(f"the end of epoch {pace.epoch + 1}")
    ranks.strategy.sync(loop.store, StepCounts(0, {}, learning_rate=pace.rate), epoch_end=True)
    names, sums = state.sums.names, state.sums.read()
    own = [state.read, state.sums.samples, *(sums[name].total for name in names)]
    # All ranks of a group have the same sums.
    all_read, all_counted, *totals = ranks.add(own if group is None or group.rank == 0 else [0] * len(own))
    state.read = round(all_read)
    state.sums.restore(dict(zip(names, totals, strict=True)), round(all_counted))
    if ranks.settings.check_every:
        ranks.check_parameters(loop.store, f"after epoch {pace.epoch + 1}")


def _learn_alone(
    loop: EpochLoop, ranks: Ranks, minibatches: Iterable[Minibatch], state: Running, pace: Pace, keeper: Keeper | None
) -> None:
    """Learn the share of this rank.

    A share may have minibatches without samples. As in the original, the last one is shown, even where the reader
    gives none.
    """
    learned, given = True, state.count
    for read, minibatch in ranks.shares(minibatches):
        given += 1
        state.own_read += read
        if minibatch is None:
            continue
        ranks.doing(f"minibatch {state.count + 1} of epoch {pace.epoch + 1}")
        learned = _has_frames(minibatch)
        counted = _learn_one(loop, minibatch, state, pace, ranks) if learned else 0
        state.done(counted, minibatch.samples)
        if state.is_over:
            break
        if learned:
            _save_if_met(loop, ranks, state, keeper, is_known=given == state.count)
        loop.stop.obey(state.place)
    if ranks.distributed and learned:
        state.done(0, 0)


def _learn_one(loop: EpochLoop, minibatch: Minibatch, state: Running, pace: Pace, ranks: Ranks) -> int:
    loop.step(minibatch, pace, state.count)
    counted = loop.sizes.samples(minibatch)
    state.sums.add(counted)
    counts = StepCounts(loop.sizes.columns(minibatch), {}, counted, minibatch.samples, learning_rate=pace.rate)
    ranks.strategy.sync(loop.store, counts)
    return counted


def _has_frames(minibatch: Minibatch) -> bool:
    return any(data.layout.frames for data in minibatch.streams.values())


def share_statistics(ranks: Ranks, loop: EpochLoop) -> None:
    """Give all ranks what rank 0 has in parameters that are not learned, such as running means.

    Each rank counts them over its own share while it trains; a model has those of rank 0, as in the original.
    """
    size = loop.store.learned_size
    if size < loop.store.size:
        statistics = np.ascontiguousarray(loop.store.values[size:])
        ranks.communicator.broadcast(statistics)
        loop.store.values[size:] = statistics
