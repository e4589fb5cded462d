"""CNTK's rules for the first values of parameters.

Random numbers are those of the original on the CPU (:mod:`cntk_kit_builders.first_values.random_numbers`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.initializer import InitializerSettings
from cntk_core.errors import BuildError, DataError, Location, ShapeError, did_you_mean
from cntk_core.network.initializers import FixedValue, Initializer, SeededInitializer, fans
from cntk_core.ops.language.shapes import Shape, from_cntk, show, to_cntk
from cntk_kit_builders.first_values.text_matrix import complete_shape, fit_matrix, parse_matrix
from cntk_kit_builders.first_values.weights_file import ArrayAddress, complete_dims, fit_array


@attrs.frozen
class Distribution:
    """A family of random numbers and its width: half the range of a uniform one, else the standard deviation."""

    family: str
    width: Callable[[float, float], float]
    doc: str


_SMALL = float(np.float32(0.05))
"""In double precision too the original takes this number in single precision."""

RANDOM_KINDS: dict[str, Distribution] = {
    "uniform": Distribution("uniform", lambda fan_in, fan_out: _SMALL, "U(-0.05, 0.05)"),
    "uniform1": Distribution("uniform", lambda fan_in, fan_out: 1.0, "U(-1, 1)"),
    "gaussian": Distribution("normal", lambda fan_in, fan_out: 0.2 / math.sqrt(fan_in), "N(0, 0.2 / sqrt(fanIn))"),
    "normal": Distribution("normal", lambda fan_in, fan_out: 1.0, "N(0, 1)"),
    "xavier": Distribution("uniform", lambda fan_in, fan_out: math.sqrt(3 / fan_in), "U(+-sqrt(3 / fanIn))"),
    "glorotUniform": Distribution(
        "uniform", lambda fan_in, fan_out: math.sqrt(6 / (fan_in + fan_out)), "U(+-sqrt(6 / (fanIn + fanOut)))"
    ),
    "glorotNormal": Distribution(
        "normal", lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)), "N(0, sqrt(2 / (fanIn + fanOut)))"
    ),
    "heUniform": Distribution("uniform", lambda fan_in, fan_out: math.sqrt(6 / fan_in), "U(+-sqrt(6 / fanIn))"),
    "heNormal": Distribution("normal", lambda fan_in, fan_out: math.sqrt(2 / fan_in), "N(0, sqrt(2 / fanIn))"),
    "truncNormal": Distribution("truncated", lambda fan_in, fan_out: 1.0, "N(0, 1), drawn again beyond 2"),
}
"""Random initializers by CNTK's word. All widths are multiplied by ``initValueScale``."""

KINDS = (*RANDOM_KINDS, "bilinear", "fixedValue", "fromFile", "fromLiteral")
"""Every word that :func:`initializer` knows."""


