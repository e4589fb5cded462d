"""Functions that give the elements of a sample other axes, more of them, or an order.

Axes are NumPy's, counted from the last one: -1 is the last. A term knows how many there are only when the network is
complete.
"""

from __future__ import annotations

from collections.abc import Sequence

from cntk_builder_python.graph import Term, caller
from cntk_builder_python.user_functions import outputs_of
from cntk_core.api import BuildError


def _counted(axis: int) -> int:
    """CNTK's number of an axis that is counted from the last one.

    Raises:
        BuildError: it is counted from the first one.
    """
    if axis >= 0:
        raise BuildError(
            f"axes are counted from the last one, which is -1: not {axis}",
            where=caller(),
            hint="A term knows how many axes it has only when the network is complete.",
        )
    return -axis


def squeeze(x: Term, axes: int | Sequence[int] = ()) -> Term:
    """Take out axes of length 1: those that are named, or all.

    Raises:
        BuildError: an axis is not counted from the last one.
    """
    named = (axes,) if isinstance(axes, int) else tuple(axes)
    return x.graph.apply("Squeeze", x, axes=tuple(map(_counted, named)))


def expand_dims(x: Term, axis: int) -> Term:
    """Put in an axis of length 1, which is ``axis`` of the result: -1 becomes the last one.

    Raises:
        BuildError: it is not counted from the last one.
    """
    return x.graph.apply("ExpandDims", x, axis=_counted(axis))


def flatten(x: Term) -> Term:
    """Put all elements of a sample into a vector."""
    return x.graph.apply("Reshape", x, dims=0)


def pad(x: Term, pattern: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0.0) -> Term:
    """Put elements before and after each axis, for the last axes: ``pad(image, [(1, 1), (2, 2)])``.

    Args:
        x: the term.
        pattern: how many before and after, for the last ``len(pattern)`` axes.
        mode: ``constant``, ``reflect`` (mirrored at the outermost elements) or ``symmetric`` (these twice).
        value: the constant.
    """
    heads, feet = zip(*reversed(pattern), strict=True)
    return x.graph.apply("Pad", x, head=heads, foot=feet, mode=mode, value=value)


def top_k(x: Term, k: int, axis: int = -1) -> tuple[Term, Term]:
    """Return the ``k`` largest elements along an axis, the largest first, and their places.

    Raises:
        BuildError: the axis is not counted from the last one.
    """
    place = _counted(axis)
    values, indices = outputs_of(x.graph.apply("TopK", x, k=k, axis=place, output="both"))
    return values, indices


def depth_to_space(x: Term, block_size: int) -> Term:
    """Enlarge an image ``(channels, height, width)``: the channels of each place become a block of places."""
    return x.graph.apply("DepthToSpace", x, block_size=block_size)


def space_to_depth(x: Term, block_size: int) -> Term:
    """Make an image ``(channels, height, width)`` smaller: the places of a block become channels of one place."""
    return x.graph.apply("SpaceToDepth", x, block_size=block_size)
