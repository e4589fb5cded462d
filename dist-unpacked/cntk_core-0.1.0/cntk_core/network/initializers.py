"""How parameters get their first values: the values of a parameter depend on its seed, its shape and the precision.

CNTK's own rules are in the kit of builders (``cntk_kit_builders.first_values``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import BuildError, CntkError, NetworkError, ShapeError, raise_problems
from cntk_core.ops.language.shapes import Shape, elements, show, to_cntk

if TYPE_CHECKING:
    from cntk_core.network.network import Network


class Initializer(Protocol):
    """Gives the first value of a parameter.

    One that draws no random numbers says so by an attribute ``takes_seed`` that is false; it takes no number away from
    those that follow.
    """

    def __call__(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return values of a shape (memory order). ``seed`` differs from parameter to parameter."""
        ...


@attrs.frozen
class FixedValue:
    """Every element is ``value``."""

    takes_seed: ClassVar[bool] = False
    value: float = 0.0

    def __call__(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return a constant array."""
        return np.full(shape, self.value, dtype)


@attrs.frozen
class SeededInitializer(ABC):
    """What initializers have in common that may be given a seed.

    Attributes:
        seed: a given seed in place of the base seed plus the parameter's number in the network.
        seed_offset: CNTK's ``randomSeedOffset``, added to either.
    """

    seed: int | None = attrs.field(default=None, kw_only=True)
    seed_offset: int = attrs.field(default=0, kw_only=True)

    @abstractmethod
    def __call__(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return values of a shape (memory order)."""


@attrs.frozen
class FromRule(SeededInitializer):
    """Values of a rule that is none of CNTK's: that of a plugin.

    Attributes:
        name: its word, for messages.
        rule: ``(shape, dtype, seed) -> values``.
        takes_seed: it draws random numbers.
    """

    name: str
    rule: Callable[[Shape, np.dtype[Any], int], Any]
    takes_seed: bool = attrs.field(default=True, kw_only=True)

    def __call__(self, shape: Shape, dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
        """Return the values of the rule, converted.

        Raises:
            BuildError: it gives another shape, or something that is no finite number.
        """
        values = np.asarray(self.rule(shape, dtype, seed))
        if values.shape != shape:
            raise BuildError(f"the initializer '{self.name}' gives {show(values.shape)} for a parameter {show(shape)}")
        try:
            values = values.astype(dtype)
        except (TypeError, ValueError):
            raise BuildError(f"the initializer '{self.name}' gives values of the type {values.dtype}") from None
        if not np.isfinite(values).all():
            raise BuildError(f"the initializer '{self.name}' gives values that are no finite numbers")
        return values


def fans(shape: Shape, filter_rank: int = 0, output_rank: int = 1) -> tuple[int, int]:
    """Return fan-in and fan-out of a parameter of a shape (memory order).

    In CNTK's order the axes are ``[filter..., outputs..., inputs...]``, or ``[filter..., inputs..., outputs...]`` for
    a negative ``output_rank``.

    Raises:
        ShapeError: the ranks need more axes than the shape has.
    """
    dims = to_cntk(shape)
    if filter_rank + abs(output_rank) > len(dims):
        raise ShapeError(
            f"a filter rank of {filter_rank} and an output rank of {output_rank} need more axes than {show(shape)} has"
        )
    split = filter_rank + output_rank if output_rank >= 0 else len(dims) + output_rank
    filters = elements(dims[:filter_rank])
    inputs = dims[split:] if output_rank >= 0 else dims[filter_rank:split]
    fan_in = filters * elements(inputs)
    return max(fan_in, 1), max(elements(dims) * filters // max(fan_in, 1), 1)


def numbered(first: Initializer, take: Callable[[], int]) -> Initializer:
    """Return an initializer with a seed: random ones that have none get the next number."""
    if isinstance(first, SeededInitializer) and _takes_seed(first) and first.seed is None:
        return attrs.evolve(first, seed=take())
    return first


def use_one_seed(network: Network) -> None:
    """Give all random initializers of a network the seed 1 (CNTK's ``forceConstantRandomSeed``)."""
    for parameter in network.parameters:
        if isinstance(parameter.initializer, SeededInitializer):
            parameter.initializer = attrs.evolve(parameter.initializer, seed=1, seed_offset=0)


def _takes_seed(made: Initializer) -> bool:
    return bool(getattr(made, "takes_seed", True))


def initialize_parameters(network: Network, seed: int = 0) -> None:
    """Give every parameter of a network that has no value yet its first one.

    Shapes must be known (``network.infer()``). Random initializers are numbered from 1 in the order in which the
    parameters were made, those with a value included, so that adding to a network does not repeat numbers. A
    parameter's seed is the one that its initializer was given, else ``seed`` plus its number; the initializer's offset
    is added to either.

    Raises:
        DataError, ShapeError, NetworkError, Problems: all parameters that cannot be filled.
    """
    number = 0
    problems: list[CntkError] = []
    for parameter in network.parameters:
        made = parameter.initializer
        own, offset = (made.seed, made.seed_offset) if isinstance(made, SeededInitializer) else (None, 0)
        if own is None and made is not None and _takes_seed(made):
            number += 1
        if parameter.value is not None:
            continue
        try:
            if made is None:
                raise NetworkError(f"the parameter '{parameter.name}' has neither a value nor an initializer")
            used = offset + (seed + number if own is None else own)
            parameter.value = made(parameter.known_shape, network.dtype, used)
        except CntkError as error:
            if error.where is None:
                error.where = parameter.where
            elif error.where != parameter.where and error.hint is None:
                place = f" ({parameter.where})" if parameter.where else ""
                error.hint = f"They are the first values of the parameter '{parameter.name}'{place}."
            problems.append(error)
    raise_problems(problems)
