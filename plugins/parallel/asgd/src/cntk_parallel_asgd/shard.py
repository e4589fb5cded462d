"""One rank's part of the server: parameters, what each worker has read of them, and the rule of an update."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

EPSILON = 1e-7
"""Added to the mean square of gradients, as in the paper on delay compensation."""

DEFAULT_LAMBDAS = {"constant": 0.04, "adaptive": 2.0}
"""Those of the paper's experiments on CIFAR-10."""


@attrs.frozen(eq=False)
class Push:
    """What a worker sends to one part of the server.

    Attributes:
        worker: its rank.
        values: what the parameters of this part would be if only this worker had learned.
        rate: sum over the worker's steps of the rate per sample times the samples: the rate of the mean gradient.
        ends: the worker has no more data in this epoch.
        time: simulated seconds at which it arrives; 0 without simulated time.
    """

    worker: int
    values: Array
    rate: float = 0.0
    ends: bool = False
    time: float = 0.0


class Compensation(ABC):
    """Mends updates whose gradients are those of an older model (S. Zheng et al., ICML 2017, DC-ASGD)."""

    @abstractmethod
    def step(self, update: Array, drift: Array, rate: float) -> Array | None:
        """Return what is subtracted beside the update; None for nothing.

        Args:
            update: rate times gradient, to be subtracted.
            drift: parameters now, less those of which the gradient is.
            rate: that the update was made with.
        """

    @property
    def memory(self) -> Array | None:
        """What it remembers from push to push, one number for each parameter, to be read and overwritten."""
        return None


class NoCompensation(Compensation):
    """Plain asynchronous SGD."""

    def step(self, update: Array, drift: Array, rate: float) -> Array | None:
        """Nothing."""
        return None


class ConstantCompensation(Compensation):
    """rate * lambda * g * g * (w_now - w_read), with one lambda for all."""

    def __init__(self, strength: float) -> None:
        self._lambda = strength

    def step(self, update: Array, drift: Array, rate: float) -> Array | None:
        """The formula, with g = update / rate."""
        if rate <= 0.0:
            return None
        step: Array = update * update * drift
        step *= update.dtype.type(self._lambda / rate)
        return step


class AdaptiveCompensation(Compensation):
    """As with a constant lambda, divided by the root of a moving mean of g * g, for each parameter."""

    def __init__(self, strength: float, decay: float, size: int, dtype: Any) -> None:
        self._lambda = strength
        self._decay = decay
        self._mean_square: Array = np.zeros(size, dtype)

    def step(self, update: Array, drift: Array, rate: float) -> Array | None:
        """The formula, after this gradient is in the mean."""
        if rate <= 0.0:
            return None
        kind = update.dtype.type
        squares: Array = np.square(update * kind(1.0 / rate))
        self._mean_square *= kind(self._decay)
        self._mean_square += kind(1.0 - self._decay) * squares
        squares *= drift
        squares *= kind(rate * self._lambda)
        squares /= np.sqrt(self._mean_square + kind(EPSILON))
        return squares

    @property
    def memory(self) -> Array:
        """The mean square."""
        return self._mean_square


@attrs.define(eq=False)
class _Read:
    version: int
    values: Array


class Shard:
    """Parameters of one part, and those that each worker has read.

    Args:
        values: first values; they are copied.
        workers: how many there are.
        compensation: what is done about delay.
        reads: answers of the server between one that a worker begins a period with and the push of this period: 1, or
            2 with a pipeline.

    Attributes:
        values: of now.
        version: number of pushes that they have.
        staleness: for each push, how many others came between its read and itself, as (sum, greatest).
    """

    def __init__(self, values: Array, workers: int, compensation: Compensation, reads: int = 1) -> None:
        self.values = values.copy()
        self.version = 0
        self.staleness = (0, 0)
        self._compensation = compensation
        first = _Read(0, values.copy())
        self._reads = [deque([first] * reads) for _ in range(workers)]

    def apply(self, push: Push) -> None:
        """Add what a worker has learned to the values of now.

        A worker's values are put in place of those that it read where these are still there: one worker alone makes
        the same model as serial training, to the last bit.

        A training that diverges is noticed by its criterion, so numbers that are too large are no warnings here.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            self._apply(push)

    def _apply(self, push: Push) -> None:
        read = self._reads[push.worker].popleft()
        behind = self.version - read.version
        total, greatest = self.staleness
        self.staleness = (total + behind, max(greatest, behind))
        drift = self.values - read.values
        extra = self._compensation.step(read.values - push.values, drift, push.rate)
        np.add(push.values, drift, out=self.values)
        if extra is not None:
            self.values -= extra
        self.version += 1

    def read(self, worker: int) -> Array:
        """Note that a worker gets the values of now, and return a copy."""
        values = self.values.copy()
        self._reads[worker].append(_Read(self.version, values))
        return values