@attrs.frozen
class Random(SeededInitializer):
    """Random numbers of one of the :data:`RANDOM_KINDS`, times ``scale``.

    Attributes:
        kind: key of :data:`RANDOM_KINDS`.
        scale: CNTK's ``initValueScale``.
        filter_rank: how many of CNTK's first axes are a filter (convolution kernels); they count in both fans.
        output_rank: how many axes after the filter are outputs; negative: how many of the last axes.
    """

    kind: str = "uniform"
    scale: float = 1.0
    filter_rank: int = 0
    output_rank: int = 1

    def __call__(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return random values, drawn in memory order in the wanted precision.

        Raises:
            BuildError: ``scale`` is negative or no number.
        """
        if not 0 <= self.scale < math.inf:
            raise BuildError(
                f"initValueScale = {self.scale:g} is no scale of random numbers",
                hint="It must be 0 or greater; 0 gives zeros.",
            )
        distribution = RANDOM_KINDS[self.kind]
        fan_in, fan_out = fans(shape, self.filter_rank, self.output_rank)
        values = np.zeros(shape, dtype)
        width = values.dtype.type(distribution.width(fan_in, fan_out)) * values.dtype.type(self.scale)
        if width == 0:
            return values
        from cntk_kit_builders.first_values.random_numbers import (  # long tables, for values alone
            fill_normal,
            fill_uniform,
        )

        if distribution.family == "uniform":
            fill_uniform(values, -width, width, seed)
        else:
            fill_normal(values, width, seed, 2.0 if distribution.family == "truncated" else None)
        return values


@attrs.frozen
class Bilinear:
    """Upsampling by bilinear interpolation, for deconvolution kernels ``[width x height x C x C]``.

    With f = (k + 1) div 2 and c = (k - 1) / 2 the value at (w, h) is (1 - |w - c| / f)(1 - |h - c| / f) where the
    input and the output channel are the same, and 0 elsewhere.
    """

    takes_seed: ClassVar[bool] = False
    kernel_width: int
    kernel_height: int

    def __call__(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return the kernels.

        Raises:
            ShapeError: the kernel is not square or the parameter has another shape.
        """
        width, height = self.kernel_width, self.kernel_height
        if width != height or width < 1:
            raise ShapeError(f"a bilinear filter must be square, not {width} x {height}")
        dims = to_cntk(shape)
        if len(dims) != 4 or dims[:2] != (width, height) or dims[2] != dims[3]:
            raise ShapeError(
                f"a bilinear filter of {width} x {height} does not fit a parameter {show(shape)}",
                hint=f"The parameter must be [{width} x {height} x C x C].",
            )
        ramp = 1 - np.abs(np.arange(width) - (width - 1) / 2) / ((width + 1) // 2)
        values = np.zeros(shape, dtype)
        channel = np.arange(len(values))
        values[channel, channel] = np.outer(ramp, ramp)
        return values


@attrs.frozen
class FromLiteral:
    """A matrix written out: one row of CNTK's matrix per line, numbers separated by blanks.

    Attributes:
        text: the matrix.
        where: the place in the recipe.
    """

    takes_seed: ClassVar[bool] = False
    text: str
    where: Location | None = None

    def __call__(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return the values; memory order is the transpose of the matrix. Raises DataError."""
        return fit_matrix(self.matrix(), shape, dtype, "the literal", self.where)

    def complete(self, shape: Shape) -> Shape:
        """Return the shape with its unknown dimensions (0) taken from the matrix. Raises DataError."""
        return complete_shape(self.matrix(), shape, "the literal", self.where)

    def matrix(self) -> NDArray[np.float64]:
        """Return the matrix as it is written. Raises DataError."""
        base = self.where or Location()
        return parse_matrix(self.text.splitlines(), lambda line, column: base)


@attrs.frozen
class FromFile:
    """A matrix in a text file: one row of CNTK's matrix per line, numbers separated by blanks; or an array of a file.

    Attributes:
        path: the file; of one of arrays (npy, npz, safetensors) with the name of the array behind a slash. The array
            has CNTK's order of axes, as text has; ``^T`` behind the name says that it has NumPy's.
        where: the place in the recipe that names it.
    """

    takes_seed: ClassVar[bool] = False
    path: Path
    where: Location | None = None

    def __call__(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return the values; memory order is the transpose of the matrix. Raises DataError."""
        address = ArrayAddress.parse(self.path)
        if address is None:
            return fit_matrix(self.matrix(), shape, dtype, "the file", Location(str(self.path)))
        values = fit_array(address.read(self.where), to_cntk(shape), address.place)
        return np.ascontiguousarray(values, dtype)

    def complete(self, shape: Shape) -> Shape:
        """Return the shape with its unknown dimensions (0) taken from the file. Raises DataError."""
        address = ArrayAddress.parse(self.path)
        if address is None:
            return complete_shape(self.matrix(), shape, "the file", Location(str(self.path)))
        return from_cntk(complete_dims(address.read(self.where), to_cntk(shape), address.place))

    def matrix(self) -> NDArray[np.float64]:
        """Read a matrix of text.

        Raises:
            DataError: the file is missing, a row has another length than the first, a word is not a number.
        """
        try:
            with self.path.open(encoding="latin-1") as file:
                return parse_matrix(file, lambda line, column: Location(str(self.path), line, column))
        except OSError as error:
            raise DataError(
                f"cannot read the initial values '{self.path}': {error.strerror or error}", where=self.where
            ) from None


def initializer(
    kind: str,
    *,
    scale: float = 1.0,
    value: float = 0.0,
    path: Path | None = None,
    literal: str | None = None,
    kernel: tuple[int, int] | None = None,
    filter_rank: int = 0,
    output_rank: int = 1,
    seed: int | None = None,
    seed_offset: int = 0,
    where: Location | None = None,
) -> Initializer:
    """Return the initializer of a CNTK word; case does not count.

    Args:
        kind: one of :data:`KINDS`.
        scale: ``initValueScale``, for the random ones.
        value: for ``fixedValue``.
        path: ``initFromFilePath``, for ``fromFile``.
        literal: ``initFromLiteral``, for ``fromLiteral``.
        kernel: ``kernelWidth`` and ``kernelHeight``, for ``bilinear``.
        filter_rank, output_rank: ``initFilterRank`` and ``initOutputRank``; see :func:`fans`.
        seed, seed_offset: see :class:`Random`.
        where: the place in the recipe, for errors.

    Raises:
        BuildError: the word is unknown, or what it needs is not given.
    """
    name = {known.lower(): known for known in KINDS}.get(kind.lower())
    if name is None:
        raise BuildError(
            f"there is no initializer '{kind}'{did_you_mean(kind, KINDS)}",
            where=where,
            hint=f"Initializers: {', '.join(KINDS)}",
        )
    if name in RANDOM_KINDS:
        return Random(name, scale, filter_rank, output_rank, seed=seed, seed_offset=seed_offset)
    if name == "fixedValue":
        return FixedValue(value)
    if name == "fromFile":
        return FromFile(_given(path, name, "initFromFilePath", where), where)
    if name == "fromLiteral":
        return FromLiteral(_given(literal, name, "initFromLiteral", where), where)
    return Bilinear(*_given(kernel, name, "kernelWidth and kernelHeight", where))


def _given(value: Any, kind: str, key: str, where: Location | None) -> Any:
    if not value:
        raise BuildError(f"the initializer '{kind}' needs {key}", where=where)
    return value


def cntk_initializer(kind: str, settings: InitializerSettings) -> Initializer:
    """Return the initializer of one of CNTK's own words.

    Raises:
        BuildError: there is no such word, or what it needs is not given.
    """
    return initializer(kind, **attrs.asdict(settings, recurse=False))
