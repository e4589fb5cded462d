"""Samples that are made together, in one compiled loop, are those that are made one by one."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest
from cntk_reader_image import decode as decoding
from cntk_reader_image import pipeline as pipelines
from cntk_reader_image.geometry import CropRule
from cntk_reader_image.jpeg import SMALL, Scratch
from cntk_reader_image.pipeline import Pipeline
from cntk_reader_image.resample import taps
from cntk_reader_image.steps import Color, Crop, Mean, Scale, Step
from hypothesis import given
from hypothesis import strategies as st
from image_recipes import colours, legacy
from PIL import Image

from cntk_core.api import EpochSpec

CENTER = CropRule(kind="center", size=(0, 0), side=None, area=None, aspect=(1.0, 1.0), jitter=False)
RATIOS = st.tuples(st.floats(0.05, 1), st.floats(0.05, 1)).map(lambda pair: (min(pair), max(pair)))


@st.composite
def crops(draw: st.DrawFn) -> Crop:
    which, share = draw(st.sampled_from(["side", "area", "none"])), draw(RATIOS)
    rule = CropRule(
        kind=draw(st.sampled_from(["center", "randomside", "randomarea", "multiview10"])),
        size=draw(st.sampled_from([(0, 0), (7, 9)])),
        side=share if which == "side" else None,
        area=share if which == "area" else None,
        aspect=draw(st.one_of(st.just((1.0, 1.0)), RATIOS)),
        jitter=draw(st.booleans()),
    )
    return Crop(rule, draw(st.sampled_from([None, True, False])), draw(st.integers(0, 3)))


def mean_of(columns: int, rows: int, channels: int) -> Mean:
    return Mean(np.random.default_rng(1).random((rows, columns, channels)) * 255)


@given(
    st.one_of(st.none(), crops()),
    st.booleans(),
    st.sampled_from([1, 3]),
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3, 4])), min_size=1, max_size=5),
    st.integers(0, 9),
)
def test_the_same_samples(
    crop: Crop | None, less: bool, channels: int, shapes: list[tuple[int, int, int]], view: int
) -> None:
    steps: list[Step] = [] if crop is None else [crop]
    steps += [Scale(7, 5)] + ([mean_of(7, 5, channels)] if less else [])
    line = Pipeline(steps, channels=channels, planes=True, dtype=np.dtype(np.float32))
    random = np.random.default_rng(len(shapes))
    planes = [1 if channels == 1 else shape[2] for shape in shapes]
    images = [random.integers(0, 256, (*shape[:2], p), dtype=np.uint8) for shape, p in zip(shapes, planes, strict=True)]
    count = len(images) + 1
    keys, views = np.arange(count, dtype=np.uint64), np.full(count, view)
    draws = line.draw(keys, views, 2)
    one, many = (np.full((count, channels * 5 * 7), -1, np.float32) for _ in range(2))
    rows = np.arange(count - 1, 0, -1)
    assert line.makes_together(channels * 5 * 7)
    line.make_together(images, draws, views, rows, many)
    for image, row in zip(images, rows.tolist(), strict=True):
        line.make(image, [own[row].tolist() for own in draws], view, one[row])
    np.testing.assert_array_equal(many, one)
    assert (many[0] == -1).all()


@given(st.integers(1, 3000), st.integers(1, 300))
def test_taps(source: int, target: int) -> None:
    from cntk_reader_image import kernels

    expected = taps(source, target, "linear")
    places, weights = np.empty((target, 2), np.int32), np.empty((target, 2), np.int32)
    kernels.linear_taps(source, places, weights)
    np.testing.assert_array_equal(places, expected.places)
    np.testing.assert_array_equal(weights, expected.weights)


def test_what_cannot_be_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def together(*steps: Step, planes: bool = True, size: int = 105) -> bool:
        return Pipeline(steps, channels=3, planes=planes, dtype=np.dtype("f4")).makes_together(size)

    crop = Crop(attrs.evolve(CENTER, side=(0.5, 0.5)), None)
    assert together(crop, Scale(7, 5), mean_of(7, 5, 3))
    assert not together(crop, Scale(7, 5), planes=False)
    assert not together(crop, Scale(7, 5), size=104)
    assert not together(crop, Scale(7, 5, method="cubic"))
    assert not together(crop, Scale(7, 5, mode="pad"))
    assert not together(crop, crop, Scale(7, 5))
    assert not together(Color(0.1, 0, 0), Scale(7, 5))
    assert not together(crop, Scale(7, 5), Color(0.1, 0, 0))
    assert not together(crop)
    assert not together()
    monkeypatch.setattr(pipelines, "kernels", lambda: None)
    assert not together(crop, Scale(7, 5))


RECIPE = ("cropType=randomSide", "sideRatio=0.5:0.9", "jitterType=uniRatio")


def epochs(reader) -> list[np.ndarray]:
    return [
        np.concatenate([m.streams["features"].data for m in reader.minibatches(EpochSpec(epoch=k, minibatch_size=4))])
        for k in range(3)
    ]


@pytest.mark.parametrize("kept", [0, 10000000])
def test_large_images_are_made_one_by_one(images: Path, make, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """Of a JPEG that is not kept the rows are decoded that the part needs."""
    lines = []
    for number, kind in enumerate(("png", "jpg", "jpg")):
        Image.fromarray(colours(number, 200, 150)).save(f"x{number}.{kind}")
        lines.append(f"x{number}.{kind}\t1\n")
    Path("map.txt").write_text("".join(lines))
    recipe = legacy(*RECIPE, top=f"randomize=none\nnumCPUThreads=2\ncacheSizeInBytes={kept}")
    found = [one for _ in range(2) for one in epochs(make("ImageReader", recipe))[:2]]
    monkeypatch.setattr(pipelines, "kernels", lambda: None)
    expected = epochs(make("ImageReader", recipe))[:2]
    assert (found[0] != found[1]).any()
    np.testing.assert_array_equal(found, expected * 2)


@pytest.mark.slow
def test_the_same_images_by_pillow_and_numpy(images: Path, make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small and large ones, PNG and JPEG, with and without the memory of what was decoded."""
    lines = []
    for number, kind in enumerate(("png", "jpg") * 3):
        rows = 200 if number % 3 else 9
        Image.fromarray(colours(number, rows, 150)).save(f"x{number}.{kind}")
        assert (rows * 150 * 3 > SMALL) == bool(number % 3)
        lines.append(f"x{number}.{kind}\t1\n")
    Path("map.txt").write_text("".join(lines))
    tops = [
        f"randomize=none\nnumCPUThreads={threads}\ncacheSizeInBytes={kept}"
        for threads in (1, 3)
        for kept in (0, 10000000)
    ]
    found = [epochs(make("ImageReader", legacy(*RECIPE, top=top))) for top in tops]
    monkeypatch.setattr(pipelines, "kernels", lambda: None)
    monkeypatch.setattr(decoding, "kernels", lambda: None)
    monkeypatch.setattr(decoding, "decode_jpeg", lambda *_, **__: None)
    expected = epochs(make("ImageReader", legacy(*RECIPE)))
    assert len({sweep.tobytes() for sweep in expected}) == 3
    for one in found:
        np.testing.assert_array_equal(one, expected)


def test_memory_for_large_images() -> None:
    scratch = Scratch()
    assert scratch.take(1, SMALL, 1) is None
    first = scratch.take(200, 200, 3)
    assert first is not None
    assert first.size == 200 * 200 * 3
    second = scratch.take(100, 300, 3)
    assert second is not None
    assert second.size == 100 * 300 * 3
    assert np.shares_memory(first, second)
    larger = scratch.take(400, 300, 3)
    assert larger is not None
    assert not np.shares_memory(first, larger)
