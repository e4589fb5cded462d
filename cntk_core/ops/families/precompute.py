"""Values computed once over the data, and the normalization that uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import NetworkError
from cntk_core.ops.language.define import elementwise_op
from cntk_core.ops.language.op import Array, Op
from cntk_core.ops.language.shapes import Shape

SMALLEST_VARIANCE = 1e-10
"""Variances below this count as this."""

SMALLEST_DIVISOR = 1e-30
"""Divisors closer to 0 are moved away from it."""


def _share(total: int) -> float:
    """Return 1 / total as CNTK computes it: in single precision, whatever the precision of the network is."""
    return float(np.float32(1) / np.float32(total))


class MeanAccumulator:
    """Running mean of frames: mean <- (n_old / n) mean + sum(x) / n."""

    def __init__(self, shape: Shape) -> None:
        self.count = 0
        self.mean: NDArray[np.float64] = np.zeros(shape)

    def add(self, values: Array) -> None:
        """Take the frames of one minibatch, ``(frames, *shape)``."""
        if not len(values):
            return
        total = self.count + len(values)
        self.mean = self.mean * (self.count / total) + np.sum(values, axis=0, dtype=np.float64) * _share(total)
        self.count = total

    def result(self) -> NDArray[np.float64]:
        """Return the mean, of the shape of a sample.

        Raises:
            NetworkError: there was no data.
        """
        _check_data(self.count)
        return self.mean


class InvStdDevAccumulator:
    """Running variance of frames; the result is 1 / sqrt(variance), the variance being at least 1e-10."""

    def __init__(self, shape: Shape) -> None:
        self.means = MeanAccumulator(shape)
        self.variance: NDArray[np.float64] = np.zeros(shape)

    def add(self, values: Array) -> None:
        """Take the frames of one minibatch, ``(frames, *shape)``."""
        if not len(values):
            return
        before, old_mean = self.means.count, self.means.mean
        self.means.add(values)
        total, mean = self.means.count, self.means.mean
        squares = np.sum((np.asarray(values, dtype=np.float64) - mean) ** 2, axis=0)
        self.variance = (before / total) * (self.variance + (old_mean - mean) ** 2) + squares * _share(total)

    def result(self) -> NDArray[np.float64]:
        """Return the inverse of the standard deviation, of the shape of a sample.

        Raises:
            NetworkError: there was no data.
        """
        _check_data(self.means.count)
        return 1.0 / np.sqrt(np.maximum(self.variance, SMALLEST_VARIANCE))


def _check_data(count: int) -> None:
    if not count:
        raise NetworkError("a value is to be computed over the data, but there is no data")


def _same(shapes: Sequence[Shape], attributes: Any) -> Shape:
    return shapes[0]


def _precomputed(name: str, accumulator: Any, doc: str) -> Op:
    return Op(
        name=name,
        arity=(1, 1),
        infer=_same,
        differentiable=(False,),
        reduces_frames=True,
        role="precompute",
        accumulator=accumulator,
        doc=doc,
    )


MEAN = _precomputed("Mean", MeanAccumulator, "Mean of the frames of all data, computed before training.")
INV_STD_DEV = _precomputed(
    "InvStdDev", InvStdDevAccumulator, "1 / standard deviation of the frames of all data, computed before training."
)


def _guarded(m: Any, divisor: Any) -> Any:
    """Move a divisor away from 0, as CNTK does."""
    floor = m.where(m.greater(divisor, 0.0), SMALLEST_DIVISOR, -SMALLEST_DIVISOR)
    return m.where(m.less(m.abs(divisor), SMALLEST_DIVISOR), floor, divisor)


def _normalize_gradient(
    m: Any, attributes: Any, g: Any, y: Any, x: Any, mean: Any, inv_std_dev: Any
) -> tuple[Any, Any, Any]:
    return g * inv_std_dev, -(g * inv_std_dev), g * (x - mean)


@elementwise_op(
    "PerDimMeanVarNormalization",
    gradient=_normalize_gradient,
    aliases={"ndl": ("PerDimMVNorm",), "model": ("PerDimMeanVarNormalizationNode",)},
)
def PER_DIM_MEAN_VAR_NORMALIZATION(m: Any, attributes: Any, x: Any, mean: Any, inv_std_dev: Any) -> Any:
    """(x - mean) * invStdDev."""
    return (x - mean) * inv_std_dev


def _denormalize_gradient(
    m: Any, attributes: Any, g: Any, y: Any, x: Any, mean: Any, inv_std_dev: Any
) -> tuple[Any, Any, Any]:
    divisor = _guarded(m, inv_std_dev)
    return g / divisor, g, -(g * x / (divisor * divisor))


@elementwise_op(
    "PerDimMeanVarDeNormalization",
    gradient=_denormalize_gradient,
    aliases={"ndl": ("PerDimMVDeNorm",), "model": ("PerDimMeanVarDeNormalizationNode",)},
)
def PER_DIM_MEAN_VAR_DE_NORMALIZATION(m: Any, attributes: Any, x: Any, mean: Any, inv_std_dev: Any) -> Any:
    """x / invStdDev + mean."""  # noqa: D403
    return x / _guarded(m, inv_std_dev) + mean


OPS = (MEAN, INV_STD_DEV, PER_DIM_MEAN_VAR_NORMALIZATION, PER_DIM_MEAN_VAR_DE_NORMALIZATION)
