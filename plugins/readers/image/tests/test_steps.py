"""The transforms, each against what it is said to do."""

from __future__ import annotations

import colorsys

import attrs
import numpy as np
import pytest
from cntk_reader_image import pipeline as pipelines
from cntk_reader_image import steps
from cntk_reader_image.geometry import CropRule
from cntk_reader_image.limits import BrokenImageError
from cntk_reader_image.pipeline import Pipeline
from cntk_reader_image.resample import resize_bytes
from cntk_reader_image.steps import Color, Crop, Intensity, Mean, Picture, Scale, Step
from hypothesis import given
from hypothesis import strategies as st
from image_recipes import colours

FLOAT = np.dtype(np.float64)
CENTER = CropRule(kind="center", size=(0, 0), side=None, area=None, aspect=(1.0, 1.0), jitter=False)
HALF = attrs.evolve(CENTER, side=(0.5, 0.5))


@pytest.fixture(params=["compiled", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With and without compiled loops."""
    if request.param == "numpy":
        monkeypatch.setattr(steps, "kernels", lambda: None)
        monkeypatch.setattr(pipelines, "kernels", lambda: None)
        assert not steps.resize_into(decoded(), np.empty((0, 0, 0)), np.empty((3, 2, 2)))
    return request.param


def run(step: Step, picture: Picture, *draws: float, view: int = 0) -> np.ndarray:
    return step.apply(picture, [*draws, *[0.0] * (step.draws - len(draws))], view, FLOAT).array


def decoded(number: int = 0, rows: int = 8, columns: int = 12) -> Picture:
    return Picture.decoded(colours(number, rows, columns), 3)


def make(pixels: np.ndarray, *some: Step, planes: bool = True, channels: int = 3, dtype: str = "f4") -> np.ndarray:
    line = Pipeline(some, channels=channels, planes=planes, dtype=np.dtype(dtype))
    out = np.full(line.shape_of(pixels), -1, dtype)
    line.make(pixels, [[0.0] * step.draws for step in some], 0, out)
    return out


@pytest.mark.slow
def test_blue_comes_first(way: str) -> None:
    image = colours(1)
    assert (make(image) == image[:, :, ::-1].transpose(2, 0, 1)).all()
    assert (make(image, planes=False) == image[:, :, ::-1]).all()
    assert (make(image, Scale(8, 6)) == image[:, :, ::-1].transpose(2, 0, 1)).all()


def test_gray_and_transparent_images(way: str) -> None:
    image = colours(1)
    four = np.concatenate([image, image[:, :, :1]], axis=2)
    gray = image[:, :, :1]
    for some in ([], [Scale(5, 4)], [Crop(HALF, None)]):
        assert (make(four, *some) == make(image, *some)).all()
        assert (make(gray, *some) == make(np.repeat(gray, 3, axis=2), *some)).all()
        assert make(gray, *some, channels=1).shape[0] == 1


def test_crops_follow_each_other(way: str) -> None:
    """The second crop has its place in what the first one left, also where that is mirrored."""
    image = colours(2, 16, 20)
    left = Crop(attrs.evolve(CENTER, kind="randomside", side=(0.5, 0.5)), True)
    picture = Picture.decoded(image, 3)
    once = left.apply(picture, [0.0, 0.0, 0.1, 0, 0, 0], 0, FLOAT)
    assert (once.array == image[:8, :8][:, ::-1, ::-1]).all()
    twice = left.apply(once, [0.99, 0.0, 0.9, 0, 0, 0], 0, FLOAT)
    assert (twice.array == once.array[:4, 4:]).all()
    again = left.apply(twice, [0.0, 0.99, 0.1, 0, 0, 0], 0, FLOAT)
    assert (again.array == twice.array[2:, :2][:, ::-1]).all()
    resized = Scale(3, 5).apply(twice, [], 0, FLOAT).array
    assert (resized == resize_bytes(twice.array, 3, 5, "linear")).all()


@pytest.mark.parametrize("mode", ["fill", "crop", "pad"])
@pytest.mark.parametrize("size", [(8, 12), (12, 8), (5, 5)])
def test_scale_modes(way: str, mode: str, size: tuple[int, int]) -> None:
    image = colours(3, *size)
    step = Scale(6, 6, mode=mode, pad=7)
    found = run(step, Picture.decoded(image, 3))
    assert found.shape == (6, 6, 3)
    assert step.size(None) == (6, 6)
    straight = image[:, :, ::-1]
    if mode == "fill" or size == (5, 5):
        assert (found == resize_bytes(straight, 6, 6, "linear")).all()
    elif mode == "crop":
        wide = resize_bytes(straight, 9, 6, "linear") if size[0] < size[1] else resize_bytes(straight, 6, 9, "linear")
        assert (found == (wide[:, 1:7] if size[0] < size[1] else wide[1:7])).all()
    else:
        small = resize_bytes(straight, 6, 4, "linear") if size[0] < size[1] else resize_bytes(straight, 4, 6, "linear")
        inner = found[1:5] if size[0] < size[1] else found[:, 1:5]
        assert (inner == small).all()
        assert (found.astype(int) == 7).sum() >= 36


@pytest.mark.parametrize("mode", ["fill", "crop", "pad"])
@pytest.mark.parametrize("size", [(10, 9), (9, 10), (10, 20), (20, 10), (1, 30), (30, 1)])
@pytest.mark.parametrize("wanted", [(4, 8), (8, 4), (10, 4)])
def test_scale_modes_give_the_size_that_is_asked_for(mode: str, size: tuple[int, int], wanted: tuple[int, int]) -> None:
    found = run(Scale(*wanted, mode=mode), Picture.decoded(colours(3, *size), 3))
    assert found.shape == (wanted[1], wanted[0], 3)


def test_padding_repeats_the_edge(way: str) -> None:
    found = run(Scale(6, 6, mode="pad"), decoded(rows=3, columns=6))
    assert (found[0] == found[1]).all()
    assert (found[5] == found[4]).all()
    assert (run(Scale(6, 6, mode="pad", pad=300), decoded(rows=3, columns=6))[0] == 255).all()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(3, 5), (30, 9), (8, 6)])
def test_steps_at_once_are_those_after_each_other(channels: int, size: tuple[int, int]) -> None:
    """Cropping, mirroring, resizing, subtracting and planes in one loop, against NumPy and each step alone."""
    crop = Crop(attrs.evolve(CENTER, kind="randomside", side=(0.6, 0.9), jitter=True), True)
    mean = Mean(np.random.default_rng(0).random((size[1], size[0], channels)) * 99)
    for image in (colours(1), colours(2)[:, :, :1], np.repeat(colours(3), 2, axis=2)[:, :, :4]):
        pixels = image[:, :, :1] if channels == 1 else image
        for some in ([crop, Scale(*size), mean], [crop, Scale(*size)], [Scale(*size), mean]):
            draws = [[0.3, 0.6, 0.2, 0.5, 0.5, 0.5][: step.draws] for step in some]
            line = Pipeline(some, channels=channels, planes=True, dtype=np.dtype("f4"))
            found = np.empty((channels, size[1], size[0]), "f4")
            line.make(pixels, draws, 0, found)
            picture = Picture.decoded(np.ascontiguousarray(pixels), channels)
            for step, own in zip(some, draws, strict=True):
                part = picture.array
                picture = (
                    Picture.of(resize_bytes(part, *size, "linear"))
                    if isinstance(step, Scale)
                    else step.apply(picture, own, 0, np.dtype("f4"))
                )
            assert (found == picture.array.transpose(2, 0, 1)).all()


def test_numbers_are_resized_too() -> None:
    picture = Picture.of(np.arange(48, dtype=np.float64).reshape(4, 4, 3) * 100)
    found = run(Scale(2, 2), picture)
    assert found.max() > 255
    assert np.allclose(found, picture.pixels.reshape(2, 2, 2, 2, 3).mean(axis=(1, 3)))


def test_the_mean_is_subtracted(way: str) -> None:
    image = colours(4)
    mean = np.random.default_rng(0).random((6, 8, 3)) * 255
    expected = image[:, :, ::-1] - mean
    assert np.allclose(make(image, Mean(mean), dtype="f8"), expected.transpose(2, 0, 1))
    assert np.allclose(make(image, Scale(8, 6), Mean(mean)), expected.transpose(2, 0, 1), atol=1e-4)
    assert np.allclose(make(image, Mean(mean), planes=False), expected, atol=1e-4)
    assert np.allclose(make(image, Mean(mean), Scale(8, 6)), expected.transpose(2, 0, 1), atol=1e-4)
    assert (make(image, Mean(mean[:5])) == make(image)).all()


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.99), st.floats(0, 0.99))
def test_brightness_and_contrast(brightness: float, contrast: float, first: float, second: float) -> None:
    picture = decoded(5)
    found = run(Color(brightness, contrast, 0), picture, first, second)
    values = picture.array.astype(float)
    beta = brightness * (2 * first - 1) * values.mean()
    assert np.allclose(found, np.clip(values * (1 + contrast * (2 * second - 1)) + beta, 0, 255))


@given(st.floats(0, 1), st.floats(0, 0.99))
def test_saturation_is_that_of_hsv(radius: float, draw: float) -> None:
    picture = decoded(6, 4, 4)
    found = run(Color(0, 0, radius), picture, 0, 0, draw)
    ratio = 1 + radius * (2 * draw - 1)
    for before, after in zip(picture.array.reshape(-1, 3) / 255, found.reshape(-1, 3) / 255, strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before[::-1])
        expected = colorsys.hsv_to_rgb(hue, min(saturation * ratio, 1), value)
        assert np.allclose(after[::-1], expected, atol=1e-9)


def test_the_saturation_of_what_is_nearly_gray() -> None:
    """The least difference that there is becomes larger, too."""
    pixels = np.array([[[100, 100, 101], [7, 7, 7]]], np.uint8)
    found = run(Color(0, 0, 1), Picture.decoded(pixels[..., ::-1], 3), 0, 0, 0.75)
    np.testing.assert_allclose(found, [[[101 - 1.5, 101 - 1.5, 101], [7, 7, 7]]])


def test_gray_has_no_saturation() -> None:
    picture = Picture.decoded(colours(1)[:, :, :1], 1)
    assert (run(Color(0, 0, 1), picture, 0, 0, 0.9) == picture.array).all()


def test_colours_stay_without_radius() -> None:
    picture = decoded()
    assert Color(0, 0, 0).apply(picture, [0.1, 0.2, 0.3], 0, FLOAT) is picture
    assert Intensity(0, np.ones(3), np.eye(3)).apply(picture, [0.5] * 6, 0, FLOAT) is picture


def test_intensity_shifts_along_the_axes() -> None:
    picture = decoded(7)
    vectors = np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 0]])
    normal = np.sqrt(-2 * np.log(1 - 0.5)) * np.cos(2 * np.pi * np.array([0.0, 0.25, 0.5]))
    found = run(Intensity(0.1, np.array([30.0, 20, 10]), vectors), picture, 0.5, 0.0, 0.5, 0.25, 0.5, 0.5)
    red, blue, green = 0.1 * normal * [30, 20, 10]
    expected = np.clip(picture.array + np.array([blue, green, red]), 0, 255)
    assert np.allclose(found, expected)


def test_intensities_are_normal() -> None:
    draws = np.random.default_rng(0).random((4000, 6))
    step = Intensity(2.0, np.array([1.0, 0, 0]), np.array([[1.0, 0, 0]] * 3))
    picture = Picture.of(np.full((1, 1, 3), 100.0))
    shifts = [step.apply(picture, row, 0, FLOAT).array[0, 0, 0] - 100 for row in draws.tolist()]
    assert abs(np.mean(shifts)) < 0.15
    assert abs(np.std(shifts) - 2) < 0.1


def test_sizes_that_are_known() -> None:
    def size(*some: Step) -> tuple[int, int] | None:
        return Pipeline(some, channels=3, planes=True, dtype=FLOAT).size

    jitter = attrs.evolve(CENTER, side=(0.5, 0.9), jitter=True)
    assert size() is None
    assert size(Crop(HALF, None)) is None
    assert size(Scale(30, 20), Crop(HALF, None)) == (10, 10)
    assert size(Scale(30, 20), Crop(jitter, None)) is None
    assert size(Scale(30, 20), Crop(attrs.evolve(CENTER, size=(7, 40)), None), Mean(np.zeros((1, 1, 3)))) == (7, 20)
    assert size(Crop(jitter, None), Scale(30, 20)) == (30, 20)


def test_rows_that_are_wanted_of_an_image() -> None:
    """All, but where a part is taken first."""

    def lowest(*some: Step) -> int:
        return Pipeline(some, channels=3, planes=True, dtype=FLOAT).lowest(10, 20, [0.0] * 6, 0)

    assert lowest() == 10
    assert lowest(Scale(3, 3)) == 10
    assert lowest(Scale(3, 3), Crop(HALF, None)) == 10
    assert lowest(Crop(HALF, None)) == 2 + 5
    assert lowest(Crop(attrs.evolve(HALF, kind="randomside"), None)) == 5


def test_an_image_of_another_size() -> None:
    line = Pipeline([], channels=3, planes=True, dtype=FLOAT)
    with pytest.raises(BrokenImageError) as found:
        line.make(colours(0), [], 0, np.empty((3, 5, 8)))
    assert str(found.value) == "it has 8 x 6 x 3 values after the transforms, and a sample has 120"


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    steps.kernels.cache_clear()
    try:
        assert steps.kernels() is None
    finally:
        steps.kernels.cache_clear()


def test_two_crops_have_numbers_of_their_own_and_two_streams_the_same() -> None:
    crop = Crop(attrs.evolve(HALF, kind="randomside"), None)
    lines = [Pipeline(some, channels=3, planes=True, dtype=FLOAT) for some in ([crop, crop], [Scale(3, 3), crop])]
    keys, views = np.array([3, 9], np.uint64), np.zeros(2, np.int64)
    (first, second), (third, fourth) = (line.draw(keys, views, 4) for line in lines)
    assert (first != second).all(axis=1).all()
    assert third.shape == (2, 0)
    assert (first == fourth).all()
    assert (first[0] != first[1]).all()
