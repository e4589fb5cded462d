"""Where windows on an image have the elements of their kernels."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from cntk_core.api.engines import Geometry


@pytest.mark.parametrize(
    "geometry",
    [
        Geometry((7,), (3,), (2,), (1,), (4,), (1,)),
        Geometry((7,), (3,), (1,), (0,), (3,), (1,), (2,)),
        Geometry((6,), (2,), (1,), (-1,), (2,), (1,), (3,)),
        Geometry((5, 4), (2, 3), (2, 1), (0, 1), (2, 4), (1, 1), (3, 1)),
        Geometry((4, 3, 2), (2, 2, 2), (1, 2, 1), (1, 0, 0), (4, 1, 1), (1, 1, 1), (2, 1, 1)),
    ],
)
def test_places(geometry: Geometry) -> None:
    from cntk_engine_xla.images import covered_places

    found = covered_places(geometry)
    backward = [list(reversed(each)) for each in (geometry.input, geometry.kernel, geometry.counts)]
    steps = [list(reversed(each)) for each in (geometry.stride, geometry.lower, geometry.dilation)]
    (sizes, kernel, counts), (stride, lower, dilation) = backward, steps
    assert found.shape == (prod(kernel), prod(counts))
    for row, element in enumerate(product(*map(range, kernel))):
        for column, window in enumerate(product(*map(range, counts))):
            parts = zip(element, dilation, window, stride, lower, strict=True)
            place = [own * apart + at * step - before for own, apart, at, step, before in parts]
            inside = all(0 <= one < size for one, size in zip(place, sizes, strict=True))
            flat = 0
            for one, size in zip(place, sizes, strict=True):
                flat = flat * size + one
            assert found[row, column] == (flat if inside else prod(sizes))
