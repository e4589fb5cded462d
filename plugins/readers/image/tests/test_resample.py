"""Resizing: the compiled loops and NumPy agree, and both do what the formulas say."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_reader_image.resample import METHODS, UNIT, resize_bytes, resize_floats, rounded, taps
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.integers(1, 23)
METHOD = st.sampled_from(METHODS)


def pixels(rows: int, columns: int, planes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, columns, planes), dtype=np.uint8)


def compiled(
    image: np.ndarray, width: int, height: int, method: str, *, part: tuple[int, int, int, int], flipped: bool = False
) -> np.ndarray:
    from cntk_reader_image import kernels

    top, left, rows, columns = part
    across, down = taps(columns, width, method), taps(rows, height, method)
    out = np.empty((height, width, min(image.shape[2], 3)), np.uint8)
    kernels.resize_part(
        image, top, left, columns, flipped, False, across.places, across.weights, down.places, down.weights,
        method == "linear", out,
    )  # fmt: skip
    return out


@given(SIZES, SIZES, METHOD)
def test_taps(source: int, target: int, method: str) -> None:
    found = taps(source, target, method)
    assert found.places.shape == found.weights.shape
    assert found.places.min() >= 0
    assert found.places.max() < source
    assert np.allclose(found.fractions.sum(axis=1), 1)
    assert abs(found.weights.sum(axis=1) - UNIT).max() <= 2
    assert abs(found.weights - found.fractions * UNIT).max() <= 0.5 + 1e-3
    assert (np.diff(found.places[:, 0]) >= 0).all()


@given(st.data(), METHOD, st.sampled_from([1, 3, 4]), st.booleans())
def test_both_ways_give_the_same_bytes(data: st.DataObject, method: str, planes: int, flipped: bool) -> None:
    rows, columns, height, width = (data.draw(SIZES) for _ in range(4))
    image = pixels(rows + 5, columns + 4, planes)
    top, left = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 4))
    part = image[top : top + rows, left : left + columns, :3]
    expected = resize_bytes(part[:, ::-1] if flipped else part, width, height, method)
    found = compiled(image, width, height, method, part=(top, left, rows, columns), flipped=flipped)
    assert (found == expected).all()


@given(SIZES, SIZES, METHOD)
def test_the_same_size_changes_nothing(rows: int, columns: int, method: str) -> None:
    image = pixels(rows, columns, 3)
    assert (resize_bytes(image, columns, rows, method) == image).all()
    assert np.allclose(resize_floats(image.astype(np.float64), columns, rows, method), image)


@given(SIZES, SIZES, SIZES, SIZES, METHOD, st.integers(0, 255))
def test_one_colour_stays(rows: int, columns: int, height: int, width: int, method: str, value: int) -> None:
    image = np.full((rows, columns, 3), value, np.uint8)
    found = resize_bytes(image, width, height, method).astype(int)
    assert found.shape == (height, width, 3)
    assert abs(found - value).max() <= 1


@given(SIZES, SIZES, SIZES, SIZES, METHOD)
def test_bytes_are_the_rounded_numbers(rows: int, columns: int, height: int, width: int, method: str) -> None:
    image = pixels(rows, columns, 3, seed=rows * columns)
    exact = np.clip(resize_floats(image.astype(np.float64), width, height, method), 0, 255)
    assert abs(resize_bytes(image, width, height, method) - exact).max() <= 2


@given(SIZES, SIZES, SIZES, SIZES, st.sampled_from(["linear", "cubic", "lanczos"]))
def test_mirroring_and_resizing_change_places(rows: int, columns: int, height: int, width: int, method: str) -> None:
    image = pixels(rows, columns, 3)
    first = resize_bytes(image[:, ::-1], width, height, method).astype(int)
    assert abs(first - resize_bytes(image, width, height, method)[:, ::-1]).max() <= 1


def test_half_the_size_is_the_mean_of_four() -> None:
    image = pixels(8, 10, 3)
    four = image.reshape(4, 2, 5, 2, 3).astype(int).sum(axis=(1, 3))
    assert (resize_bytes(image, 5, 4, "linear") == (four + 2) // 4).all()


def test_a_third_takes_the_middle_pixel() -> None:
    """Few taps, no smoothing: what lies between them is not seen."""
    image = pixels(9, 9, 3)
    assert (resize_bytes(image, 3, 3, "linear") == image[1::3, 1::3]).all()
    assert (resize_bytes(image, 3, 3, "nearest") == image[::3, ::3]).all()


def test_the_border_is_repeated() -> None:
    line = np.array([[[10], [20]]], np.uint8)
    assert resize_bytes(line, 4, 1, "linear").ravel().tolist() == [10, 13, 18, 20]


@pytest.mark.parametrize("offset", [0.0, 0.25, 0.5, 0.9])
def test_cubic_weights(offset: float) -> None:
    """Keys' kernel with the coefficient -0.75: at four places of an image twice as large."""
    found = taps(100, 400, "cubic").fractions
    at = (np.arange(400) + 0.5) / 4 - 0.5
    row = int(np.argmin(abs(at - np.floor(at) - offset)))
    t = at[row] - np.floor(at[row])
    a = -0.75
    expected = [
        a * (t**3 - 2 * t**2 + t),
        (a + 2) * t**3 - (a + 3) * t**2 + 1,
        -(a + 2) * t**3 + (2 * a + 3) * t**2 - a * t,
        -a * t**3 + a * t**2,
    ]
    assert np.allclose(found[row], expected, atol=1e-6)


def test_lanczos_weights() -> None:
    found = taps(50, 100, "lanczos").fractions
    distance = 0.25 - np.arange(-3, 5)
    expected = np.sin(np.pi * distance) * np.sin(np.pi * distance / 4) / distance**2
    assert np.allclose(found[1], expected / expected.sum(), atol=1e-6)


@pytest.mark.parametrize(("value", "expected"), [(0.5, 1), (1.49, 1), (2.5, 3), (7, 7), (-0.5, -1)])
def test_halves_are_rounded_away_from_zero(value: float, expected: int) -> None:
    assert rounded(value) == expected


def test_planes() -> None:
    from cntk_reader_image import kernels

    image = pixels(3, 4, 3)
    out = np.empty((3, 3, 4), np.float32)
    kernels.to_planes(image, out)
    assert (out == image.transpose(2, 0, 1)).all()
    mean = np.random.default_rng(1).random((3, 3, 4)).astype(np.float32)
    kernels.to_planes_without(image, mean, out)
    assert (out == image.transpose(2, 0, 1) - mean).all()
