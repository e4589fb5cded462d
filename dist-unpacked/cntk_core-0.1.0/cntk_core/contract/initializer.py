"""ParameterInitializer: the first values of a parameter, ``init = "name"`` in NDL, BrainScript and Python.

A wheel offers it as an entry point of the group ``cntk.initializers``; the name of the entry point is the word::

    class Orthogonal(ParameterInitializer):
        requires_api = "1.0"

        def values(self, shape: Shape, dtype: np.dtype, seed: int) -> np.ndarray:
            rows = int(np.prod(shape[:-1]))
            square = np.random.default_rng(seed).standard_normal((max(rows, shape[-1]),) * 2)
            return self.settings.scale * np.linalg.qr(square)[0][:rows, : shape[-1]].reshape(shape)
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.component import Component
from cntk_core.errors import Location
from cntk_core.network.initializers import FromRule, Initializer, fans
from cntk_core.ops.language.shapes import Shape


@attrs.frozen(kw_only=True)
class InitializerSettings:
    """What a network description says beside the word.

    Attributes:
        scale: CNTK's ``initValueScale``.
        value: CNTK's ``value``, of ``fixedValue``.
        path: CNTK's ``initFromFilePath``.
        literal: CNTK's ``initFromLiteral``.
        kernel: width and height of a convolution's kernel.
        filter_rank: how many of CNTK's first axes are a filter; they count in both fans.
        output_rank: how many axes after the filter are outputs; negative: how many of the last axes.
        seed: a given seed; None for the number that the parameter gets in its network.
        seed_offset: CNTK's ``randomSeedOffset``, added to either.
        where: the place in the recipe.
    """

    scale: float = 1.0
    value: float = 0.0
    path: Path | None = None
    literal: str | None = None
    kernel: tuple[int, int] | None = None
    filter_rank: int = 0
    output_rank: int = 1
    seed: int | None = None
    seed_offset: int = 0
    where: Location | None = None


class ParameterInitializer(Component):
    """A rule for first values. Made as ``Rule(settings)``.

    Attributes:
        takes_seed: it draws random numbers. One that does not takes no number away from those that follow.
    """

    takes_seed: ClassVar[bool] = True

    def __init__(self, settings: InitializerSettings) -> None:
        self.settings = settings

    @abstractmethod
    def values(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return values of a shape, in memory order (the reverse of CNTK's).

        They must follow from the arguments and the settings alone. The shape has no unknown dimensions.

        Args:
            shape: of the parameter.
            dtype: float32 or float64; another type is converted.
            seed: differs from parameter to parameter.

        Raises:
            ShapeError, BuildError: such a parameter has no such values.
        """

    def fans(self, shape: Shape) -> tuple[int, int]:
        """Return fan-in and fan-out of a parameter of a shape, as CNTK counts them.

        Raises:
            ShapeError: the ranks of the description need more axes than the shape has.
        """
        return fans(shape, self.settings.filter_rank, self.settings.output_rank)

    @classmethod
    def make(cls, name: str, settings: InitializerSettings) -> Initializer:
        """Return what a parameter is declared with; ``name`` is the word in the description."""
        rule = cls(settings)
        seed, offset = settings.seed, settings.seed_offset
        return FromRule(name, rule.values, takes_seed=cls.takes_seed, seed=seed, seed_offset=offset)
