"""Operators with random numbers."""

from __future__ import annotations

from typing import Any

from cntk.initializer import SentinelValueForAutoSelectRandomSeed
from cntk.ops._making import chosen_seed, made, one, size
from cntk.ops.functions import Function


def dropout(
    x: Any, dropout_rate: float = 0.0, seed: int = SentinelValueForAutoSelectRandomSeed, name: str = ""
) -> Function:
    """In training, set elements to 0 with a probability, and divide the others by 1 minus it.

    Raises:
        ValueError: the rate is not between 0 and 1.
    """
    if not 0.0 <= dropout_rate < 1.0:
        raise ValueError("dropout_rate must be in the interval [0,1)")
    return made("Dropout", one(x), name=name, dropoutRate=float(dropout_rate), rngSeed=chosen_seed(seed),
                rngOffset=size(0))  # fmt: skip


def random_sample(
    weights: Any,
    num_samples: int,
    allow_duplicates: bool,
    seed: int = SentinelValueForAutoSelectRandomSeed,
    name: str = "",
) -> Function:
    """Draw classes with probabilities in proportion to weights: a matrix of one-hot rows for the whole minibatch."""
    return made("RandomSample", one(weights), name=name, numSamples=size(num_samples),
                allowDuplicates=allow_duplicates, rngSeed=chosen_seed(seed))  # fmt: skip


def random_sample_inclusion_frequency(
    weights: Any,
    num_samples: int,
    allow_duplicates: bool,
    seed: int = SentinelValueForAutoSelectRandomSeed,
    name: str = "",
) -> Function:
    """How often each class is expected among those that :func:`random_sample` draws."""
    return made("RandomSampleInclusionFrequency", one(weights), name=name, numSamples=size(num_samples),
                allowDuplicates=allow_duplicates, rngSeed=chosen_seed(seed))  # fmt: skip


__all__ = [
    "dropout",
    "random_sample",
    "random_sample_inclusion_frequency",
]
