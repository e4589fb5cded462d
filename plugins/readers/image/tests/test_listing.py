"""Map files, base64 files and containers: what is known of images before any is decoded."""

from __future__ import annotations

import base64
import gc
import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_image.base64file import read_base64
from cntk_reader_image.containers import split_container
from cntk_reader_image.decode import decode
from cntk_reader_image.limits import BrokenImageError
from cntk_reader_image.listing import random_key, read_map
from cntk_reader_image.views import view
from hypothesis import given
from hypothesis import strategies as st
from image_recipes import colours
from PIL import Image


def test_a_map_file(folder: Path) -> None:
    Path("m.txt").write_bytes(b"\xef\xbb\xbfa b.png\t3\r\n\nc.png\t 0 \n")
    images = read_map(Path("m.txt"), 4, None)
    assert len(images) == 2
    assert images.paths == ["a b.png", "c.png"]
    assert images.classes.tolist() == [3, 0]
    assert [str(images.where(i)) for i in (0, 1)] == ["m.txt:1", "m.txt:3"]
    assert [images.key(i) for i in (0, 1)] == [0, 2]
    assert images.random_keys().tolist() == [0, 2]


def test_keys_of_a_map_file(folder: Path) -> None:
    Path("m.txt").write_text("cat\ta.png\t1\nb.png\t2\t\n12\tc.png\t0\trest\n")
    images = read_map(Path("m.txt"), 4, None)
    assert [images.key(i) for i in range(3)] == ["cat", "1", "12"]
    assert images.paths == ["a.png", "b.png", "c.png"]
    assert images.random_keys().tolist() == [random_key("cat"), 1, 12]


@given(st.text(max_size=30))
def test_random_keys_are_numbers_of_64_bits(name: str) -> None:
    assert 0 <= random_key(name) < 2**64
    assert random_key(name) == random_key(name)


def test_where_files_are(folder: Path) -> None:
    """Relative to the working directory; those with dots to the map file."""
    Path("sub").mkdir()
    Path("x.png").write_bytes(b"one")
    Path("sub/x.png").write_bytes(b"two")
    Path("sub/m.txt").write_text("x.png\t0\n.../x.png\t0\n...\t0\n")
    images = read_map(Path("sub/m.txt"), 1, None)
    assert [images.read(i) for i in (0, 1)] == [b"one", b"two"]
    with pytest.raises(BrokenImageError, match="is a directory"):
        images.read(2)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.zip@/b/c.png", ("a.zip", "b/c.png")),
        ("d/a.zip@\\b\\c.png", ("d/a.zip", "b/c.png")),
        ("a.ZIP@c.png", ("a.ZIP", "c.png")),
        ("archive@/c.png", ("archive", "c.png")),
        ("image@2x.png", None),
        ("image.png", None),
    ],
)
def test_paths_into_containers(path: str, expected: tuple[str, str] | None) -> None:
    assert split_container(path) == expected


