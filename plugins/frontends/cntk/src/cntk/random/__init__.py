"""Random values."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk._inherited import inherit
from cntk.default_options import default_override_or, get_default_override
from cntk.initializer import SentinelValueForAutoSelectRandomSeed
from cntk.internal import sanitize_random_args
from cntk.ops._making import chosen_seed, made, one
from cntk.ops._making import shape as shape_of
from cntk.ops.functions import Function

_SINGLE = default_override_or(np.float32)
_AUTO = SentinelValueForAutoSelectRandomSeed


def _drawn(kind: str, shape: Any, dtype: Any, arguments: list[float], seed: int, name: str) -> Function:
    dims, typed = sanitize_random_args(shape, get_default_override(_drawn, dtype=dtype))
    made_ = made("RandomDistribution", name=name, newShape=shape_of(dims), newDataType=1 if typed == np.float32 else 2,
                 randomDistributionType=kind, randomDistributionArgs=[float(each) for each in arguments],
                 rngSeed=chosen_seed(seed))  # fmt: skip
    made_._primitive.outputs[0]._dtype = typed
    return made_


def _like(kind: str, x: Any, arguments: list[float], seed: int, name: str) -> Function:
    return made("RandomDistribution", one(x), name=name, randomDistributionType=kind,
                randomDistributionArgs=[float(each) for each in arguments], rngSeed=chosen_seed(seed))  # fmt: skip


def uniform(shape: Any, dtype: Any = _SINGLE, low: float = 0.0, high: float = 1.0, seed: int = _AUTO, name: str = "") -> Function:  # fmt: skip  # noqa: E501
    """Uniform random numbers between ``low`` and ``high``, of a shape, for the whole minibatch."""
    return _drawn("uniform", shape, dtype, [low, high], seed, name)


def uniform_like(x: Any, low: float = 0.0, high: float = 1.0, seed: int = _AUTO, name: str = "") -> Function:
    """Uniform random numbers between ``low`` and ``high`` in the shape of an operand."""
    return _like("uniform", x, [low, high], seed, name)


def normal(shape: Any, dtype: Any = _SINGLE, mean: float = 0.0, scale: float = 1.0, seed: int = _AUTO, name: str = "") -> Function:  # fmt: skip  # noqa: E501
    """Gaussian random numbers of a mean and a standard deviation, of a shape, for the whole minibatch."""
    return _drawn("normal", shape, dtype, [mean, scale], seed, name)


def normal_like(x: Any, mean: float = 0.0, scale: float = 1.0, seed: int = _AUTO, name: str = "") -> Function:
    """Gaussian random numbers of a mean and a standard deviation in the shape of an operand."""
    return _like("normal", x, [mean, scale], seed, name)


def gumbel(shape: Any, dtype: Any = _SINGLE, loc: float = 0.0, scale: float = 1.0, seed: int = _AUTO, name: str = "") -> Function:  # fmt: skip  # noqa: E501
    """Random numbers ``loc - scale * log(-log(u))``, of a shape, for the whole minibatch."""
    return _drawn("gumbel", shape, dtype, [loc, scale], seed, name)


def gumbel_like(x: Any, loc: float = 0.0, scale: float = 1.0, seed: int = _AUTO, name: str = "") -> Function:
    """Random numbers ``loc - scale * log(-log(u))`` in the shape of an operand."""
    return _like("gumbel", x, [loc, scale], seed, name)


def bernoulli(shape: Any, dtype: Any = _SINGLE, mean: float = 0.5, seed: int = _AUTO, name: str = "") -> Function:
    """1 with a probability, else 0, of a shape, for the whole minibatch."""
    return _drawn("bernoulli", shape, dtype, [mean], seed, name)


def bernoulli_like(x: Any, mean: float = 0.5, seed: int = _AUTO, name: str = "") -> Function:
    """1 with a probability, else 0, in the shape of an operand."""
    return _like("bernoulli", x, [mean], seed, name)


inherit(__name__)
