"""The simulated clock of a worker."""

from __future__ import annotations

import numpy as np

from cntk_parallel_asgd.options import SimulatedTime


class WorkerClock:
    """Adds up simulated durations of minibatches. They depend on the seed, the rank and how many there were before.

    Args:
        settings: how long things take.
        rank: of the worker.

    Attributes:
        now: simulated seconds since the beginning.
        steps: minibatches so far.
    """

    def __init__(self, settings: SimulatedTime, rank: int) -> None:
        self._settings = settings
        self._rank = rank
        self._slowness = settings.slowness[min(rank, len(settings.slowness) - 1)]
        self.now = 0.0
        self.steps = 0

    def learn(self, samples: int) -> None:
        """Let the time of a minibatch pass."""
        random = np.random.default_rng([self._settings.seed, self._rank, self.steps])
        self.steps += 1
        factor = float(np.exp(self._settings.jitter * random.standard_normal()))
        self.now += samples * self._settings.seconds_per_sample * self._slowness * factor

    def arrival(self) -> float:
        """When a message arrives that is sent now."""
        return self.now + self._settings.latency

    def hear(self, sent: float) -> None:
        """Go on not earlier than an answer is here that was sent at some time."""
        self.now = max(self.now, sent + self._settings.latency)