def test_images_in_containers(folder: Path) -> None:
    Path("sub").mkdir()
    for name, method in (("sub/a.zip", zipfile.ZIP_STORED), ("b.zip", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(name, "w", method) as container:
            container.writestr("deep/x.png", name.encode())
    Path("sub/m.txt").write_text(".../a.zip@/deep/x.png\t0\nb.zip@/deep/x.png\t0\nb.zip@/deep/x.png\t0\n")
    images = read_map(Path("sub/m.txt"), 1, None)
    assert [images.read(i) for i in range(3)] == [b"sub/a.zip", b"b.zip", b"b.zip"]
    files = [container._zip.fp for container in images.containers.values()]
    images.close()
    images.close()
    assert [file is not None and file.closed for file in files] == [True, True]


def test_a_damaged_container(folder: Path) -> None:
    with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as container:
        container.writestr("x", b"abc" * 1000)
    data = bytearray(Path("a.zip").read_bytes())
    data[40] ^= 255
    Path("a.zip").write_bytes(data)
    Path("m.txt").write_text("a.zip@/x\t0\n")
    images = read_map(Path("m.txt"), 1, None)
    with pytest.raises(BrokenImageError):
        images.read(0)
    images.close()


def write_base64(path: str, *rows: tuple[bytes, ...]) -> None:
    Path(path).write_bytes(b"\n".join(b"\t".join(row) for row in rows))


def test_a_base64_file(folder: Path) -> None:
    text = base64.b64encode(b"image")
    write_base64("b.txt", (b"2", text + b" \t"), (), (b"0", text))
    images = read_base64(Path("b.txt"), 3, None)
    assert images.classes.tolist() == [2, 0]
    assert [images.key(i) for i in (0, 1)] == [0, 2]
    assert [images.read(i) for i in (0, 1)] == [b"image", b"image"]
    assert images.title(1) == "'2'"
    images.close()


def test_keys_of_a_base64_file(folder: Path) -> None:
    text = base64.b64encode(b"image")
    write_base64("b.txt", (b"cat", b"2", text), (b"dog", b"1", text[:4] + b"*" + text[4:]))
    images = read_base64(Path("b.txt"), 3, None)
    assert [images.key(i) for i in (0, 1)] == ["cat", "dog"]
    assert images.read(0) == b"image"
    with pytest.raises(BrokenImageError, match="the line is no base64: "):
        images.read(1)
    images.close()


@pytest.mark.parametrize("first", [(b"2",), (b"cat", b"2")])
def test_a_base64_file_that_begins_with_a_mark_of_its_encoding(folder: Path, first: tuple[bytes, ...]) -> None:
    text = base64.b64encode(b"image")
    write_base64("b.txt", (b"\xef\xbb\xbf" + first[0], *first[1:], text), (*first, text))
    images = read_base64(Path("b.txt"), 3, None)
    assert images.classes.tolist() == [2, 2]
    assert [images.key(i) for i in (0, 1)] == ([0, 1] if len(first) == 1 else ["cat", "cat"])
    assert [images.read(i) for i in (0, 1)] == [b"image", b"image"]
    images.close()


def test_chunks_of_a_base64_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many whole lines as have room, at least one."""
    monkeypatch.setattr("cntk_reader_image.base64file.CHUNK_BYTES", 20)
    rows = [(b"0", b"a" * (4 * length)) for length in (1, 1, 1, 9, 1, 1)]
    write_base64("b.txt", *rows)
    images = read_base64(Path("b.txt"), 1, None)
    assert images.chunks is not None
    assert images.chunks.tolist() == [0, 2, 3, 4, 6]
    images.close()


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    path = Path("x." + kind)
    image.save(path, **options)
    return path.read_bytes()


def planes(data: bytes, *, gray: bool = False) -> np.ndarray:
    """The planes that count."""
    return decode(data, gray=gray)[:, :, :3]


def test_kinds_of_images(folder: Path) -> None:
    image = Image.fromarray(colours(1))
    expected = np.asarray(image)
    assert (planes(encoded(image, "png")) == expected).all()
    assert (planes(encoded(image, "bmp")) == expected).all()
    assert (planes(encoded(image.convert("RGBA"), "png")) == expected).all()
    assert (planes(encoded(image.convert("P"), "png")) == np.asarray(image.convert("P").convert("RGB"))).all()
    assert planes(encoded(image.convert("1"), "png")).shape == (6, 8, 1)
    assert planes(encoded(image.convert("CMYK"), "jpg")).shape == (6, 8, 3)
    gray = image.convert("L")
    for kind in ("png", "jpg"):
        assert (planes(encoded(gray, kind), gray=True) == planes(encoded(gray, kind))).all()
    assert (planes(encoded(image, "png"), gray=True)[:, :, 0] == np.asarray(gray)).all()
    deep = Image.fromarray((np.arange(48, dtype=np.uint16) * 1300).reshape(6, 8))
    assert (planes(encoded(deep, "png"), gray=True)[:, :, 0] == np.asarray(deep) // 256).all()
    numbers = Image.fromarray(np.linspace(-9, 300, 48, dtype=np.float32).reshape(6, 8))
    found = planes(encoded(numbers, "tiff"), gray=True)[:, :, 0]
    assert (found == np.clip(np.rint(np.asarray(numbers)), 0, 255)).all()


def test_palettes_with_transparency(folder: Path) -> None:
    image = Image.fromarray(colours(1)).convert("P")
    data = encoded(image, "png", transparency=bytes([0, 128] * 128))
    assert (decode(data, gray=False)[:, :, :3] == np.asarray(image.convert("RGB"))).all()


def test_gray_of_a_photograph_is_its_luminance(folder: Path) -> None:
    """The gray image that a JPEG holds, not the gray of its decoded colours: as CNTK decodes it."""
    data = encoded(Image.fromarray(colours(2, 32, 32)), "jpg")
    with Image.open("x.jpg") as image:
        image.draft("L", image.size)
        expected = np.asarray(image)
    assert (decode(data, gray=True)[:, :, 0] == expected).all()


def test_photographs_stand_upright(folder: Path) -> None:
    image = Image.fromarray(colours(3, 16, 32))
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = decode(encoded(image, "jpg", exif=exif, quality=100), gray=False)
    straight = decode(encoded(image, "jpg", quality=100), gray=False)
    assert (turned[:, :, :3] == np.rot90(straight, -1)[:, :, :3]).all()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"no image at all", "the data are no image of a known format"),
    ],
)
def test_no_image(data: bytes, reason: str) -> None:
    with pytest.raises(BrokenImageError) as found:
        decode(data, gray=False)
    assert str(found.value) == reason


@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_an_image_that_ends_too_early(folder: Path, kind: str) -> None:
    data = encoded(Image.fromarray(colours(1, 40, 40)), kind)
    with pytest.raises(BrokenImageError, match="truncated"):
        decode(data[: len(data) // 2], gray=False)


@given(st.binary(max_size=60), st.integers(0, 300))
def test_damaged_images_never_surprise(noise: bytes, at: int) -> None:
    data = bytearray(GOOD)
    at %= len(data)
    data[at : at + len(noise)] = noise
    try:
        assert decode(bytes(data), gray=False).dtype == np.uint8
    except BrokenImageError:
        return


def _good() -> bytes:
    from io import BytesIO

    file = BytesIO()
    Image.fromarray(colours(1, 16, 16)).save(file, "png")
    return file.getvalue()


GOOD = _good()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_pixels_are_not_copied_and_outlive_their_image(mode: str) -> None:
    image = Image.fromarray(colours(1)).convert(mode)
    expected = np.asarray(image).copy().reshape(6, 8, -1)
    found = view(image)
    assert found.shape == (6, 8, 1 if mode == "L" else 4)
    assert not found.flags.writeable
    image.close()
    del image
    gc.collect()
    assert (found[:, :, : expected.shape[2]] == expected).all()


def test_pixels_that_cannot_be_shared_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.fromarray(colours(1))
    monkeypatch.setattr(Image.Image, "__arrow_c_array__", several_pieces)
    assert (view(image) == colours(1)).all()
    monkeypatch.delattr(Image.Image, "__arrow_c_array__")
    assert (view(image) == colours(1)).all()
    assert view(image.convert("L")).shape == (6, 8, 1)


def several_pieces(*_: object) -> None:
    raise ValueError("Image is in multiple array blocks")


@pytest.mark.parametrize(("name", "number"), [("0", 0), ("9" * 18, 10**18 - 1), ("017", 17)])
def test_numbers_are_the_keys_of_random_numbers(name: str, number: int) -> None:
    assert random_key(name) == number


@pytest.mark.parametrize("name", ["9" * 19, "a", "-1", "\u0661", ""])
def test_other_names_have_a_key_of_64_bits(name: str) -> None:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    assert random_key(name) == int.from_bytes(digest, "little")
