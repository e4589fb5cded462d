"""Images that anybody may have made: none takes more memory than the recipe allows, and nobody's remarks come raw."""

from __future__ import annotations

import base64
import io
import os
import struct
import threading
import tracemalloc
import warnings
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_image.base64file import read_base64
from cntk_reader_image.containers import Container, read_file
from cntk_reader_image.decode import decode
from cntk_reader_image.heard import heard
from cntk_reader_image.limits import IMAGE_PIXELS, BrokenImageError, Limits
from image_recipes import deserializer
from PIL import Image

from cntk_core.api import CntkError, EpochSpec, Location

SCALE = 'type="Scale" ; width=8 ; height=6 ; channels=3'


def png_of(columns: int, rows: int, color: int = 0) -> bytes:
    """A gray PNG of zeros in few bytes: 0 is a kind that is decoded here, 4 one that Pillow decodes."""
    planes = {0: 1, 4: 2}[color]

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    packer = zlib.compressobj(9)
    row = bytes(1 + columns * planes)
    packed = b"".join(packer.compress(row) for _ in range(rows)) + packer.flush()
    header = struct.pack(">IIBBBBB", columns, rows, 8, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def encoded(kind: str, columns: int = 200, rows: int = 100) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((rows, columns, 3), np.uint8)).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("data", [encoded("JPEG"), encoded("PNG"), encoded("BMP"), encoded("GIF"), png_of(200, 100, 4)])
def test_an_image_with_more_pixels_is_refused(data: bytes) -> None:
    assert decode(data, gray=False, limits=Limits(20_000)).shape[:2] == (100, 200)
    with pytest.raises(BrokenImageError) as caught:
        decode(data, gray=False, limits=Limits(19_999))
    assert str(caught.value) == "it has 200 x 100 = 20000 pixels, more than maxImagePixels=19999"


