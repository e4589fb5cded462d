"""When pushes are applied, in which order, and who may go on: asynchronous, bounded staleness, simulated time."""

from __future__ import annotations

import attrs

from cntk_parallel_asgd.shard import Array, Push, Shard


@attrs.frozen(eq=False)
class Answer:
    """What the server sends to a worker.

    Attributes:
        worker: its rank.
        values: the parameters of this part.
        time: simulated seconds at which it is sent.
    """

    worker: int
    values: Array
    time: float


class Server:
    """One rank's part of the server, for one epoch.

    All parts get the same pushes. With simulated time they see them in the same order: the earliest is applied when
    every worker has either sent its next one, waits, or has ended, so that none can come before it.

    With staleness 0 the pushes of a round are applied together, in the order of ranks, when all are there. With a bound
    above that they are applied as they come, and a worker that is too far ahead waits for its answer.

    Args:
        shard: the parameters.
        workers: how many there are.
        staleness: pushes that a worker may be ahead of the slowest; None for any number.
        in_time: pushes have simulated times.
    """

    def __init__(self, shard: Shard, workers: int, staleness: int | None, *, in_time: bool = False) -> None:
        self.shard = shard
        self._workers = workers
        self._bound = staleness
        self._in_time = in_time
        self._running = set(range(workers))
        self._active = set(range(workers))
        self._queue: list[Push] = []
        self._round: list[Push] = []
        self._pushes = [0] * workers
        self._waiting: dict[int, float] = {}

    def arrive(self, push: Push) -> list[Answer]:
        """Take a push; return the answers that can be given now."""
        self._queue.append(push)
        self._running.discard(push.worker)
        answers: list[Answer] = []
        while (following := self._next()) is not None:
            answers += self._take(following)
        return answers

    def _next(self) -> Push | None:
        if not self._queue or (self._in_time and self._running):
            return None
        if self._in_time:
            self._queue.sort(key=lambda push: (push.time, push.worker))
        return self._queue.pop(0)

    def _take(self, push: Push) -> list[Answer]:
        self._pushes[push.worker] += 1
        self._waiting[push.worker] = push.time
        if push.ends:
            self._active.discard(push.worker)
        if self._bound == 0:
            self._round.append(push)
            if len(self._waiting) == self._workers:
                self._apply_round()
        else:
            self.shard.apply(push)
        return self._release(push.time)

    def _apply_round(self) -> None:
        for push in sorted(self._round, key=lambda push: push.worker):
            self.shard.apply(push)
        self._round.clear()

    def _release(self, now: float) -> list[Answer]:
        """Answer those that wait and need not any more. Workers that have ended wait for all others to end."""
        if not self._active:
            free = sorted(self._waiting)
        else:
            slowest = min(self._pushes[worker] for worker in self._active)
            free = [worker for worker in sorted(self._waiting) if self._may_go_on(worker, slowest)]
        self._running.update(free)
        return [Answer(worker, self.shard.read(worker), max(now, self._waiting.pop(worker))) for worker in free]

    def _may_go_on(self, worker: int, slowest: int) -> bool:
        return worker in self._active and (self._bound is None or self._pushes[worker] - slowest <= self._bound)
