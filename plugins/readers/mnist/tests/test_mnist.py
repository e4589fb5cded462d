from __future__ import annotations

import gzip
import struct
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from cntk_reader_mnist import MNISTReader
from cntk_reader_mnist.reader import IdxSource

from cntk_core.api import CntkError, EpochSpec, ReaderContext
from cntk_core.api.builders import parse_text
from cntk_core.api.readers import ChunkInfo

RECIPE = """
reader = [
    readerType = MNISTReader ; randomize = {randomize}
    features = [ file = "images" {features} ]
    labels = [ file = "labels" {labels} ]
]
"""
IMAGES = np.arange(5 * 6, dtype=np.uint8).reshape(5, 2, 3) * 8
LABELS = np.array([3, 0, 9, 1, 1], dtype=np.uint8)


def idx(values: np.ndarray, kind: int = 8) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, kind, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(idx(IMAGES), idx(LABELS))
    return tmp_path


def write(images: bytes | None = None, labels: bytes | None = None) -> None:
    if images is not None:
        Path("images").write_bytes(images)
    if labels is not None:
        Path("labels").write_bytes(labels)


def make(
    features: str = "", labels: str = "", randomize: str = "none", inputs: dict | None = None, dtype: str = "float32"
) -> MNISTReader:
    recipe = RECIPE.format(features=features, labels=labels, randomize=randomize)
    block = parse_text(recipe, file="r.cntk").section("reader")
    context = ReaderContext(dtype=np.dtype(dtype), inputs=inputs or {})
    return MNISTReader(MNISTReader.settings_from(block, "reader 'MNISTReader'"), context)


def read(reader: MNISTReader, **spec: int) -> dict[str, list]:
    minibatches = list(reader.minibatches(EpochSpec(**spec)))
    reader.close()
    return {
        stream.name: [row for mb in minibatches for row in mb.streams[stream.name].data.tolist()]
        for stream in reader.streams
    }


def error_of(**options: str) -> str:
    with pytest.raises(CntkError) as caught:
        read(make(**options))
    return str(caught.value)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_images_and_labels(pack, dtype: str) -> None:
    write(pack(idx(IMAGES)), pack(idx(LABELS)))
    reader = make(dtype=dtype)
    found = read(reader, minibatch_size=2)
    assert found["features"] == IMAGES.reshape(5, 6).tolist()
    assert found["labels"] == np.eye(10)[LABELS].tolist()
    (minibatch,) = reader.minibatches(EpochSpec())
    assert minibatch.streams["features"].data.dtype == np.dtype(dtype)
    assert minibatch.streams["features"].layout.is_frames
    reader.close()


def test_scale() -> None:
    assert read(make(features="; scale = 0.5"))["features"][4] == [96, 100, 104, 108, 112, 116]


def test_random_order() -> None:
    first = read(make(randomize="auto"))
    assert sorted(first["features"]) == IMAGES.reshape(5, 6).tolist()
    assert first != read(make())
    assert first == read(make(randomize="auto"))
    assert first != read(make(randomize="auto"), epoch=1)


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(make())
    monkeypatch.setattr("cntk_reader_mnist.reader.CHUNK_BYTES", 12)
    sizes: list[list[int]] = []
    index = IdxSource.index

    def noted(self: IdxSource) -> Sequence[ChunkInfo]:
        found = index(self)
        sizes.append([info.samples for info in found])
        return found

    monkeypatch.setattr(IdxSource, "index", noted)
    assert read(make()) == expected
    assert sizes[0] == [2, 2, 1]
    monkeypatch.setattr("cntk_reader_mnist.reader.CHUNK_BYTES", 5)
    assert read(make()) == expected
    assert sizes[-1] == [1] * 5


def test_shape_of_the_network() -> None:
    (minibatch,) = make(inputs={"Features": (1, 2, 3)}).minibatches(EpochSpec())
    assert minibatch.streams["Features"].data.shape == (5, 1, 2, 3)


def test_streams_have_any_names() -> None:
    text = 'reader = [ pixels = [ file = "images" ] ; digit = [ file = "labels" ; labelDim = 11 ] ]'
    block = parse_text(text).section("reader")
    reader = MNISTReader(MNISTReader.settings_from(block, "reader 'MNISTReader'"), ReaderContext())
    assert [(stream.name, stream.shape) for stream in reader.streams] == [("pixels", (6,)), ("digit", (11,))]


def test_missing_file() -> None:
    Path("images").unlink()
    assert error_of() == "r.cntk:4:18: MNISTReader: cannot open file 'images': no such file or directory"


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (b"\x89PNG\r\n", None, "images: this is no IDX file: it begins with 89 50 4e 47, images with 00 00 08 03"),
        (b"", None, "images: this is no IDX file: it begins with nothing, images with 00 00 08 03"),
        (idx(LABELS), None, "images: the values have 1 dimension, images have 3: they are labels"),
        (None, idx(IMAGES), "labels: the values have 3 dimensions, labels have 1: they are images"),
        (idx(IMAGES)[:10], None, "images: the file is truncated in its header"),
        (idx(IMAGES)[:-1], None, "images: the file is truncated: its header says 5 x 2 x 3 = 30 values, it has 29"),
        (idx(IMAGES) + b"x", None, "images: the file is too long: its header says 5 x 2 x 3 = 30 values, it has 31"),
        (
            idx(IMAGES, 0x0D),
            None,
            "images: IDX files with float values are not supported, only unsigned bytes",
        ),
        (None, idx(LABELS[:4]), "labels: 4 samples, but 'images' has 5"),
        (None, idx(LABELS + 7), "labels: label 10 of sample 0 is not below labelDim=10"),
        (idx(IMAGES[:0]), idx(LABELS[:0]), "images has no samples"),
        (idx(IMAGES[:, :0]), None, "images: the images have no pixels: they are 0 x 3"),
        (idx(IMAGES[:0])[:8] + b"\xff" * 8, None,
         "images: the header says that images have 4294967295 x 4294967295 pixels, more than 281474976710656"),
        (gzip.compress(idx(IMAGES), mtime=0)[:-12], None, "images: the compressed file is damaged: "
         "Compressed file ended before the end-of-stream marker was reached"),
    ],
)  # fmt: skip
def test_bad_files(images: bytes | None, labels: bytes | None, message: str) -> None:
    write(images, labels)
    assert error_of() == message


