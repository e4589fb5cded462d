"""Where a crop lies in an image, and how large an image becomes: whole numbers of pixels, no pixels."""

from __future__ import annotations

import math
from typing import Protocol

import attrs

from cntk_reader_image.resample import rounded

ATTEMPTS = 10
"""So many random shapes are tried; if none fits the image, all of it is taken."""
VIEWS = 10
"""Views of ``cropType=multiView10``: four corners and the centre, and their mirror images."""
_FIXED_DRAWS = 3
_DRAWS_OF_ATTEMPT = 3


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


@attrs.frozen
class CropRule:
    """How a part of an image is chosen; the numbers of the recipe, put in order.

    Attributes:
        kind: ``center``, ``randomside``, ``randomarea`` or ``multiview10``.
        size: columns and rows, (0, 0) if the part is a share of the image.
        side, area: range of the share of the shorter side, of the area; None: not used.
        aspect: range of the ratio of the sides.
        jitter: ratios are drawn from their ranges; else they are the least of these.
    """

    kind: str
    size: tuple[int, int]
    side: tuple[float, float] | None
    area: tuple[float, float] | None
    aspect: tuple[float, float]
    jitter: bool

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
        return _FIXED_DRAWS + _DRAWS_OF_ATTEMPT * (ATTEMPTS if again else 1)

    def fixed_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return columns and rows of the part of an image of a size; None if they are not always the same."""
        if size is None or (self.jitter and (_open(self.side) or _open(self.area) or _open(self.aspect))):
            return None
        if self.aspect != (1.0, 1.0) and not all(self.size):
            return None
        found = self._shape(size[1], size[0], [0.0] * self.draws)
        return found[1], found[0]

    def place(self, rows: int, columns: int, draws: list[float], view: int) -> Rectangle:
        """Return the part of an image of ``rows`` x ``columns``.

        Args:
            rows, columns: size of the image.
            draws: random numbers of [0, 1).
            view: which of the ten views.
        """
        height, width = self._shape(rows, columns, draws)
        down, across = rows - height, columns - width
        if self.random_place:
            return Rectangle(int(draws[1] * (down + 1)), int(draws[0] * (across + 1)), height, width)
        corner = view % 5 if self.kind == "multiview10" else 4
        if corner == 4:
            return Rectangle(down // 2, across // 2, height, width)
        return Rectangle(down * (corner // 2), across * (corner % 2), height, width)

    def mirrored(self, draws: list[float], view: int, hflip: bool) -> bool:
        """Return whether right and left change places: by chance, or in the second five of ten views."""
        if self.kind == "multiview10":
            return view % VIEWS >= 5
        return hflip and draws[2] < 0.5

    def _shape(self, rows: int, columns: int, draws: list[float]) -> tuple[int, int]:
        """Return rows and columns of the part."""
        width, height = self.size
        if width > 0 and height > 0:
            return min(rows, height), min(columns, width)
        for first in range(_FIXED_DRAWS, len(draws), _DRAWS_OF_ATTEMPT):
            height, width = self._attempt(rows, columns, draws[first : first + _DRAWS_OF_ATTEMPT])
            if height <= rows and width <= columns:
                return max(height, 1), max(width, 1)
        return rows, columns

    def _attempt(self, rows: int, columns: int, draws: list[float]) -> tuple[int, int]:
        height, width = rows, columns
        if self.side is not None:
            height = width = rounded(min(rows, columns) * self._ratio(self.side, draws[0]))
        elif self.area is not None:
            height = width = rounded(math.sqrt(rows * columns * self._ratio(self.area, draws[0])))
        aspect = self._ratio(self.aspect, draws[1])
        if aspect == 1.0:
            return height, width
        area = height * width
        shorter, longer = int(math.sqrt(area * aspect)), int(math.sqrt(area / aspect))
        return (longer, shorter) if draws[2] < 0.5 else (shorter, longer)

    def _ratio(self, bounds: tuple[float, float], draw: float) -> float:
        low, high = bounds
        return low + (high - low) * draw if self.jitter else low


def _range(values: tuple[float, ...]) -> tuple[float, float]:
    return values[0], values[-1]


def _open(bounds: tuple[float, float] | None) -> bool:
    return bounds is not None and bounds[0] != bounds[1]


def scaled_size(rows: int, columns: int, height: int, width: int, mode: str) -> tuple[int, int]:
    """Return rows and columns that an image is resized to before it is cut (``crop``) or padded (``pad``) to a size."""
    if mode == "fill":
        return height, width
    by_width = columns < rows if mode == "crop" else columns > rows
    if by_width:
        return max(rounded(rows * width / columns), 1), width
    return height, max(rounded(columns * height / rows), 1)
