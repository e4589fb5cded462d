"""``cntk data``: files of MNIST and CIFAR-10, made of small ones in their formats."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_tool_data.cifar10 import CHECKSUMS, Cifar10, convert_cifar10
from cntk_tool_data.files import Progress
from cntk_tool_data.mnist import Mnist, convert_mnist
from cntk_tool_data.pickled import read_batch
from cntk_tool_data.png import encode_png
from cntk_tool_data.verb import Data
from hypothesis import given, settings
from hypothesis import strategies as st

from cntk_core.api import CntkError, DataError
from cntk_kit_recipes.cli import main
from cntk_testing import DatasetContract, PackagingContract, VerbContract

BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("raw").mkdir()
    return tmp_path


def test_every_thousand_images_are_told_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And are wiped away when the file is written; elsewhere that alone is told."""
    for moving in (True, False):
        monkeypatch.setattr("sys.stderr.isatty", lambda moving=moving: moving)
        progress = Progress()
        for count in (1, 999, 1000, 1001, 2000):
            progress.at("x", count)
        progress.done("x", "2001 images")
        wiped = f"\r{'':14}\r"
        said = capsys.readouterr()
        assert said.err == (f"\rx: 1000 images\rx: 2000 images{wiped}" if moving else "")
        assert said.out == "x: 2001 images\n"
        progress.done("y", "3 images")  # nothing of it was told, so nothing is wiped away
        assert capsys.readouterr() == ("y: 3 images\n", "")


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def write_tar(path: Path, folder: str, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


# -- MNIST ------------------------------------------------------------------------------------------------


def idx(values: np.ndarray) -> bytes:
    return bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes() + values.astype(np.uint8).tobytes()


def mnist_files() -> dict[str, bytes]:
    random = np.random.default_rng(1)
    files = {}
    for stem, count in (("train", 5), ("t10k", 3)):
        files[f"{stem}-images-idx3-ubyte"] = idx(random.integers(256, size=(count, 4, 3)))
        files[f"{stem}-labels-idx1-ubyte"] = idx(np.arange(count) + 4)
    return files


def test_mnist_text(capsys: pytest.CaptureFixture[str]) -> None:
    files = mnist_files()
    for name, data in files.items():
        Path("raw", f"{name}.gz").write_bytes(gzip.compress(data))
    assert main(["data", "mnist", "--from", "raw", "--to", "new/mnist", "--no-checksum"]) == 0
    train, test = Path("new/mnist/Train-3x4_cntk_text.txt"), Path("new/mnist/Test-3x4_cntk_text.txt")
    assert capsys.readouterr().out == f"{train}: 5 images\n{test}: 3 images\n"
    lines = test.read_text(encoding="utf-8").splitlines()
    pixels = np.frombuffer(files["t10k-images-idx3-ubyte"][16:], np.uint8).reshape(3, 12)
    assert lines == [
        f"|labels {hot} |features {' '.join(map(str, row))}"
        for hot, row in zip(
            ("0 0 0 0 1 0 0 0 0 0", "0 0 0 0 0 1 0 0 0 0", "0 0 0 0 0 0 1 0 0 0"), pixels.tolist(), strict=True
        )
    ]
    assert len(train.read_text(encoding="utf-8").splitlines()) == 5
    assert sorted(path.name for path in Path("new/mnist").iterdir()) == [test.name, train.name]


def test_mnist_unpacked_with_other_names_in_a_folder_below() -> None:
    Path("raw/below").mkdir()
    for name, data in mnist_files().items():
        Path("raw/below", name.replace("-idx", ".idx")).write_bytes(data)
    assert main(["data", "mnist", "--from", "raw", "--no-checksum"]) == 0
    assert Path("Train-3x4_cntk_text.txt").is_file()


def test_mnist_checksums_are_those_of_the_uncompressed_files() -> None:
    files = mnist_files()
    for name, data in files.items():
        Path("raw", f"{name}.gz").write_bytes(gzip.compress(data))
    known = {name: md5(data) for name, data in files.items()}
    convert_mnist(Path("raw"), Path(), checksums=known)
    assert Path("Test-3x4_cntk_text.txt").is_file()
    with pytest.raises(DataError, match="the published one is 0123") as raised:
        convert_mnist(Path("raw"), Path("raw"), checksums={**known, "train-labels-idx1-ubyte": "0123"})
    assert str(raised.value.where) == str(Path("raw/train-labels-idx1-ubyte.gz"))
    assert not list(Path("raw").glob("*.txt"))


def test_mnist_published_checksum(capsys: pytest.CaptureFixture[str]) -> None:
    for name, data in mnist_files().items():
        Path("raw", name).write_bytes(data)
    assert main(["data", "mnist", "--from", "raw"]) == 1
    found = md5(mnist_files()["train-images-idx3-ubyte"])
    assert capsys.readouterr().err == (
        f"error: raw/train-images-idx3-ubyte: the MD5 checksum is {found}, but the published one is "
        "6bbc9ace898e44ae57da46a324031adb\n"
        "    Download the file again. If it is meant to be another one, add --no-checksum.\n"
    )


def test_mnist_missing(capsys: pytest.CaptureFixture[str]) -> None:
    files = mnist_files()
    Path("raw/train-images-idx3-ubyte").write_bytes(files["train-images-idx3-ubyte"])
    Path("raw/t10k-labels-idx1-ubyte").write_bytes(files["t10k-labels-idx1-ubyte"])
    assert main(["data", "mnist", "--from", "raw"]) == 1
    assert capsys.readouterr().err == (
        "error: of the files of MNIST train-labels-idx1-ubyte, t10k-images-idx3-ubyte are not in 'raw'\n"
        "    Download train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz from\n"
        "    https://ossci-datasets.s3.amazonaws.com/mnist/ or http://yann.lecun.com/exdb/mnist/\n"
    )


IMAGES = "train-images-idx3-ubyte"
DAMAGED: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "not IDX": (IMAGES, lambda data: b"<html>", "this is no IDX file of unsigned bytes with 3 axes: it begins with 3c"),
    "empty": (IMAGES, lambda data: b"", "this is no IDX file of unsigned bytes with 3 axes: it begins with nothing"),
    "short": (IMAGES, lambda data: data[:-1], "the header says 5 x 4 x 3 = 60 values, but there are 59"),
    "long": (IMAGES, lambda data: data + b"1", "the header says 5 x 4 x 3 = 60 values, but there are 61"),
    "gzip": (IMAGES, lambda data: gzip.compress(data)[:-4], "the compressed file is damaged: "),
    "count": (
        "train-labels-idx1-ubyte",
        lambda data: idx(np.arange(4)),
        "there are 4 labels, but 5 images in 'raw/train-images-idx3-ubyte'",
    ),
    "label": (
        "train-labels-idx1-ubyte",
        lambda data: idx(np.array([1, 2, 10, 3, 4])),
        "the label of image 2 is 10; labels are 0 to 9",
    ),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_mnist_damaged(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    damaged, how, message = DAMAGED[kind]
    for name, data in mnist_files().items():
        Path("raw", name).write_bytes(how(data) if name == damaged else data)
    assert main(["data", "mnist", "--from", "raw", "--no-checksum"]) == 1
    assert capsys.readouterr().err.startswith(f"error: raw/{damaged}: {message}")
    assert not list(Path().glob("*.txt*"))


# -- CIFAR-10 ---------------------------------------------------------------------------------------------


class Python2Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """Writes bytes as Python 2 wrote its strings, and names of modules as NumPy had them then."""

    dispatch = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_bytes(self, value: bytes) -> None:
        self.write(b"T" + struct.pack("<i", len(value)) + value)
        self.memoize(value)

    dispatch[bytes] = save_bytes


def as_pickle(labels: list[int], pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump({b"batch_label": b"a batch", b"labels": labels, b"data": pixels})
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def cifar() -> dict[str, tuple[list[int], np.ndarray]]:
    random = np.random.default_rng(2)
    return {
        name: ([int(label) for label in random.integers(10, size=2)], random.integers(256, size=(2, 3072), dtype="u1"))
        for name in BATCHES
    }


def binary(batches: dict[str, tuple[list[int], np.ndarray]]) -> dict[str, bytes]:
    return {
        f"{name}.bin": b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, pixels, strict=True))
        for name, (labels, pixels) in batches.items()
    }


def pickles(batches: dict[str, tuple[list[int], np.ndarray]]) -> dict[str, bytes]:
    return {name: as_pickle(*batch) for name, batch in batches.items()}


def write_files(folder: str, files: dict[str, bytes]) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        Path(folder, name).write_bytes(data)


PLACES: dict[str, Callable[[], None]] = {
    "binary archive": lambda: write_tar(
        Path("raw/cifar-10-binary.tar.gz"), "cifar-10-batches-bin", {"readme.html": b"x", **binary(cifar())}
    ),
    "python archive": lambda: write_tar(
        Path("raw/cifar-10-python.tar.gz"), "cifar-10-batches-py", {"batches.meta": b"x", **pickles(cifar())}
    ),
    "binary folder": lambda: write_files("raw/cifar-10-batches-bin", binary(cifar())),
    "python folder": lambda: write_files("raw/cifar-10-batches-py", pickles(cifar())),
    "the folder itself": lambda: write_files("raw", pickles(cifar())),
}


@pytest.mark.parametrize("place", PLACES)
def test_cifar_from_every_place(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    PLACES[place]()
    assert main(["data", "cifar10", "--from", "raw", "--to", "new", "--no-checksum"]) == 0
    assert capsys.readouterr().out == (
        "new/Train_cntk_text.txt: 10 images\n"
        "new/train_map.txt: 10 pictures in 'new/train'\n"
        "new/Test_cntk_text.txt: 2 images\n"
        "new/test_map.txt: 2 pictures in 'new/test'\n"
        "new/CIFAR-10_mean.xml: the mean picture of the training set\n"
    )
    lines = Path("new/Train_cntk_text.txt").read_text(encoding="utf-8").splitlines()
    rows = [row for name in BATCHES[:5] for row in zip(*cifar()[name], strict=True)]
    assert lines == [
        f"|labels {' '.join(str(int(k == label)) for k in range(10))} |features {' '.join(map(str, row.tolist()))}"
        for label, row in rows
    ]


def test_cifar_pictures() -> None:
    PLACES["python folder"]()
    assert main(["data", "cifar10", "--from", "raw", "--to", "new", "--no-checksum", "--only", "images"]) == 0
    assert not Path("new/Train_cntk_text.txt").exists()
    batches = cifar()
    labels, pixels = batches["data_batch_2"]
    assert Path("new/train_map.txt").read_text(encoding="utf-8").splitlines()[2:4] == [
        f".../train/00002.png\t{labels[0]}",
        f".../train/00003.png\t{labels[1]}",
    ]
    image = pytest.importorskip("PIL.Image")
    found = np.asarray(image.open("new/train/00003.png"))
    assert found.shape == (40, 40, 3)
    assert np.array_equal(found[4:36, 4:36], pixels[1].reshape(3, 32, 32).transpose(1, 2, 0))
    assert (found[:4] == 128).all()
    assert (found[:, 36:] == 128).all()
    tested = np.asarray(image.open("new/test/00001.png"))
    assert np.array_equal(tested, batches["test_batch"][1][1].reshape(3, 32, 32).transpose(1, 2, 0))


def test_cifar_mean_and_colours() -> None:
    """The mean is that of the training set without border; the colours count the border, as CNTK's script did."""
    from xml.etree import ElementTree

    PLACES["binary folder"]()
    assert main(["data", "cifar10", "--from", "raw", "--no-checksum", "--only", "images"]) == 0
    batches = cifar()
    root = ElementTree.parse("CIFAR-10_mean.xml").getroot()
    assert [root.findtext(key) for key in ("Channel", "Row", "Col", "MeanImg/cols")] == ["3", "32", "32", "3072"]
    values = [float(word) for word in (root.findtext("MeanImg/data") or "").split()]
    wanted = np.concatenate([batches[name][1] for name in BATCHES[:5]]).mean(axis=0)
    np.testing.assert_allclose(values, wanted, rtol=1e-6)
    line = Path("train_regrLabels.txt").read_text(encoding="utf-8").splitlines()[0]
    framed = np.pad(batches["data_batch_1"][1][0].reshape(3, 32, 32), ((0, 0), (4, 4), (4, 4)), constant_values=128)
    assert line.split("\t") == ["|regrLabels", *(f"{value:f}" for value in framed.mean(axis=(1, 2)) / 255)]
    line = Path("test_regrLabels.txt").read_text(encoding="utf-8").splitlines()[1]
    plain = batches["test_batch"][1][1].reshape(3, -1).mean(axis=1) / 255
    assert line.split("\t") == ["|regrLabels", *(f"{value:f}" for value in plain)]


def test_cifar_checksums() -> None:
    PLACES["binary archive"]()
    archive = Path("raw/cifar-10-binary.tar.gz")
    with pytest.raises(DataError, match=CHECKSUMS[archive.name]):
        convert_cifar10(Path("raw"), Path())
    convert_cifar10(Path("raw"), Path(), only="text", checksums={archive.name: md5(archive.read_bytes())})
    assert Path("Test_cntk_text.txt").is_file()
    archive.unlink()
    PLACES["python folder"]()
    known = {name: md5(data) for name, data in pickles(cifar()).items()}
    convert_cifar10(Path("raw"), Path(), only="text", checksums=known)
    with pytest.raises(DataError, match="the published one is 77"):
        convert_cifar10(Path("raw"), Path(), only="text", checksums={**known, "data_batch_4": "77"})


def test_cifar_missing(capsys: pytest.CaptureFixture[str]) -> None:
    write_files("raw/cifar-10-batches-bin", {name: data for name, data in binary(cifar()).items() if "3" not in name})
    assert main(["data", "cifar10", "--from", "raw"]) == 1
    assert capsys.readouterr().err == (
        "error: there is no CIFAR-10 in 'raw': neither cifar-10-binary.tar.gz nor cifar-10-python.tar.gz, nor a folder "
        "with all of data_batch_1, data_batch_2, data_batch_3, data_batch_4, data_batch_5, test_batch\n"
        "    Download the binary version from\n    https://www.cs.toronto.edu/~kriz/cifar.html\n"
    )


def test_cifar_incomplete_archive(capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: data for name, data in binary(cifar()).items() if "test" not in name}
    write_tar(Path("raw/cifar-10-binary.tar.gz"), "x", files)
    assert main(["data", "cifar10", "--from", "raw", "--no-checksum"]) == 1
    assert capsys.readouterr().err == (
        "error: raw/cifar-10-binary.tar.gz: the archive has no test_batch\n    Download it again.\n"
    )


def test_cifar_damaged(capsys: pytest.CaptureFixture[str]) -> None:
    PLACES["binary archive"]()
    data = Path("raw/cifar-10-binary.tar.gz").read_bytes()
    Path("raw/cifar-10-binary.tar.gz").write_bytes(data[: len(data) // 2])
    assert main(["data", "cifar10", "--from", "raw", "--no-checksum"]) == 1
    assert capsys.readouterr().err.startswith("error: raw/cifar-10-binary.tar.gz: the archive is damaged: ")
    Path("raw/cifar-10-binary.tar.gz").unlink()
    write_files("raw", {**binary(cifar()), "data_batch_2.bin": b"12345"})
    assert main(["data", "cifar10", "--from", "raw", "--no-checksum"]) == 1
    assert capsys.readouterr().err == (
        "error: raw/data_batch_2.bin: a batch has 3073 bytes for each picture, but this one has 5\n"
        "    Download it again.\n"
    )


# -- pickles ----------------------------------------------------------------------------------------------


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("ran",)


def test_nothing_in_a_pickle_is_run() -> None:
    for protocol in range(6):
        with pytest.raises(DataError, match=r"it asks for (posix|nt)\.mkdir, which no batch needs"):
            read_batch(pickle.dumps({1: Hostile()}, protocol), "batch", 12)
    assert not Path("ran").exists()


ODD = {
    "no dictionary": (pickle.dumps([1]), "this is no batch of CIFAR-10: it holds no dictionary"),
    "no labels": (as_pickle([], np.zeros((0, 12), "u1")).replace(b"labels", b"lables"), "it has no list of labels"),
    "other counts": (as_pickle([1], np.zeros((2, 12), "u1")), "there are 1 labels, but 2 images"),
    "other width": (as_pickle([1], np.zeros((1, 11), "u1")), "'data' is no array of bytes with 12 columns"),
    "other type": (as_pickle([1], np.zeros((1, 12), "i1")), "'data' is no array of bytes with 12 columns"),
    "text": (b"some text", "this is no batch of CIFAR-10: "),
    "nothing": (b"", "this is no batch of CIFAR-10: "),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_pickles(kind: str) -> None:
    data, message = ODD[kind]
    with pytest.raises(DataError) as raised:
        read_batch(data, "batch", 12)
    assert message in raised.value.message
    assert str(raised.value.where) == "batch"


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_damaged_pickles_end_in_an_error_or_a_batch(place: int, other: bytes) -> None:
    data = bytearray(as_pickle([1, 2], np.arange(24, dtype=np.uint8).reshape(2, 12)))
    place %= len(data)
    data[place : place + len(other)] = other
    try:
        labels, pixels = read_batch(bytes(data), "batch", 12)
    except CntkError:
        return
    assert labels.dtype == pixels.dtype == np.uint8
    assert len(labels) == len(pixels)


# -- both -------------------------------------------------------------------------------------------------


def test_grey_png() -> None:
    image = pytest.importorskip("PIL.Image")
    values = np.random.default_rng(3).integers(256, size=(3, 5), dtype=np.uint8)
    assert np.array_equal(np.asarray(image.open(io.BytesIO(encode_png(values)))), values)


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "cifar", "--from", "raw"]) == 2
    assert capsys.readouterr().err == (
        "error: there is no data set 'cifar'; did you mean 'cifar10'?\n    Data sets: cifar10, mnist\n"
    )
    assert main(["data", "mnist", "--from", "nowhere"]) == 2
    assert capsys.readouterr().err == (
        "error: 'nowhere' is no folder\n    Give the folder with what you downloaded: --from DIR\n"
    )
    assert main(["data", "mnist", "--from", "raw", "--only", "images"]) == 1
    assert capsys.readouterr().err == "error: MNIST is written as text only\n    Leave out --only images.\n"


# -- contracts --------------------------------------------------------------------------------------------


class TestMnist(DatasetContract):
    dataset_class = Mnist
    files = ("Train-3x4_cntk_text.txt", "Test-3x4_cntk_text.txt")

    def download(self, folder: Path) -> None:
        write_files(str(folder), mnist_files())


class TestCifar10(DatasetContract):
    dataset_class = Cifar10
    files = ("Train_cntk_text.txt", "Test_cntk_text.txt", "train_map.txt", "CIFAR-10_mean.xml")

    def download(self, folder: Path) -> None:
        write_files(str(folder), binary(cifar()))


class TestVerb(VerbContract):
    verb_class = Data
    command_lines = (("mnist", "--from", "raw", "--to", "new", "--no-checksum"),)

    def prepare(self, folder: Path) -> None:
        write_files(str(folder / "raw"), mnist_files())


class TestPackaging(PackagingContract):
    distribution = "cntk-tool-data"
    kind = "verb"


@pytest.mark.parametrize("labels", [None, 3, ["a"], [256], [-1], {}])
def test_labels_of_a_batch(labels: Any) -> None:
    pixels = np.zeros((1, 12), np.uint8)
    for good in (0, 255):
        found, _ = read_batch(pickle.dumps({b"data": pixels, b"labels": [good]}), "batch", 12)
        assert found.tolist() == [good]
    with pytest.raises(DataError, match=r"^batch: this is no batch of CIFAR-10: it has no list of labels$"):
        read_batch(pickle.dumps({b"data": pixels, b"labels": labels}), "batch", 12)


@pytest.mark.parametrize(
    "data", [None, [1], np.zeros((1, 11), np.uint8), np.zeros((1, 12), np.int8), np.zeros(12, np.uint8), b"1" * 12]
)
def test_pixels_of_a_batch(data: Any) -> None:
    with pytest.raises(DataError) as caught:
        read_batch(pickle.dumps({b"data": data, b"labels": [1]}), "batch", 12)
    assert str(caught.value) == "batch: this is no batch of CIFAR-10: 'data' is no array of bytes with 12 columns"


def test_a_pickle_that_asks_for_objects_elsewhere() -> None:
    class Elsewhere(pickle.Pickler):
        def persistent_id(self, thing: Any) -> Any:
            return "there" if thing == "here" else None

    file = io.BytesIO()
    Elsewhere(file).dump({b"data": "here"})
    with pytest.raises(DataError, match=r"^batch: this is no batch of CIFAR-10: it asks for an object outside "):
        read_batch(file.getvalue(), "batch", 12)
