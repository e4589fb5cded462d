"""Where windows over an image stand in it."""

from __future__ import annotations

from fractions import Fraction

from cntk_core.ops.families.geometry import Geometry
from cntk_core.ops.language.placement import Along, Placement


def of_windows(geometry: Geometry) -> Placement | None:
    """Return where in their input windows stand, from the number of the window; None if there is no height."""
    if len(geometry.input) < 2:
        return None
    x, y = (
        Along(Fraction(geometry.stride[axis]), Fraction((geometry.reach[axis] - 1) // 2 - geometry.lower[axis]))
        for axis in range(2)
    )
    return Placement(x, y)
