"""When messages leave, travel and arrive: links that carry one message at a time.

A message goes through up to four queues, each of which serves one after the other: the processor of the sender, the
outgoing direction of its host's link, the incoming direction of the receiver's, and the receiver's processor.
A message begins to come in while it still goes out, so over a free network it takes latency + bytes / bandwidth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cntk_core.api.parallel import NetworkModel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def serve(queue: Ints, arrival: Floats, service: Floats, free: Floats) -> Floats:
    """Return when each of some jobs is done; a queue serves its jobs in the order in which they arrive.

    Args:
        queue: of each job.
        arrival: of each job; jobs that arrive together are served in the order in which they stand here.
        service: seconds that a job takes.
        free: since when each queue is free; it is changed to the time when it will be.
    """
    if not len(queue):
        return arrival.copy()
    order = np.lexsort((arrival, queue))
    queues, times, done = queue[order], np.maximum(arrival, free[queue])[order], np.empty(len(queue))
    before = np.cumsum(service[order]) - service[order]
    # The end of job i is the greatest, over jobs j up to it in its queue, of (arrival j + services j..i).
    lead = times - before
    # Far apart enough that no queue reaches into the next one.
    apart = (lead.max() - lead.min() + 1.0) * (queues - queues[0])
    done[order] = np.maximum.accumulate(lead + apart) - apart + before + service[order]
    np.maximum.at(free, queue, done)
    return done


class Links:
    """The links of all hosts, and when they are free.

    Args:
        model: of the network.
        ranks: how many there are.
    """

    def __init__(self, model: NetworkModel, ranks: int) -> None:
        self.model = model
        self.host: Ints = np.arange(ranks) // max(1, model.ranks_per_host)
        hosts = int(self.host[-1]) + 1
        self.out_free, self.in_free = np.zeros(hosts), np.zeros(hosts)

    # -- one message --------------------------------------------------------------------------------------

    def leave(self, source: int, to: int, size: float, now: float) -> float:
        """Let a message leave; return when its first byte arrives at the receiver's host."""
        if self.host[source] == self.host[to]:
            return now + self.model.local_latency
        host = self.host[source]
        begin = max(now, float(self.out_free[host]))
        self.out_free[host] = begin + size / self.model.bandwidth
        return begin + self.model.latency

    def land(self, source: int, to: int, size: float, now: float) -> float:
        """Let a message come in whose first byte is there now; return when it is there as a whole."""
        if self.host[source] == self.host[to]:
            return now + size / self.model.local_bandwidth
        host = self.host[to]
        end = max(now, float(self.in_free[host])) + size / self.model.bandwidth
        self.in_free[host] = end
        return end

    # -- many messages at once ----------------------------------------------------------------------------

    def exchange(self, members: Ints, ready: Floats, sizes: Floats) -> Floats:
        """Return when each of some ranks has sent a message to all others of them and received theirs.

        As real communicators do it, a rank sends to the one after it first.

        Args:
            members: their numbers among all.
            ready: when each of them begins.
            sizes: bytes, as (members,) if a rank sends the same to all, else as (sender, receiver).
        """
        count = len(members)
        if count == 1:
            return ready.copy()
        step = np.arange(1, count)
        sender = np.repeat(np.arange(count), count - 1)
        receiver = ((np.arange(count)[:, None] + step) % count).reshape(-1)
        size = sizes[sender] if sizes.ndim == 1 else sizes[sender, receiver]
        turn = np.tile(step, count)
        return self._deliver(members, ready, sender, receiver, size, turn)

    def _deliver(self, members: Ints, ready: Floats, sender: Ints, receiver: Ints, size: Floats, turn: Ints) -> Floats:
        model, done, busy = self.model, ready.copy(), ready.copy()
        posted = ready[sender] + turn * model.overhead
        source, to = self.host[members[sender]], self.host[members[receiver]]
        inside = source == to
        arrived = np.empty(len(sender))
        arrived[inside] = posted[inside] + model.local_latency + size[inside] / model.local_bandwidth
        out = ~inside
        if out.any():
            service = size[out] / model.bandwidth
            left = serve(source[out], posted[out], service, self.out_free)
            np.maximum.at(done, sender[out], left)
            arrived[out] = serve(to[out], left - service + model.latency, service, self.in_free)
        np.maximum.at(busy, sender, posted)
        taken = serve(receiver, arrived, np.full(len(sender), model.overhead), busy)
        np.maximum.at(done, receiver, taken)
        return done

    def tree(self, members: Ints, ready: Floats, size: float, root: int) -> Floats:
        """Return when each of some ranks has what one of them sends down a binomial tree."""
        count, done = len(members), ready.copy()
        reach = 1
        while reach < count:
            for place in range(reach, min(2 * reach, count)):
                sender, receiver = (place - reach + root) % count, (place + root) % count
                source, to = int(members[sender]), int(members[receiver])
                done[sender] += self.model.overhead
                head = self.leave(source, to, size, float(done[sender]))
                arrived = self.land(source, to, size, head)
                done[receiver] = max(float(done[receiver]), arrived) + self.model.overhead
            reach *= 2
        return done
