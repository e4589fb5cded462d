"""JPEG by simplejpeg and by Pillow: the same pixels, and Pillow where something is unusual."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from cntk_reader_image import jpeg
from cntk_reader_image.decode import decode
from cntk_reader_image.limits import BrokenImageError
from PIL import Image

pytest.importorskip("simplejpeg")


def picture(mode="RGB", size=(37, 29)):
    values = np.random.default_rng(1).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    return Image.fromarray(values).resize(size, Image.Resampling.BICUBIC).convert(mode)


def encoded(image, **settings):
    file = BytesIO()
    image.save(file, "JPEG", **settings)
    return file.getvalue()


def by_pillow(data, gray, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(jpeg, "_library", lambda: None)
        return decode(data, gray=gray)[:, :, : 1 if gray else 3]


@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize(
    "settings",
    [{"subsampling": kind, "quality": quality} for kind in (0, 1, 2) for quality in (30, 95)] + [{"progressive": True}],
)
def test_the_same_pixels(settings, gray, monkeypatch):
    data = encoded(picture(), **settings)
    found = jpeg.decode_jpeg(data, gray=gray, most_pixels=None)
    assert found is not None
    np.testing.assert_array_equal(found, by_pillow(data, gray, monkeypatch))


def test_a_gray_file_has_one_plane(monkeypatch):
    data = encoded(picture("L"))
    assert jpeg.decode_jpeg(data, gray=False, most_pixels=None).shape == (29, 37, 1)
    np.testing.assert_array_equal(decode(data, gray=False), by_pillow(data, True, monkeypatch))


def test_unusual_files_are_left_to_pillow():
    turned = Image.Exif()
    turned[0x0112] = 6
    assert jpeg.decode_jpeg(encoded(picture(), exif=turned), gray=False, most_pixels=None) is None
    assert decode(encoded(picture(), exif=turned), gray=False).shape[:2] == (37, 29)
    assert jpeg.decode_jpeg(encoded(picture("CMYK")), gray=False, most_pixels=None) is None
    assert decode(encoded(picture("CMYK")), gray=False).shape[:2] == (29, 37)
    assert jpeg.decode_jpeg(encoded(picture()), gray=False, most_pixels=100) is None
    assert jpeg.decode_jpeg(b"GIF89a", gray=False, most_pixels=None) is None


@pytest.mark.parametrize("left", [2, 30, 400])
def test_a_file_that_ends_too_early_is_broken(left):
    with pytest.raises(BrokenImageError):
        decode(encoded(picture(size=(200, 150)))[:left], gray=False)


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(jpeg, "_library", lambda: None)
    assert jpeg.decode_jpeg(encoded(picture()), gray=False, most_pixels=None) is None


LARGE = (260, 310)


@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize(
    "settings",
    [{"subsampling": kind, "quality": quality} for kind in (0, 1, 2) for quality in (30, 95)]
    + [{"restart_marker_rows": 1}, {"restart_marker_blocks": 3}, {"optimize": True, "comment": b"x" * 300}],
)
def test_no_more_rows_than_are_wanted(settings, gray):
    data = encoded(picture(size=LARGE), **settings)
    whole = jpeg.decode_jpeg(data, gray=gray, most_pixels=None)
    scratch = jpeg.Scratch()
    for wanted in (1, 17, 100, 255, 256, 300, 310):
        room = scratch.take(310, 260, 1 if gray else 3)
        room[:] = 7
        asked = []
        found = jpeg.decode_jpeg(
            data,
            gray=gray,
            most_pixels=None,
            scratch=scratch,
            lowest=lambda *size, asked=asked, wanted=wanted: asked.append(size) or wanted,
        )
        assert asked == [whole.shape]
        assert found.shape == whole.shape
        np.testing.assert_array_equal(found[:wanted], whole[:wanted])
        if wanted < 260:
            assert (found[wanted + 32 :] == 7).all()
        else:  # hardly anything would be saved
            np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("settings", [{"progressive": True}, {}])
def test_files_that_are_decoded_as_a_whole(settings):
    """Their pixels lie in several scans, or their end is not where it should be."""
    data = encoded(picture(size=LARGE), **settings) + (b"" if settings else b"\n")
    found = jpeg.decode_jpeg(data, gray=False, most_pixels=None, scratch=jpeg.Scratch(), lowest=lambda *_: 1)
    np.testing.assert_array_equal(found, jpeg.decode_jpeg(data, gray=False, most_pixels=None))


def test_a_file_that_is_cut_off_is_broken_whatever_is_wanted():
    data = encoded(picture(size=LARGE), quality=95)
    for left in (len(data) // 2, len(data) - 2):
        with pytest.raises(BrokenImageError, match="truncated"):
            decode(data[:left], gray=False, scratch=jpeg.Scratch(), lowest=lambda *_: 1)


def test_small_images_have_memory_of_their_own():
    data = encoded(picture())
    scratch = jpeg.Scratch()
    first, second = (jpeg.decode_jpeg(data, gray=False, most_pixels=None, scratch=scratch) for _ in range(2))
    assert not np.shares_memory(first, second)
    assert (first == second).all()
