"""Where a crop lies in an image, and how large an image becomes: whole numbers of pixels, no pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import attrs

from cntk_reader_image.resample import rounded

ATTEMPTS = 10
"""So many random shapes are tried; if none fits the image, all of it is taken."""
VIEWS = 10
"""Views of ``cropType=multiView10``: four corners and the centre, and their mirror images."""
FIXED_DRAWS = 3
DRAWS_OF_ATTEMPT = 3
_CENTER = 0
_ANYWHERE = 1
_VIEWS = 2
_WHOLE = 0
_SIDE = 1
_AREA = 2

_PLACE = 0
_WIDTH = 1
_HEIGHT = 2
_MEASURE = 3
_LEAST = 4
_MOST = 5
_LEAST_ASPECT = 6
_MOST_ASPECT = 7
_JITTER = 8
# The fields of `CropNumbers`, by number: functions that are compiled get an array of them.


class CropSettings(Protocol):
    """What is said of a crop: see :class:`cntk_reader_image.options.CropKeys`."""

    crop_type: str
    crop_size: tuple[int, ...]
    side_ratio: tuple[float, ...]
    area_ratio: tuple[float, ...]
    aspect_ratio: tuple[float, ...]
    jitter_type: str


@attrs.frozen
class Rectangle:
    """A part of an image, in pixels."""

    top: int
    left: int
    rows: int
    columns: int


class CropNumbers(NamedTuple):
    """A :class:`CropRule` as nothing but numbers, for functions that are compiled as well."""

    place: int
    width: int
    height: int
    measure: int
    least: float
    most: float
    least_aspect: float
    most_aspect: float
    jitter: bool


WHOLE = CropNumbers(_CENTER, 0, 0, _WHOLE, 1.0, 1.0, 1.0, 1.0, False)
"""Takes all of an image."""


Crop = Sequence[float] | Any
"""A :class:`CropNumbers`, or the same numbers in an array."""


def part_shape(rows: int, columns: int, crop: Crop, draws: Sequence[float] | Any) -> tuple[int, int]:
    """Return rows and columns of the part of an image of ``rows`` x ``columns``. Compiled, too."""
    if crop[_WIDTH] > 0 and crop[_HEIGHT] > 0:
        return min(rows, int(crop[_HEIGHT])), min(columns, int(crop[_WIDTH]))
    for first in range(FIXED_DRAWS, len(draws), DRAWS_OF_ATTEMPT):
        share, aspect = crop[_LEAST], crop[_LEAST_ASPECT]
        if crop[_JITTER] > 0:
            share += (crop[_MOST] - crop[_LEAST]) * draws[first]
            aspect += (crop[_MOST_ASPECT] - crop[_LEAST_ASPECT]) * draws[first + 1]
        height, width = rows, columns
        if crop[_MEASURE] == _SIDE:
            height = width = int(min(rows, columns) * share + 0.5)
        elif crop[_MEASURE] == _AREA:
            height = width = int(math.sqrt(rows * columns * share) + 0.5)
        if aspect != 1.0:
            area = height * width
            height, width = int(math.sqrt(area * aspect)), int(math.sqrt(area / aspect))
            if draws[first + 2] < 0.5:
                height, width = width, height
        if height <= rows and width <= columns:
            return max(height, 1), max(width, 1)
    return rows, columns


def part_place(down: int, across: int, crop: Crop, draws: Sequence[float] | Any, view: int) -> tuple[int, int]:
    """Return top and left of a part, which has so much room ``down`` and ``across``. Compiled, too."""
    if crop[_PLACE] == _ANYWHERE:
        return int(draws[1] * (down + 1)), int(draws[0] * (across + 1))
    corner = view % 5 if crop[_PLACE] == _VIEWS else 4
    if corner == 4:
        return down // 2, across // 2
    return down * (corner // 2), across * (corner % 2)


def part_mirrored(crop: Crop, hflip: bool, draws: Sequence[float] | Any, view: int) -> bool:
    """Return whether right and left of a part change places: by chance, or in the second five of ten views.

    Compiled, too.
    """
    if crop[_PLACE] == _VIEWS:
        return view % VIEWS >= 5
    return bool(hflip and draws[2] < 0.5)


@attrs.frozen
class CropRule:
    """How a part of an image is chosen; the numbers of the recipe, put in order.

    Attributes:
        kind: ``center``, ``randomside``, ``randomarea`` or ``multiview10``.
        size: columns and rows, (0, 0) if the part is a share of the image.
        side, area: range of the share of the shorter side, of the area; None: not used.
        aspect: range of the ratio of the sides.
        jitter: ratios are drawn from their ranges; else they are the least of these.
        numbers: all of this as numbers.
    """

    kind: str
    size: tuple[int, int]
    side: tuple[float, float] | None
    area: tuple[float, float] | None
    aspect: tuple[float, float]
    jitter: bool
    numbers: CropNumbers = attrs.field(init=False, eq=False, repr=False)

    @numbers.default
    def _make_numbers(self) -> CropNumbers:
        place = _ANYWHERE if self.random_place else _VIEWS if self.kind == "multiview10" else _CENTER
        measure = _SIDE if self.side is not None else _AREA if self.area is not None else _WHOLE
        least, most = self.side or self.area or (1.0, 1.0)
        return CropNumbers(
            place=place,
            width=self.size[0],
            height=self.size[1],
            measure=measure,
            least=float(least),
            most=float(most),
            least_aspect=float(self.aspect[0]),
            most_aspect=float(self.aspect[1]),
            jitter=self.jitter,
        )

    @classmethod
    def of(cls, keys: CropSettings) -> CropRule:
        """Read the keys of a recipe."""
        side, area = _range(keys.side_ratio), _range(keys.area_ratio)
        return cls(
            kind=keys.crop_type.lower(),
            size=(keys.crop_size[0], keys.crop_size[-1]),
            side=side if any(side) else None,
            area=area if any(area) else None,
            aspect=_range(keys.aspect_ratio),
            jitter=keys.jitter_type.lower() == "uniratio",
        )

    @property
    def random_place(self) -> bool:
        """Whether the part lies anywhere in the image."""
        return self.kind in ("randomside", "randomarea")

    @property
    def draws(self) -> int:
        """How many random numbers a crop may need: for the place and the mirroring, and for each attempt."""
        again = self.area is not None or self.aspect != (1.0, 1.0)
        return FIXED_DRAWS + DRAWS_OF_ATTEMPT * (ATTEMPTS if again else 1)

    def fixed_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return columns and rows of the part of an image of a size; None if they are not always the same."""
        if size is None or (self.jitter and (_open(self.side) or _open(self.area) or _open(self.aspect))):
            return None
        if self.aspect != (1.0, 1.0) and not all(self.size):
            return None
        found = part_shape(size[1], size[0], self.numbers, [0.0] * self.draws)
        return found[1], found[0]

    def place(self, rows: int, columns: int, draws: list[float], view: int) -> Rectangle:
        """Return the part of an image of ``rows`` x ``columns``.

        Args:
            rows, columns: size of the image.
            draws: random numbers of [0, 1).
            view: which of the ten views.
        """
        height, width = part_shape(rows, columns, self.numbers, draws)
        top, left = part_place(rows - height, columns - width, self.numbers, draws, view)
        return Rectangle(top, left, height, width)

    def mirrored(self, draws: list[float], view: int, hflip: bool) -> bool:
        """Return whether right and left change places: by chance, or in the second five of ten views."""
        return part_mirrored(self.numbers, hflip, draws, view)


def _range(values: tuple[float, ...]) -> tuple[float, float]:
    return values[0], values[-1]


def _open(bounds: tuple[float, float] | None) -> bool:
    return bounds is not None and bounds[0] != bounds[1]


def scaled_size(rows: int, columns: int, height: int, width: int, mode: str) -> tuple[int, int]:
    """Return rows and columns that an image is resized to before it is cut (``crop``) or padded (``pad``) to a size.

    The shorter side becomes as long as is wanted, for ``pad`` the longer one; the other side, if there would not be
    enough to cut, or too much to pad, as it may be where width and height differ.
    """
    if mode == "fill":
        return height, width
    by_width = max(rounded(rows * width / columns), 1), width
    by_height = height, max(rounded(columns * height / rows), 1)
    if mode == "crop":
        first, other = (by_width, by_height) if columns < rows else (by_height, by_width)
        return first if first[0] >= height and first[1] >= width else other
    first, other = (by_width, by_height) if columns > rows else (by_height, by_width)
    return first if first[0] <= height and first[1] <= width else other