def test_no_more_is_unpacked_than_the_header_says() -> None:
    write(gzip.compress(idx(IMAGES) + bytes(64 << 20)), None)
    tracemalloc.start()
    message = error_of()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert message == "images: the file is too long: its header says 5 x 2 x 3 = 30 values, it has more"
    assert peak < 4 << 20


def test_a_compressed_file_that_promises_too_much() -> None:
    header = idx(IMAGES)[:4] + struct.pack(">3I", 5, 1 << 20, 1 << 20)
    write(gzip.compress(header + bytes(100)), None)
    assert error_of(features="") == (
        "images: the file is compressed, and its header promises 5497558138880 values, more than are unpacked in "
        "memory (4294967296)\n    Unpack it (gunzip): a plain file is read where it lies."
    )


def test_check_lists_everything() -> None:
    write(idx(IMAGES)[:-1], idx(np.array([3, 12, 1, 11], dtype=np.uint8)))
    assert [str(error) for error in make().check()] == [
        "images: the file is truncated: its header says 5 x 2 x 3 = 30 values, it has 29",
        "labels: 4 samples, but 'images' has 5",
        "labels: label 12 of sample 1 is not below labelDim=10",
        "labels: label 11 of sample 3 is not below labelDim=10",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": "; dim = 7"}, "r.cntk:4:18: stream 'features' has dim=7, but the images have 2 x 3 pixels = 6"),
        (
            {"labels": "; labelDims = 7"},
            "r.cntk:5:34: stream 'labels' of reader 'MNISTReader' has no option 'labelDims'; did you mean 'labelDim'?",
        ),
        (
            {"inputs": {"labels": (4,)}},
            "r.cntk:5:16: stream 'labels' has labelDim=10, but the network's input 'labels' is [4]",
        ),
    ],
)
def test_bad_options(options: dict, message: str) -> None:
    assert error_of(**options).splitlines()[0] == message


def test_no_images() -> None:
    block = parse_text("reader = [ readerType = MNISTReader ]").section("reader")
    with pytest.raises(CntkError) as caught:
        MNISTReader.settings_from(block, "reader 'MNISTReader'")
    assert str(caught.value).splitlines()[0].endswith("reader 'MNISTReader' has no block with images")


def test_data_in_their_order_come_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(make())
    loaded: list[int] = []
    load = IdxSource.load
    monkeypatch.setattr(IdxSource, "load", lambda self, chunk: loaded.append(chunk) or load(self, chunk))
    monkeypatch.setattr("cntk_kit_readers.chunked.FIRST_BYTES", 14)
    assert read(make()) == expected
    assert max(loaded) > 0


@pytest.mark.parametrize(("limit", "read_"), [(30, True), (29, False)])
def test_how_much_is_unpacked(limit: int, read_: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_reader_mnist.idx._MOST_UNPACKED", limit)
    write(gzip.compress(idx(IMAGES)), None)
    if read_:
        assert read(make())["features"] == IMAGES.reshape(5, 6).tolist()
    else:
        assert error_of().startswith("images: the file is compressed, and its header promises 30 values, more than")


@pytest.mark.parametrize("more", [b"", b"x"])
def test_compressed_files_are_read_in_parts(more: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_reader_mnist.idx._PART", 10)
    write(gzip.compress(idx(IMAGES) + more), None)
    if more:
        assert error_of() == "images: the file is too long: its header says 5 x 2 x 3 = 30 values, it has more"
    else:
        assert read(make())["features"] == IMAGES.reshape(5, 6).tolist()


@pytest.mark.parametrize(("limit", "read_"), [(6, True), (5, False)])
def test_the_largest_image(limit: int, read_: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_reader_mnist.idx._MOST_PIXELS", limit)
    if read_:
        assert len(read(make())["features"]) == 5
    else:
        assert error_of() == "images: the header says that images have 2 x 3 pixels, more than 5"


def test_a_header_without_sizes() -> None:
    write(idx(IMAGES)[:4])
    assert error_of() == "images: the file is truncated in its header"
    write(idx(IMAGES)[:3])
    assert error_of() == "images: this is no IDX file: it begins with 00 00 08, images with 00 00 08 03"


def test_a_closed_reader_has_forgotten_the_values() -> None:
    reader = make()
    source = reader.source
    source.index()
    write(idx(IMAGES + 1), idx(LABELS[::-1]))
    assert source.load(0).columns["features"].data.tolist() == IMAGES.reshape(5, 6).tolist()
    reader.close()
    assert source.load(0).columns["features"].data.tolist() == (IMAGES + 1).reshape(5, 6).tolist()
    assert source.load(0).columns["labels"].data.argmax(axis=1).tolist() == LABELS[::-1].tolist()
