"""CNTK's rules for first values as plugins, one class for each word."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.initializer import InitializerSettings, ParameterInitializer
from cntk_core.network.initializers import Initializer
from cntk_core.ops.language.shapes import Shape
from cntk_kit_builders.first_values.initializers import cntk_initializer


class CntkInitializer(ParameterInitializer):
    """One of CNTK's words: see :func:`cntk_kit_builders.first_values.initializers.initializer`."""

    requires_api = "1.0"
    word: ClassVar[str]

    def values(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return the values that CNTK would give."""
        return self.make(self.word, self.settings)(shape, dtype, seed)

    @classmethod
    def make(cls, name: str, settings: InitializerSettings) -> Initializer:
        """Return CNTK's initializer itself.

        Raises:
            BuildError: what it needs is not given.
        """
        return cntk_initializer(cls.word, settings)


class Uniform(CntkInitializer):
    """U(-0.05, 0.05)."""

    word = "uniform"


class Uniform1(CntkInitializer):
    """U(-1, 1)."""

    word = "uniform1"


class Gaussian(CntkInitializer):
    """N(0, 0.2 / sqrt(fanIn))."""

    word = "gaussian"


class Normal(CntkInitializer):
    """N(0, 1)."""

    word = "normal"


class Xavier(CntkInitializer):
    """U(+-sqrt(3 / fanIn))."""

    word = "xavier"


class GlorotUniform(CntkInitializer):
    """U(+-sqrt(6 / (fanIn + fanOut))) (Glorot and Bengio 2010)."""

    word = "glorotUniform"


class GlorotNormal(CntkInitializer):
    """N(0, sqrt(2 / (fanIn + fanOut))) (Glorot and Bengio 2010)."""

    word = "glorotNormal"


class HeUniform(CntkInitializer):
    """U(+-sqrt(6 / fanIn)) (He et al. 2015)."""

    word = "heUniform"


class HeNormal(CntkInitializer):
    """N(0, sqrt(2 / fanIn)) (He et al. 2015)."""

    word = "heNormal"


class TruncNormal(CntkInitializer):
    """N(0, 1), drawn again beyond 2."""

    word = "truncNormal"


class BilinearKernel(CntkInitializer):
    """Kernels that upsample by bilinear interpolation."""

    word = "bilinear"
    takes_seed = False


class FixedNumber(CntkInitializer):
    """The same number everywhere."""

    word = "fixedValue"
    takes_seed = False


class MatrixFile(CntkInitializer):
    """A matrix in a text file."""

    word = "fromFile"
    takes_seed = False


class MatrixLiteral(CntkInitializer):
    """A matrix that is written out."""

    word = "fromLiteral"
    takes_seed = False
