"""Which place of an input a place of an image lies on: ``output = scale * input + shift`` along width and height.

The Crop operation works out with it where its part begins. A window stands for the place of its centre.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs

from cntk_core.ops.language.shapes import Shape


@attrs.frozen
class Along:
    """One axis: ``output = scale * input + shift``."""

    scale: Fraction = Fraction(1)
    shift: Fraction = Fraction(0)

    def after(self, first: Along) -> Along:
        """Return what ``first`` and then this one do."""
        return Along(self.scale * first.scale, self.scale * first.shift + self.shift)

    def inverse(self) -> Along:
        """Return the way back."""
        return Along(1 / self.scale, -self.shift / self.scale)


@attrs.frozen
class Placement:
    """Width and height."""

    x: Along = Along()
    y: Along = Along()

    def after(self, first: Placement) -> Placement:
        """Return what ``first`` and then this one do."""
        return Placement(self.x.after(first.x), self.y.after(first.y))

    def inverse(self) -> Placement:
        """Return the way back."""
        return Placement(self.x.inverse(), self.y.inverse())


def inverse_of(placement: Placement | None) -> Placement | None:
    """Return the way back, if there is a way."""
    return None if placement is None else placement.inverse()


def stays(shapes: Sequence[Shape], attributes: Any, index: int) -> Placement | None:
    """Return the placement of an op that keeps the places of its first input."""
    return Placement() if index == 0 else None
