"""Models cut to a size at which a thousand ranks fit into one machine, and what their messages stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from cntk_core.api import Parameter, ParameterStore, Shape, TrainingError, elements
from cntk_core.api.parallel import Traffic, WireSize

ALL_VALUES = 8_000_000
"""Values that the models of all ranks have together at most, about."""

_ROOM = 8
"""How many times more there may be, so that each rank has as many columns as of the whole model."""

_SAMPLE_VALUES = 1_000_000
"""Values of the model in whole columns in which the bytes of operations are counted."""


@attrs.frozen
class ModelShape:
    """The learned parameters of a model, without values.

    Attributes:
        shapes: in memory order.
        dtype: float32 or float64.
    """

    shapes: tuple[Shape, ...]
    dtype: str = "float32"

    @property
    def values(self) -> int:
        """How many learned values there are."""
        return sum(map(elements, self.shapes))

    def store(self) -> ParameterStore:
        """Return a store with zeros."""
        zero = np.zeros((), self.dtype)
        parameters = [
            Parameter.make(f"p{index}", shape, value=np.broadcast_to(zero, shape))
            for index, shape in enumerate(self.shapes)
        ]
        return ParameterStore(parameters, self.dtype)

    def doubled(self) -> ModelShape:
        """Return a model with each parameter twice."""
        return attrs.evolve(self, shapes=self.shapes * 2)

    def for_ranks(self, ranks: int, limit: int = ALL_VALUES) -> ModelShape:
        """Return a model that so many ranks can have; this one if they can.

        Columns, as quantized gradients know them, become shorter, so each rank goes on to own as many of them as of the
        whole model. Where columns of a single value are still too much there are fewer of them, but enough for all.
        """
        most = max(1, limit // ranks)
        if self.values <= most:
            return self
        ratio = most / self.values
        shapes = [(*shape[:-1], max(1, round(shape[-1] * ratio))) for shape in self.shapes]
        total = sum(map(elements, shapes))
        if total > _ROOM * most:
            shapes = [_fewer(shape, most / total, 2 * ranks) for shape in shapes]
        return attrs.evolve(self, shapes=tuple(shapes))

    def in_whole_columns(self, limit: int = _SAMPLE_VALUES) -> ModelShape:
        """Return a model with columns as long as those of this one, but fewer of them."""
        if self.values <= limit:
            return self
        return attrs.evolve(self, shapes=tuple(_fewer(shape, limit / self.values, 2) for shape in self.shapes))


def _fewer(shape: Shape, ratio: float, least: int) -> Shape:
    """Return a shape with fewer columns: its first axes become shorter, none of more than ``least`` shorter than it."""
    found = list(shape)
    left = ratio
    for axis in range(len(shape) - 1):
        kept = max(min(found[axis], least), math.ceil(found[axis] * left))
        left *= found[axis] / kept
        found[axis] = kept
    return tuple(found)


Counted = Mapping[Traffic, tuple[int, int]]


def wire_sizes(whole: Counted, share: float, small: Counted, doubled: Counted) -> dict[Traffic, WireSize]:
    """Return what the arrays of operations stand for if a small model takes the place of the whole one.

    The bytes of all arrays of an operation are a fixed number and some for each value of the model: two small models,
    of which one has twice as many values, tell both apart.

    Args:
        whole: counted with a model of columns of full length.
        share: how many times more values the whole model has than that one.
        small, doubled: counted with the model that is simulated, and with one of twice its size.

    Raises:
        TrainingError: the operations are not the same.
    """
    if not whole.keys() == small.keys() == doubled.keys():
        raise TrainingError(
            "the strategy sends other messages for models of other sizes, so it can be simulated with its whole model "
            "only",
            hint="Give fewer ranks.",
        )
    found = {}
    for kind, (size, count) in small.items():
        # Means, because the number of messages may depend on the order of events.
        one, two, all_of_it = size / count, _mean(doubled[kind]), _mean(whole[kind])
        fixed = max(0.0, min(2 * one - two, one))
        factor = (all_of_it - fixed) * share / (one - fixed) if one > fixed else 1.0
        found[kind] = WireSize(fixed, factor)
    return found


def _mean(counted: tuple[int, int]) -> float:
    size, count = counted
    return size / count


def check_known(traffic: Sequence[Traffic] | Mapping[Traffic, object], wire: Mapping[Traffic, WireSize]) -> None:
    """Check that a simulation with a cut model had no operations whose real size is not known.

    Raises:
        TrainingError: it had.
    """
    strange = [kind for kind in traffic if kind not in wire]
    if wire and strange:
        raise TrainingError(
            f"with this number of ranks the strategy does operations of unknown size, such as {strange[0][0]}",
            hint="Give fewer ranks.",
        )
