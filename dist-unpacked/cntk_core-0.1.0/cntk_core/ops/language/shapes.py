"""Shapes in memory order, and how people see them.

A shape is a tuple in NumPy order (last axis fastest), which is CNTK's column-major order reversed: CNTK's ``W:H:C`` is
``(C, H, W)`` and a CNTK matrix ``[out x in]`` is ``(in, out)``. Messages print CNTK's order.

A dimension may be open: a :class:`Longest` or a :class:`Free` one, of which every minibatch has its own size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

from cntk_core.errors import ShapeError

Shape = tuple[int, ...]
"""Sample shape in memory order. 0 is a dimension of a parameter that is still to be inferred."""


SAMPLES_OF = "\0"
"""How the key of a number of samples begins; behind it comes the dynamic axis. No name of an axis begins so."""


class Longest(int):
    """A dimension as long as the longest sequence of a dynamic axis in each minibatch; it is printed as ``?``.

    With ``samples`` it is as long as the axis has samples in the minibatch, none of which is a sequence, and 1 if there
    are none. As a number it is negative, and equal for equal axes.

    Attributes:
        axis: name of the dynamic axis.
        samples: whether it counts samples.
        key: by which :func:`with_lengths` finds the length.
    """

    axis: str
    samples: bool
    key: str

    def __new__(cls, axis: str, samples: bool = False) -> Longest:
        """Make the dimension of an axis."""
        key = f"{SAMPLES_OF}{axis}" if samples else axis
        made = super().__new__(cls, -2 - crc32(key.encode()))
        made.axis, made.samples, made.key = axis, samples, key
        return made

    def __reduce__(self) -> tuple[type[Longest], tuple[str, bool]]:
        return Longest, (self.axis, self.samples)

    def __repr__(self) -> str:
        return "?"

    def __str__(self) -> str:
        return "?"


class Free(int):
    """A dimension whose size each minibatch brings; it is printed as ``?``.

    Of an input it is declared: :data:`FREE`, or ``Free("height")``, which is the same size wherever it has this name.
    Of other nodes it is what follows from those. As a number it is negative, and equal for equal dimensions.

    Attributes:
        name: of a dimension of an input that others share; else empty.
        tried: two sizes with which shape rules are asked; empty until it has a place in a shape (:func:`placed`).
    """

    name: str
    tried: tuple[int, ...]

    def __new__(cls, name: str = "", tried: Sequence[int] = ()) -> Free:
        """Make a dimension."""
        key = ",".join(map(str, tried)) or f"free {name}"
        made = super().__new__(cls, -2 - crc32(key.encode()))
        made.name, made.tried = name, tuple(tried)
        return made

    def __reduce__(self) -> tuple[type[Free], tuple[str, tuple[int, ...]]]:
        return Free, (self.name, self.tried)

    def __repr__(self) -> str:
        return "?"

    def __str__(self) -> str:
        return "?"


FREE = Free()
"""A dimension of an input whose size each minibatch brings."""

_DIVISIBLE = 40320
"""What the sizes that are tried are multiples of: so many, that strides and poolings leave no rest."""


def placed(shape: Shape) -> Shape:
    """Return the declared shape of an input in which free dimensions have sizes to try.

    Those without a name get them by their place, so that images of two inputs fit each other until their sizes are
    known; of the same name, the same everywhere.
    """
    return tuple(_placed(dim, len(shape) - place) if isinstance(dim, Free) else dim for place, dim in enumerate(shape))


def _placed(dim: Free, axis: int) -> Free:
    number = 8 + crc32(dim.name.encode()) % 997 if dim.name else axis
    return Free(dim.name, (_DIVISIBLE * (2 * number + 1), _DIVISIBLE * (3 * number + 1)))


def is_free(shape: Sequence[int]) -> bool:
    """Whether a shape has dimensions whose sizes each minibatch brings."""
    return any(isinstance(dim, Free) for dim in shape)


def fits(shape: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether sizes are those of a shape, whose free dimensions may have any but 0."""
    return len(shape) == len(sizes) and all(
        size > 0 if isinstance(dim, Free) else size == dim for dim, size in zip(shape, sizes, strict=True)
    )


def longest_axes(shape: Sequence[int]) -> frozenset[str]:
    """Return the dynamic axes whose longest sequences are dimensions of a shape; or keys of their samples."""
    return frozenset(dim.key for dim in shape if isinstance(dim, Longest))


def samples_axis(shape: Sequence[int]) -> str | None:
    """Return the dynamic axis whose samples are the first dimension of a shape, None if that is anything else."""
    first = shape[0] if shape else None
    return first.axis if isinstance(first, Longest) and first.samples else None


def with_lengths(shape: Shape, lengths: Mapping[str, int]) -> Shape:
    """Return a shape with the lengths of the longest sequences (or numbers of samples) put in, by key."""
    return tuple(lengths[dim.key] if isinstance(dim, Longest) else dim for dim in shape)


def from_cntk(dims: Iterable[int]) -> Shape:
    """Return the memory-order shape of dimensions in CNTK's order."""
    return tuple(reversed([int(dim) for dim in dims]))


def to_cntk(shape: Sequence[int]) -> Shape:
    """Return the dimensions in CNTK's order."""
    return tuple(reversed(shape))


def show(shape: Sequence[int], *, framed: bool = False) -> str:
    """Print a shape as CNTK does: ``[5 x 4]``, with ``x *`` for the dynamic axis."""
    dims = [str(dim) for dim in to_cntk(shape)] or ["1"]
    return "[" + " x ".join(dims + (["*"] if framed else [])) + "]"


def elements(shape: Sequence[int]) -> int:
    """Number of values in one sample."""
    count = 1
    for dim in shape:
        count *= dim
    return count


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Shape of an element-wise result: axes compared from CNTK's first (our last); 1, missing or 0 gives way.

    Raises:
        ShapeError: two dimensions differ and neither is 1.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(1, rank + 1):
        dims = {shape[-axis] for shape in shapes if len(shape) >= axis} - {0, 1}
        if len(dims) > 1:
            listed = " and ".join(show(shape) for shape in shapes)
            raise ShapeError(f"the shapes {listed} do not fit: axis {axis} is {' and '.join(map(str, sorted(dims)))}")
        result.append(dims.pop() if dims else 1)
    return tuple(reversed(result))
