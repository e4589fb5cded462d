"""The compiled loops over pixels, run as the Python that they are: NumPy says what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cntk_reader_image import kernels, loops
from cntk_reader_image.geometry import CropRule
from cntk_reader_image.resample import METHODS, resize_bytes, taps

RNG = np.random.default_rng(2)


@pytest.fixture(autouse=True)
def _as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_call", lambda name, signature, *given: getattr(loops, name)(*given))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("planes", [1, 3, 4])
@pytest.mark.parametrize("method", METHODS)
def test_parts_are_resized(method: str, planes: int, flipped: bool, swapped: bool) -> None:
    image = RNG.integers(0, 256, (9, 8, planes), dtype=np.uint8)
    part = image[2:8, 1:6, :3]
    across, down = taps(5, 4, method), taps(6, 7, method)
    out = np.empty((7, 4, min(planes, 3)), np.uint8)
    kernels.resize_part(
        image, 2, 1, 5, flipped, swapped, across.places, across.weights, down.places, down.weights,
        method == "linear", out,
    )  # fmt: skip
    expected = resize_bytes(part[:, ::-1] if flipped else part, 4, 7, method)
    np.testing.assert_array_equal(out, expected[..., ::-1] if swapped else expected)


@pytest.mark.parametrize("planes", [1, 3])
@pytest.mark.parametrize("with_mean", [False, True])
def test_parts_become_planes(planes: int, with_mean: bool) -> None:
    image = RNG.integers(0, 256, (9, 8, planes), dtype=np.uint8)
    across, down = taps(5, 4, "linear"), taps(6, 7, "linear")
    out = np.empty((planes, 7, 4), np.float32)
    mean = RNG.normal(size=out.shape if with_mean else (0, 0, 0)).astype(np.float32)
    kernels.resize_to_planes(
        image, 2, 1, 5, False, True, across.places, across.weights, down.places, down.weights, mean, out
    )
    expected = resize_bytes(image[2:8, 1:6], 4, 7, "linear")[..., ::-1].transpose(2, 0, 1).astype(np.float32)
    np.testing.assert_array_equal(out, expected - mean if with_mean else expected)


@pytest.mark.parametrize("kind", ["center", "randomside", "multiview10"])
@pytest.mark.parametrize("with_mean", [False, True])
def test_samples_are_made_of_parts(kind: str, with_mean: bool) -> None:
    """Parts of images of all sizes, some mirrored, each at its place among the samples."""
    rule = CropRule(kind=kind, size=(0, 0), side=(0.5, 0.9), area=None, aspect=(0.8, 1.0), jitter=True)
    shapes = [(9, 8, 3), (5, 11, 1), (7, 7, 4)]
    images = [RNG.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]
    draws, views, rows = RNG.random((3, rule.draws)), np.array([6, 1, 8]), np.array([2, 3, 0])
    draws[:, 2] = (0.1, 0.9, 0.4)
    out = np.full((4, 3, 5, 6), -1, np.float32)
    mean = RNG.normal(size=(3, 5, 6) if with_mean else (0, 0, 0)).astype(np.float32)
    kernels.make_samples(
        np.concatenate([image.reshape(-1) for image in images]), np.array(shapes), 3, rule.numbers, True, draws, views,
        mean, rows, out,
    )  # fmt: skip
    for image, own, view, row in zip(images, draws.tolist(), views.tolist(), rows.tolist(), strict=True):
        part = rule.place(*image.shape[:2], own, view)
        pixels = image[part.top : part.top + part.rows, part.left : part.left + part.columns, :3]
        flipped = rule.mirrored(own, view, hflip=True)
        resized = resize_bytes(pixels[:, ::-1] if flipped else pixels, 6, 5, "linear")
        expected = np.broadcast_to(resized[..., ::-1], (5, 6, 3)).transpose(2, 0, 1).astype(np.float32)
        np.testing.assert_array_equal(out[row], expected - mean if with_mean else expected)
    assert (out[1] == -1).all()


def test_whole_images_become_planes() -> None:
    image = RNG.integers(0, 256, (3, 4, 2), dtype=np.uint8)
    expected = image.transpose(2, 0, 1).astype(np.float32)
    out = np.empty((2, 3, 4), np.float32)
    kernels.to_planes(image, out)
    np.testing.assert_array_equal(out, expected)
    mean = RNG.normal(size=out.shape).astype(np.float32)
    kernels.to_planes_without(image, mean, out)
    np.testing.assert_allclose(out, expected - mean, rtol=1e-6)


@pytest.mark.parametrize(("source", "target"), [(1, 1), (1, 5), (5, 1), (7, 7), (7, 5), (5, 7), (3, 64), (4096, 33)])
def test_taps_are_those_of_numpy(source: int, target: int) -> None:
    places, weights = (np.empty((target, 2), np.int32) for _ in range(2))
    kernels.linear_taps(source, places, weights)
    expected = taps(source, target, "linear")
    np.testing.assert_array_equal(places, expected.places)
    np.testing.assert_array_equal(weights, expected.weights)


def test_half_a_step_is_rounded_to_the_even_weight() -> None:
    """With 4096 pixels for 2 there are places at odd multiples of 1/4096, half of a weight."""
    places, weights = (np.empty((4096, 2), np.int32) for _ in range(2))
    kernels.linear_taps(2, places, weights)
    np.testing.assert_array_equal(weights, taps(2, 4096, "linear").weights)


def filtered(rows: np.ndarray, step: int, kinds: list[int]) -> np.ndarray:
    """Return the rows of an image behind the filters of PNG."""
    found, above = [], np.zeros(rows.shape[1], int)
    for row, kind in zip(rows.astype(int), kinds, strict=True):
        left = np.concatenate([np.zeros(step, int), row[:-step]])
        corner = np.concatenate([np.zeros(step, int), above[:-step]])
        guess = left + above - corner
        nearest = [
            min((left[x], above[x], corner[x]), key=lambda one, x=x: abs(guess[x] - one)) for x in range(len(row))
        ]
        less = [np.zeros_like(row), left, above, (left + above) // 2, np.array(nearest)][kind]
        found.append(np.concatenate([[kind], (row - less) % 256]))
        above = row
    return np.array(found, np.uint8)


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("kinds", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 2, 4, 4, 4], [3, 4, 3, 4, 1]])
def test_filters_of_rows_are_undone(step: int, kinds: list[int]) -> None:
    rows = RNG.integers(0, 256, (5, 12), dtype=np.uint8)
    rows[:, :6] //= 64  # with equal distances, too
    out = np.empty_like(rows)
    with np.errstate(over="ignore"):
        assert kernels.unfilter(filtered(rows, step, kinds), step, out)
    np.testing.assert_array_equal(out, rows)


def test_a_filter_that_there_is_not() -> None:
    data: Any = np.zeros((2, 5), np.uint8)
    data[1, 0] = 5
    assert not kernels.unfilter(data, 1, np.empty((2, 4), np.uint8))
