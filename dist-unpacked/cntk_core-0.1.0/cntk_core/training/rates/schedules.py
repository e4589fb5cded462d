"""Units of learning rate and momentum: all of them become per-sample values.

A minibatch has N samples. ``m`` is a momentum per sample; its effect on a minibatch is ``m ** N``, for the real N of a
partial minibatch too.
"""

from __future__ import annotations

import math
import struct


def per_sample_rate(rate: float, minibatch_size: int) -> float:
    """Learning rate per sample of one that is given for a minibatch of the configured size."""
    return rate / minibatch_size


def momentum_per_sample(momentum: float, minibatch_size: int) -> float:
    """Momentum per sample of one that is given for a minibatch of the configured size."""
    return float(momentum ** (1.0 / minibatch_size))


def momentum_of_time_constant(time_constant: float) -> float:
    """Momentum per sample of a time constant in samples: ``exp(-1 / T)``; 0 means no momentum.

    Rounded to single precision as in the original, whose figures would differ in the seventh digit otherwise.
    """
    exact = math.exp(-1.0 / time_constant) if time_constant > 0 else 0.0
    rounded = float(struct.unpack("f", struct.pack("f", exact))[0])
    return rounded if rounded < 1.0 else exact  # a momentum of 1 would learn nothing


def time_constant(momentum: float) -> float:
    """Samples after which a contribution has shrunk to 1/e: ``-1 / log(m)``; 0 without momentum."""
    return -1.0 / math.log(momentum) if 0.0 < momentum < 1.0 else 0.0


def effective_momentum(momentum: float, samples: int) -> float:
    """Momentum of a minibatch of this many samples, ``m ** N``."""
    return float(momentum**samples)
