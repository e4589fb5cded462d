"""How parameters get their first values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat
from typing import Any

import attrs
import numpy as np
from cntk_model_cntk2.values import SizeT
from numpy.typing import NDArray

from cntk._inherited import inherit

DefaultParamInitScale = 1
SentinelValueForInferParamInitRank = 2**31 - 1
SentinelValueForAutoSelectRandomSeed = 2**64 - 3

_WORDS = {"uniform": "uniform1", "truncated_normal": "truncNormal", "glorot_uniform": "glorotUniform",
          "glorot_normal": "glorotNormal", "he_uniform": "heUniform", "he_normal": "heNormal"}  # fmt: skip
_CERTAIN = {"constant", "bilinear"}


@attrs.frozen
class Initial:
    """A rule for the first values of a parameter.

    Attributes:
        kind: the name of the function of this module that makes it.
        scale: factor.
        output_rank: how many of the last axes of the shape are outputs; None for what the rule takes.
        filter_rank: how many axes are a filter.
        seed: of random numbers; None draws one from those of the program.
        value: of a constant.
        kernel: width and height of a bilinear filter.
    """

    kind: str
    scale: float = 1.0
    output_rank: int | None = None
    filter_rank: int | None = None
    seed: int | None = None
    value: float = 0.0
    kernel: tuple[int, int] | None = None

    def values(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return values of a shape (NumPy's order).

        Raises:
            CntkError: there are none of such a shape.
        """
        if self.kind == "constant":
            return np.full(shape, self.value, dtype)
        from cntk_core.api.builders import initializer

        seed = next_seed() if self.seed is None else self.seed
        made = initializer(
            _WORDS.get(self.kind, self.kind),
            scale=float(self.scale),
            kernel=self.kernel,
            filter_rank=self.filter_rank or 0,
            output_rank=1 if self.output_rank is None else self.output_rank,
        )
        # Half precision is that of values as they are kept; random numbers are drawn in single precision.
        wide = np.dtype(np.float32 if dtype == np.float16 else dtype)
        return np.asarray(made(shape, wide, seed), dtype)

    def seeded(self) -> Initial:
        """Return the rule with a seed: the next one of the program, if it needs one and has none."""
        drawn = self.seed is None and self.kind not in _CERTAIN
        return attrs.evolve(self, seed=next_seed()) if drawn else self


class OwnSeed(SizeT):
    """A seed that neither a function nor the program was given, so that no other program has to draw the same."""


def reset_seeds(first: int) -> None:
    """Let the seeds that nobody gives begin at a number."""
    _SEEDS[0] = map(SizeT, count(first))


def fix_seed(seed: int) -> None:
    """Let a number be the seed of all to which nobody gives one."""
    _SEEDS[0] = repeat(SizeT(seed))


_SEEDS: list[Iterator[SizeT]] = [map(OwnSeed, count(0))]


def next_seed() -> SizeT:
    """Return a seed that nobody gave."""
    return next(_SEEDS[0])


def first_value(value: Any) -> tuple[Initial | None, NDArray[Any] | None]:
    """Return the rule or the array of what a parameter is to begin with.

    Raises:
        ValueError: it is neither a number, an array nor an initializer.
    """
    if isinstance(value, Initial):
        return value, None
    from cntk.core import plain_array

    try:
        array = plain_array(value)
    except (TypeError, ValueError):
        array = np.array(None)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"a first value is a number, an array or an initializer, not {value!r}")
    return None, array


def _rank(number: int | None) -> int | None:
    return None if number == SentinelValueForInferParamInitRank else number


def _seeded(kind: str, scale: float, output_rank: int | None, filter_rank: int | None, seed: int | None) -> Initial:
    if scale <= 0:
        raise ValueError(f"CreateInitializer: the scale of '{kind}' has to be more than 0, and is {scale}")
    given = None if seed == SentinelValueForAutoSelectRandomSeed else seed
    return Initial(kind, scale, _rank(output_rank), _rank(filter_rank), given)


def uniform(scale: float, seed: int | None = None) -> Initial:
    """Uniform random numbers between ``-scale`` and ``scale``."""
    return _seeded("uniform", scale, None, None, seed)


def normal(
    scale: float,
    output_rank: int = SentinelValueForInferParamInitRank,
    filter_rank: int = SentinelValueForInferParamInitRank,
    seed: int | None = None,
) -> Initial:
    """Gaussian random numbers of standard deviation ``scale``."""
    return _seeded("normal", scale, output_rank, filter_rank, seed)


def xavier(
    scale: float = DefaultParamInitScale,
    output_rank: int = SentinelValueForInferParamInitRank,
    filter_rank: int = SentinelValueForInferParamInitRank,
    seed: int | None = None,
) -> Initial:
    """Uniform random numbers up to ``scale * sqrt(3 / fan_in)``."""
    return _seeded("xavier", scale, output_rank, filter_rank, seed)


def glorot_uniform(
    scale: float = DefaultParamInitScale,
    output_rank: int = SentinelValueForInferParamInitRank,
    filter_rank: int = SentinelValueForInferParamInitRank,
    seed: int | None = None,
) -> Initial:
    """Uniform random numbers up to ``scale * sqrt(6 / (fan_in + fan_out))`` (Glorot and Bengio, AISTATS 2010)."""
    return _seeded("glorot_uniform", scale, output_rank, filter_rank, seed)


def glorot_normal(
    scale: float = DefaultParamInitScale,
    output_rank: int = SentinelValueForInferParamInitRank,
    filter_rank: int = SentinelValueForInferParamInitRank,
    seed: int | None = None,
) -> Initial:
    """Gaussian random numbers of standard deviation ``scale * sqrt(2 / (fan_in + fan_out))``."""
    return _seeded("glorot_normal", scale, output_rank, filter_rank, seed)


def he_uniform(
    scale: float = DefaultParamInitScale,
    output_rank: int = SentinelValueForInferParamInitRank,
    filter_rank: int = SentinelValueForInferParamInitRank,
    seed: int | None = None,
) -> Initial:
    """Uniform random numbers up to ``scale * sqrt(6 / fan_in)`` (He et al., ICCV 2015)."""
    return _seeded("he_uniform", scale, output_rank, filter_rank, seed)


def he_normal(
    scale: float = DefaultParamInitScale,
    output_rank: int = SentinelValueForInferParamInitRank,
    filter_rank: int = SentinelValueForInferParamInitRank,
    seed: int | None = None,
) -> Initial:
    """Gaussian random numbers of standard deviation ``scale * sqrt(2 / fan_in)``."""
    return _seeded("he_normal", scale, output_rank, filter_rank, seed)


def truncated_normal(stdev: float, seed: int | None = None) -> Initial:
    """Gaussian random numbers of standard deviation ``stdev``, drawn again beyond two of it."""
    return _seeded("truncated_normal", stdev, None, None, seed)


def bilinear(kernel_width: int, kernel_height: int) -> Initial:
    """Kernels with which a transposed convolution enlarges images by linear interpolation."""
    return Initial("bilinear", kernel=(kernel_width, kernel_height))


def initializer_with_rank(
    initializer: Initial, output_rank: int | None = None, filter_rank: int | None = None
) -> Initial:
    """Return an initializer that counts other axes as outputs and filter, where it did not say so itself."""
    found = initializer
    if found.output_rank is None and _rank(output_rank) is not None:
        found = attrs.evolve(found, output_rank=output_rank)
    if found.filter_rank is None and _rank(filter_rank) is not None:
        found = attrs.evolve(found, filter_rank=filter_rank)
    return found


inherit(__name__)
