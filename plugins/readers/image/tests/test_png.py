"""PNG by zlib and compiled loops, and by Pillow: the same pixels, and Pillow where something is unusual."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
from cntk_reader_image import decode as decoding
from cntk_reader_image.decode import decode
from cntk_reader_image.limits import BrokenImageError
from cntk_reader_image.png import decode_png
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

SIGNATURE = b"\x89PNG\r\n\x1a\n"
PLANES = {0: 1, 2: 3, 3: 1, 6: 4}


def chunk(name: bytes, content: bytes, *, check: int | None = None) -> bytes:
    found = zlib.crc32(name + content) if check is None else check
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", found)


def header(columns: int, rows: int, kind: int, depth: int = 8, interlaced: int = 0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, depth, kind, 0, 0, interlaced))


def filtered(rows: int, size: int, filters: list[int], seed: int = 0) -> bytes:
    """Rows of random bytes, each with a filter: whatever the filter, they are some image."""
    values = np.random.default_rng(seed).integers(0, 256, (rows, size), dtype=np.uint8)
    return b"".join(bytes([filters[y % len(filters)]]) + values[y].tobytes() for y in range(rows))


def png(kind: int = 2, columns: int = 5, rows: int = 4, filters: list[int] | None = None, before: bytes = b"") -> bytes:
    raw = filtered(rows, columns * PLANES[kind], filters or [0])
    return SIGNATURE + header(columns, rows, kind) + before + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def own(data: bytes, *, gray: bool = False, most_pixels: int | None = None) -> np.ndarray | None:
    from cntk_reader_image import kernels

    return decode_png(data, kernels, gray=gray, most_pixels=most_pixels)


def by_pillow(data: bytes, *, gray: bool = False) -> np.ndarray:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decoding, "decode_png", lambda *_, **__: None)
        return decode(data, gray=gray)


def same(data: bytes, *, gray: bool = False) -> None:
    """Both give the same pixels; a fourth plane does not count."""
    found, expected = own(data, gray=gray), by_pillow(data, gray=gray)
    assert found is not None
    planes = min(found.shape[2], expected.shape[2], 3)
    assert planes == (1 if found.shape[2] == 1 else 3)
    np.testing.assert_array_equal(found[:, :, :planes], expected[:, :, :planes])


@given(
    st.sampled_from([0, 2, 6]),
    st.integers(1, 9),
    st.integers(1, 9),
    st.lists(st.integers(0, 4), min_size=1, max_size=9),
)
def test_all_filters(kind: int, columns: int, rows: int, filters: list[int]) -> None:
    same(png(kind, columns, rows, filters))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P"])
@pytest.mark.parametrize("size", [(1, 1), (37, 29), (300, 200)])
def test_files_of_pillow(mode: str, size: tuple[int, int]) -> None:
    coarse = np.random.default_rng(1).integers(0, 256, (9, 7, 4), dtype=np.uint8)
    image = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
    file = BytesIO()
    # The palette has 256 colours in any case, or its numbers would have fewer bits.
    (image.convert("RGB").quantize(256) if mode == "P" else image.convert(mode)).save(file, "PNG")
    if mode == "P" and size == (1, 1):
        assert own(file.getvalue()) is None
    else:
        same(file.getvalue())


def test_a_palette_with_transparent_colours() -> None:
    colors = np.random.default_rng(2).integers(0, 256, 256 * 3, dtype=np.uint8).tobytes()
    before = chunk(b"PLTE", colors) + chunk(b"tRNS", bytes(range(256)))
    same(png(3, 16, 16, before=before))


def test_chunks_that_change_nothing() -> None:
    same(png(before=chunk(b"gAMA", struct.pack(">I", 45455)) + chunk(b"tEXt", b"Title\0a picture")))
    same(png(before=chunk(b"tRNS", b"\0\1\0\2\0\3")))
    same(png(0, before=chunk(b"tRNS", b"\0\1")), gray=True)


def test_pixels_in_several_chunks() -> None:
    packed = zlib.compress(filtered(4, 15, [4, 3]))
    parts = b"".join(chunk(b"IDAT", part) for part in (packed[:7], b"", packed[7:20], packed[20:]))
    same(SIGNATURE + header(5, 4, 2) + parts + chunk(b"tEXt", b"Title\0x") + chunk(b"IEND", b""))


def in_depth(depth: int, kind: int) -> bytes:
    bits = depth * {0: 1, 2: 3}[kind]
    raw = filtered(4, -(-5 * bits // 8), [0])
    return SIGNATURE + header(5, 4, kind, depth) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def rotated() -> bytes:
    turned = Image.Exif()
    turned[0x0112] = 6
    file = BytesIO()
    Image.fromarray(np.arange(60, dtype=np.uint8).reshape(4, 5, 3)).save(file, "PNG", exif=turned)
    return file.getvalue()


UNUSUAL: dict[str, Callable[[], bytes]] = {
    "sixteen bits": lambda: in_depth(16, 0),
    "colours of sixteen bits": lambda: in_depth(16, 2),
    "two bits": lambda: in_depth(2, 0),
    "held upright": rotated,
    "gray with alpha": lambda: (
        SIGNATURE
        + header(5, 4, 4)
        + chunk(b"IDAT", zlib.compress(filtered(4, 10, [1])))
        + chunk(b"IEND", b"")
    ),
    "interlaced": lambda: (
        SIGNATURE
        + header(1, 1, 0, interlaced=1)
        + chunk(b"IDAT", zlib.compress(b"\0\7"))
        + chunk(b"IEND", b"")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_files_are_left_to_pillow(name: str) -> None:
    data = UNUSUAL[name]()
    assert own(data) is None
    expected = by_pillow(data)
    assert expected.shape[:2] == {"held upright": (5, 4), "interlaced": (1, 1)}.get(name, (4, 5))
    np.testing.assert_array_equal(decode(data, gray=False), expected)


def test_colours_as_gray_are_left_to_pillow() -> None:
    assert own(png(2), gray=True) is None
    assert own(png(0), gray=True) is not None
    assert own(png(2), most_pixels=19) is None
    assert own(b"GIF89a") is None
    assert own(b"") is None


GOOD = zlib.compress(filtered(4, 15, [0]))
BROKEN = {
    "a filter that there is not": SIGNATURE + header(5, 4, 2) + chunk(b"IDAT", zlib.compress(filtered(4, 15, [5]))),
    "too few pixels": SIGNATURE + header(5, 5, 2) + chunk(b"IDAT", GOOD),
    "no pixels": SIGNATURE + header(5, 4, 2) + chunk(b"IEND", b""),
    "a wrong check sum": SIGNATURE + header(5, 4, 2) + chunk(b"gAMA", b"\0\0\0\1", check=7) + chunk(b"IDAT", GOOD),
    "no palette": SIGNATURE + header(15, 4, 3) + chunk(b"IDAT", GOOD),
    "pixels that are cut off": SIGNATURE + header(5, 4, 2) + chunk(b"IDAT", GOOD)[:-9],
    "pixels that cannot be unpacked": SIGNATURE + header(5, 4, 2) + chunk(b"IDAT", b"\x78\x9c" + b"\xff" * 20),
    "a chunk that never ends": SIGNATURE + header(5, 4, 2) + b"\xff\xff\xff\xfftEXtx",
    "nothing but the beginning": SIGNATURE + header(5, 4, 2)[:12],
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_left_to_pillow(name: str) -> None:
    assert own(BROKEN[name]) is None


@pytest.mark.parametrize("name", ["pixels that are cut off", "no pixels"])
def test_broken_files_are_named(name: str) -> None:
    with pytest.raises(BrokenImageError):
        decode(BROKEN[name], gray=False)


@given(st.integers(8, 130), st.integers(0, 255))
def test_a_changed_byte(place: int, value: int) -> None:
    """Whatever is changed in a file: it is left to Pillow, or the pixels are those that Pillow finds."""
    data = bytearray(png(2, filters=[0, 1, 2, 3, 4]))
    data[min(place, len(data) - 1)] = value
    found = own(bytes(data))
    if found is not None:
        np.testing.assert_array_equal(found, by_pillow(bytes(data))[:, :, :3])


def test_more_pixels_than_the_file_says_take_no_memory() -> None:
    bomb = zlib.compress(bytes(1 << 24))
    assert own(SIGNATURE + header(5, 4, 2) + chunk(b"IDAT", bomb)) is None


def test_comments_of_pillow_do_not_matter() -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("Author", "somebody")
    file = BytesIO()
    Image.new("RGB", (4, 4), (1, 2, 3)).save(file, "PNG", pnginfo=info, dpi=(300, 300))
    same(file.getvalue())
