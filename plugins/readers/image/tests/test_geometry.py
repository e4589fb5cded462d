"""Where crops lie, and how large images become."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
from cntk_reader_image.geometry import ATTEMPTS, CropRule, Rectangle, scaled_size
from hypothesis import given
from hypothesis import strategies as st

CENTER = CropRule(kind="center", size=(0, 0), side=None, area=None, aspect=(1.0, 1.0), jitter=False)
RATIOS = st.tuples(st.floats(0.05, 1), st.floats(0.05, 1)).map(lambda pair: (min(pair), max(pair)))
SIDES = st.integers(1, 400)


@st.composite
def rules(draw: st.DrawFn) -> CropRule:
    share = draw(RATIOS)
    which = draw(st.sampled_from(["side", "area", "none"]))
    return CropRule(
        kind=draw(st.sampled_from(["center", "randomside", "randomarea", "multiview10"])),
        size=draw(st.sampled_from([(0, 0), (7, 9)])),
        side=share if which == "side" else None,
        area=share if which == "area" else None,
        aspect=draw(st.one_of(st.just((1.0, 1.0)), RATIOS)),
        jitter=draw(st.booleans()),
    )


@given(rules(), SIDES, SIDES, st.data(), st.integers(0, 9))
def test_a_part_lies_in_the_image(rule: CropRule, rows: int, columns: int, data: st.DataObject, view: int) -> None:
    draws = data.draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=rule.draws, max_size=rule.draws))
    found = rule.place(rows, columns, draws, view)
    assert min(found.top, found.left) >= 0
    assert min(found.rows, found.columns) >= 1
    assert found.top + found.rows <= rows
    assert found.left + found.columns <= columns
    fixed = rule.fixed_size((columns, rows))
    assert fixed in (None, (found.columns, found.rows))


@pytest.mark.parametrize(
    ("jitter", "side", "fixed"),
    [(False, (0.5, 1.0), True), (True, (0.5, 1.0), False), (True, (0.5, 0.5), True), (False, None, True)],
)
def test_parts_have_one_size_unless_their_ratio_is_drawn(jitter: bool, side: Any, fixed: bool) -> None:
    rule = CropRule(kind="randomside", size=(7, 9), side=side, area=None, aspect=(1.0, 1.0), jitter=jitter)
    found = rule.fixed_size((40, 30))
    assert (found is not None) is fixed
    sizes = {(part.columns, part.rows) for draw in (0.0, 0.5, 0.99) for part in [_part(rule, draw)]}
    assert (sizes == {found}) is fixed


def _part(rule: CropRule, draw: float) -> Any:
    return rule.place(30, 40, [draw] * rule.draws, 0)


def draws_of(rule: CropRule, **given_draws: float) -> list[float]:
    draws = [0.0] * rule.draws
    for name, value in given_draws.items():
        draws[("across", "down", "mirror", "share", "aspect", "turn").index(name)] = value
    return draws


def test_the_centre() -> None:
    rule = attrs.evolve(CENTER, side=(0.5, 0.5))
    assert rule.place(20, 31, draws_of(rule), 0) == Rectangle(5, 10, 10, 10)
    assert CENTER.place(20, 31, draws_of(CENTER), 0) == Rectangle(0, 0, 20, 31)
    rule = attrs.evolve(CENTER, size=(10, 50))
    assert rule.place(20, 31, draws_of(rule), 0) == Rectangle(0, 10, 20, 10)


def test_shares_of_the_side_and_of_the_area() -> None:
    rule = attrs.evolve(CENTER, side=(0.5, 0.9), jitter=True)
    assert rule.place(100, 200, draws_of(rule, share=0.5), 0).rows == 70
    assert attrs.evolve(rule, jitter=False).place(100, 200, draws_of(rule, share=0.5), 0).rows == 50
    rule = attrs.evolve(CENTER, area=(0.25, 0.25))
    assert rule.place(100, 100, draws_of(rule), 0) == Rectangle(25, 25, 50, 50)


def test_the_sides_get_a_ratio() -> None:
    rule = attrs.evolve(CENTER, area=(0.25, 0.25), aspect=(0.5, 0.5))
    high = rule.place(100, 100, draws_of(rule, turn=0.1), 0)
    wide = rule.place(100, 100, draws_of(rule, turn=0.9), 0)
    assert (high.rows, high.columns) == (int(math.sqrt(5000)), int(math.sqrt(1250)))
    assert (wide.rows, wide.columns) == (high.columns, high.rows)


def test_a_shape_that_does_not_fit_is_drawn_again() -> None:
    rule = attrs.evolve(CENTER, area=(0.5, 1.0), jitter=True)
    assert rule.draws == 3 + 3 * ATTEMPTS
    draws = draws_of(rule, share=0.99)
    draws[6] = 0.0
    assert rule.place(50, 200, draws, 0).rows == 50  # half the area is a square of 71: never fits
    draws[6] = 0.0
    assert rule.place(80, 200, [0.9] * 6 + [0.0] * (rule.draws - 6), 0) == Rectangle(0, 0, 80, 200)
    assert rule.place(100, 200, draws, 0) == Rectangle(0, 50, 100, 100)  # the second one


@pytest.mark.parametrize("view", range(10))
def test_ten_views(view: int) -> None:
    rule = attrs.evolve(CENTER, kind="multiview10", side=(0.5, 0.5))
    corners = [(0, 0), (0, 20), (10, 0), (10, 20), (5, 10)]
    found = rule.place(20, 30, draws_of(rule), view)
    assert (found.top, found.left) == corners[view % 5]
    assert rule.mirrored(draws_of(rule, mirror=0.0), view, hflip=True) == (view >= 5)


def test_a_random_place_has_every_place() -> None:
    rule = attrs.evolve(CENTER, kind="randomside", side=(0.5, 0.5))
    places = {
        (found.top, found.left)
        for across in range(10)
        for down in range(10)
        for found in [rule.place(4, 6, draws_of(rule, across=across / 10, down=down / 10), 0)]
    }
    assert places == {(top, left) for top in range(3) for left in range(5)}
    assert rule.mirrored(draws_of(rule, mirror=0.49), 0, hflip=True)
    assert not rule.mirrored(draws_of(rule, mirror=0.5), 0, hflip=True)
    assert not rule.mirrored(draws_of(rule, mirror=0.1), 0, hflip=False)


@given(SIDES, SIDES, st.integers(1, 90), st.integers(1, 90))
def test_sizes(rows: int, columns: int, height: int, width: int) -> None:
    assert scaled_size(rows, columns, height, width, "fill") == (height, width)
    if height == width:
        cut, padded = (scaled_size(rows, columns, height, width, mode) for mode in ("crop", "pad"))
        assert min(cut) == height
        assert max(padded) == height
    cut, padded = (scaled_size(rows, columns, height, width, mode) for mode in ("crop", "pad"))
    assert cut[0] >= height
    assert cut[1] >= width
    assert padded[0] <= height
    assert padded[1] <= width
    for found in (cut, padded):
        assert found[0] == height or found[1] == width


def test_sizes_of_some_images() -> None:
    assert scaled_size(100, 50, 20, 20, "crop") == (40, 20)
    assert scaled_size(100, 50, 20, 20, "pad") == (20, 10)
    assert scaled_size(50, 100, 20, 20, "crop") == (20, 40)
    assert scaled_size(50, 100, 20, 20, "pad") == (10, 20)
    # The shorter side of 10 x 9 is its width, but 4 columns would leave 4 of the 8 rows.
    assert scaled_size(10, 9, 8, 4, "crop") == (8, 7)
    assert scaled_size(10, 20, 4, 10, "pad") == (4, 8)
    assert scaled_size(1, 400, 5, 5, "pad") == (1, 5)


def test_sizes_of_parts_that_are_known() -> None:
    narrow = attrs.evolve(CENTER, aspect=(0.5, 0.5))
    assert narrow.fixed_size((20, 20)) is None  # which side is the longer one is drawn
    assert attrs.evolve(narrow, size=(7, 9)).fixed_size((20, 20)) == (7, 9)
    assert attrs.evolve(narrow, size=(7, 9)).fixed_size((5, 20)) == (5, 9)
    assert CENTER.fixed_size((5, 20)) == (5, 20)
    assert CENTER.fixed_size(None) is None


def test_a_part_of_one_pixel() -> None:
    assert attrs.evolve(CENTER, size=(1, 1)).place(5, 7, [0.0] * 6, 0) == Rectangle(2, 3, 1, 1)
    assert attrs.evolve(CENTER, size=(1, 9)).place(5, 7, [0.0] * 6, 0) == Rectangle(0, 3, 5, 1)
