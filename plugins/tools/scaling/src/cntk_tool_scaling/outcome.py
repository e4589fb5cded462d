"""What a simulation gives: a row of a table for each number of ranks."""

from __future__ import annotations

import math

import attrs


@attrs.frozen
class Failures:
    """How often ranks fail, and what that costs.

    Attributes:
        mtbf: mean time between two failures of a rank, in seconds; ``inf`` for none.
        every: seconds between two checkpoints.
        writing: seconds in which one is written.
        restart: seconds from a failure until training goes on from the last checkpoint.
    """

    mtbf: float = math.inf
    every: float = 600.0
    writing: float = 0.0
    restart: float = 60.0

    def useful(self, ranks: int) -> float:
        """Return the part of the time in which ranks make progress that is not lost.

        Failures of each rank are a Poisson process, and one failure sends all ranks back to the last checkpoint. With
        l the failures of all ranks per second, R the restart and t the time between two checkpoints, writing included,
        it takes (1 / l + R) (exp(l t) - 1) seconds to get from one checkpoint to the next (J. Daly, A higher order
        estimate of the optimum checkpoint interval, 2006).
        """
        if math.isinf(self.mtbf):
            return self.every / (self.every + self.writing)
        rate = ranks / self.mtbf
        # With so many failures that nothing is ever finished the exponential is too large for a number.
        exponent = min(rate * (self.every + self.writing), 700.0)
        return self.every / ((1 / rate + self.restart) * math.expm1(exponent))


@attrs.frozen
class Outcome:
    """A simulated training. Parts of times, and bytes, are those of one minibatch, the mean of the ranks.

    Attributes:
        method: its title.
        ranks: how many.
        minibatch: samples, of all ranks together.
        serial: seconds of one rank that trains alone.
        seconds: from one minibatch to the next; where ranks differ, those after which all have done one on average.
        computing, communicating, waiting: what a rank does in its minibatch.
        sent: bytes that a rank sends.
        useful: the part of the time that failures leave.
        share: of the values of the model with which the code really ran; 1 for the whole model.
    """

    method: str
    ranks: int
    minibatch: int
    serial: float
    seconds: float
    computing: float
    communicating: float
    waiting: float
    sent: float
    useful: float = 1.0
    share: float = 1.0

    @property
    def speedup(self) -> float:
        """How many times faster than one rank."""
        return self.serial / self.seconds * self.useful

    @property
    def efficiency(self) -> float:
        """Speed-up by ranks."""
        return self.speedup / self.ranks


_HEAD = (
    f"{'ranks':>6} {'minibatch':>10} {'ms/mb':>10} {'computing':>10} {'sending':>10} {'waiting':>10} "
    f"{'sent/mb':>10} {'samples/s':>11} {'speed-up':>9} {'efficiency':>10}"
)


def head(method: str) -> str:
    """Return the lines above the rows of a method."""
    return f"\n{method}\n{_HEAD}"


def row(one: Outcome) -> str:
    """Return an outcome as a line."""
    return (
        f"{one.ranks:6} {one.minibatch:10} {1e3 * one.seconds:10.4g} {1e3 * one.computing:10.4g} "
        f"{_ms(one.communicating):10.4g} {_ms(one.waiting):10.4g} {amount(one.sent):>10} "
        f"{one.minibatch / one.seconds * one.useful:11.5g} {one.speedup:9.2f} {one.efficiency:10.1%}"
    )


def _ms(seconds: float) -> float:
    """Return milliseconds; what is left of differences of clocks is nothing."""
    return round(1e3 * seconds, 7)


def amount(size: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.4g} {unit}"
        size /= 1000
    raise AssertionError