@pytest.mark.parametrize("color", [0, 4])
def test_it_is_refused_before_it_is_decoded(color: int) -> None:
    data = png_of(4000, 4000, color)
    tracemalloc.start()
    with pytest.raises(BrokenImageError, match="4000 x 4000 = 16000000 pixels"):
        decode(data, gray=False, limits=Limits(1_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_the_limit_of_a_recipe(images: Path, make) -> None:
    reader = make("ImageDeserializer", deserializer(SCALE, top="randomize=none ; maxImagePixels=47"))
    with pytest.raises(CntkError) as caught:
        list(reader.minibatches(EpochSpec(minibatch_size=4)))
    assert str(caught.value) == (
        "map.txt:1: cannot use image '0.png': it has 8 x 6 = 48 pixels, more than maxImagePixels=47\n"
        "    maxErrors=1 leaves it out."
    )
    reader = make("ImageDeserializer", deserializer(SCALE, top="randomize=none ; maxImagePixels=48"))
    assert sum(minibatch.samples for minibatch in reader.minibatches(EpochSpec(minibatch_size=4))) == 11


def test_a_larger_limit_than_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    told: list[str] = []
    assert decode(encoded("BMP"), gray=False, limits=Limits(IMAGE_PIXELS), tell=told.append).shape[:2] == (100, 200)
    assert told == []


def test_all_threads_together_take_no_more() -> None:
    limits = Limits(100)
    held, released = threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        with limits.one_image():
            limits.take(6, 10)
            held.set()
            released.wait(60)
            order.append("first ends")

    def second() -> None:
        held.wait(60)
        with limits.one_image():
            limits.take(4, 10)
            order.append("there is room for 40")
        with limits.one_image():
            released.set()
            limits.take(5, 10)
            order.append("there is room for 50")

    threads = [threading.Thread(target=task) for task in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert order == ["there is room for 40", "first ends", "there is room for 50"]


def test_who_has_pixels_waits_for_nobody() -> None:
    limits = Limits(100)
    with limits.one_image():
        limits.take(6, 10)
        limits.take(10, 10)
        limits.take(5, 10)
    with limits.one_image():
        limits.take(10, 10)


def test_files_that_no_image_can_have(folder: Path, make) -> None:
    limits = Limits(1)
    with Path("large.png").open("wb") as file:
        file.truncate(limits.file_bytes + 1)
    with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("large.png", bytes(limits.file_bytes + 1))
        archive.writestr("small.png", b"1")
    container = Container("bomb.zip", Location("m"))
    message = f"its file has {limits.file_bytes + 1} bytes, more than an image of maxImagePixels=1 can have"
    with pytest.raises(BrokenImageError) as caught:
        container.read("large.png", limits)
    assert str(caught.value) == message
    assert container.read("small.png", limits) == b"1"
    container.close()
    Path("map.txt").write_text("large.png\t0\n")
    reader = make("ImageDeserializer", deserializer(SCALE, top="maxImagePixels=1"))
    with pytest.raises(CntkError, match=message):
        next(reader.minibatches(EpochSpec(minibatch_size=1)))


@pytest.mark.parametrize("kind", ["ImageDeserializer", "Base64ImageDeserializer"])
def test_long_lines(folder: Path, make, kind: str) -> None:
    text = base64.b64encode(png_of(2, 2)).decode()
    Path("map.txt").write_text(f"0\t{text}\n0\t{text}{'A' * 200}\n")
    if kind == "ImageDeserializer":
        Path("map.txt").write_text(f"a.png\t0\n{'b' * 300}.png\t0\n")
    with pytest.raises(CntkError) as caught:
        make(kind, deserializer(SCALE, top="maxLineBytes=250"))
    assert str(caught.value) == (
        "map.txt:2: the line has more than 250 bytes, maxLineBytes=250\n"
        "    Is it the right file? If it is, give the reader a larger maxLineBytes."
    )


def test_a_zero_byte_in_a_map_file(images: Path, make) -> None:
    images.write_text("0.png\t0\n1\0.png\t1\na\tb.zip@/c\0.png\t1\n")
    with pytest.raises(CntkError) as caught:
        make("ImageDeserializer", deserializer(SCALE))
    assert str(caught.value) == (
        "map.txt:2: the line has a zero byte, which no path can have\n"
        "map.txt:3: the line has a zero byte, which no path can have\n2 problems found"
    )


def odd_tiff() -> bytes:
    """A TIFF that Pillow reads with a remark: a tag's data lie behind the end of the file."""
    data = bytearray(encoded("TIFF", 8, 6))
    begin = struct.unpack_from("<I", data, 4)[0]
    count = struct.unpack_from("<H", data, begin)[0]
    entries = [data[begin + 2 + 12 * i : begin + 14 + 12 * i] for i in range(count)]
    entries.append(bytearray(struct.pack("<HHII", 0x9286, 7, 900, 10**6)))
    where = len(data)
    data += struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
    struct.pack_into("<I", data, 4, where)
    return bytes(data)


def test_remarks_of_pillow_come_once_for_a_file_with_its_name(images: Path, make) -> None:
    for number in (2, 5):
        Path(f"{number}.png").write_bytes(odd_tiff())
    reader = make("ImageDeserializer", deserializer(SCALE, top="randomize=none ; cacheSizeInBytes=0"))
    for epoch in range(2):
        minibatches = list(reader.minibatches(EpochSpec(epoch=epoch, minibatch_size=4)))
        assert sum(minibatch.samples for minibatch in minibatches) == 11
    assert len(reader.told) == 2
    for line, number in zip(sorted(reader.told), (2, 5), strict=True):
        assert line.startswith(f"WARNING: map.txt:{number + 1}: image '{number}.png': ")


def test_many_remarks_are_cut_short(images: Path, make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_reader_image.maker.MOST_PROBLEMS", 3)
    for number in range(11):
        Path(f"{number}.png").write_bytes(odd_tiff())
    reader = make("ImageDeserializer", deserializer(SCALE))
    list(reader.minibatches(EpochSpec(minibatch_size=4)))
    assert len(reader.told) == 4
    assert reader.told[-1] == "WARNING: there are remarks on more images"


def test_each_thread_hears_its_own_warnings() -> None:
    both = threading.Barrier(2, timeout=60)
    found: dict[str, list[str]] = {}

    def task(name: str) -> None:
        with heard() as texts:
            both.wait()
            warnings.warn(f"of\n{name}", UserWarning, stacklevel=1)
            both.wait()
        found[name] = texts

    before = warnings.showwarning, list(warnings.filters)
    threads = [threading.Thread(target=task, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {"a": ["of a"], "b": ["of b"]}
    assert (warnings.showwarning, list(warnings.filters)) == before
    with pytest.raises(UserWarning, match="outside"):
        warnings.warn("outside", UserWarning, stacklevel=1)


def test_warnings_of_others_go_where_they_went(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[object, ...]] = []
    with warnings.catch_warnings():
        monkeypatch.setattr(warnings, "showwarning", lambda *given: shown.append(given))
        with heard() as texts:
            thread = threading.Thread(target=warnings.warn_explicit, args=("of another", UserWarning, "some.py", 7))
            thread.start()
            thread.join(60)
    assert texts == []
    ((message, category, *rest),) = shown
    assert (str(message), category, rest[:2]) == ("of another", UserWarning, ["some.py", 7])


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (np.int32, [-5, 0, 255, 256, 40000, 65535, 65536, 70000], [0, 0, 0, 1, 156, 255, 255, 255]),
        (np.float32, [-3.2, 0.0, 0.4, 0.6, 1.5, 254.7, 255.4, 300.0], [0, 0, 0, 1, 2, 255, 255, 255]),
    ],
)
def test_gray_of_more_than_eight_bits(kind: type, values: list[float], expected: list[int]) -> None:
    """The upper eight of sixteen bits; what is beyond is cut off."""
    file = io.BytesIO()
    Image.fromarray(np.array([values], kind)).save(file, "TIFF")
    assert decode(file.getvalue(), gray=True)[0, :, 0].tolist() == expected


def test_bytes_of_a_file_that_an_image_may_have() -> None:
    assert Limits(1000).file_bytes == 8 * 1000 + 16 * 1024 * 1024


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="nobody says which files are open")
def test_files_of_images_are_closed(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    before = len(os.listdir("/dev/fd"))
    for limits in (Limits(1000), Limits(-(1 << 24))):
        for _ in range(3):
            with suppress(BrokenImageError):
                assert read_file(str(tmp_path / "x"), limits) == b"12345"
    assert len(os.listdir("/dev/fd")) == before


def test_a_file_that_grows_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"123456789")
    found = os.stat_result((0,) * 6 + (2,) + (0,) * 3)
    monkeypatch.setattr(os, "fstat", lambda file: found)
    assert read_file(str(tmp_path / "x"), Limits(1000)) == b"123456789"
    with pytest.raises(BrokenImageError, match="its file has 9 bytes, more than an image of"):
        read_file(str(tmp_path / "x"), limits_of(8))


def limits_of(size: int) -> Limits:
    """Limits of files of so many bytes, rounded up to 8."""
    return Limits(size // 8 - (1 << 21))


def test_files_that_are_too_large_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"123456789")
    text = base64.b64encode(b"1" * 30)
    (tmp_path / "b").write_bytes(b"0\t" + text + b"\n")
    images = read_base64(tmp_path / "b", 1, None, limits_of(24))
    monkeypatch.setattr(os, "read", None)
    with pytest.raises(BrokenImageError, match="its file has 9 bytes"):
        read_file(str(tmp_path / "x"), limits_of(8))
    with pytest.raises(BrokenImageError, match="its file has 30 bytes"):
        images.read(0)
    images.close()
