"""Kaldi's objects: every form is read, compressed ones as Kaldi decodes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_reader_kaldi.archive import ArchiveFile
from cntk_reader_kaldi.posteriors import Posterior
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kaldi_bytes import alignment, compressed, matrix, posterior, text_matrix, vector

FRAMES = np.array([[1.5, -2, 3], [4, 5.25, -6e3]])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(data: bytes, at: int = 0) -> tuple[np.ndarray, int]:
    """Return the matrix of a file, and where it ends."""
    Path("x.ark").write_bytes(data)
    file = ArchiveFile("x.ark")
    header = file.header(at)
    found = np.zeros((header.rows, header.dim))
    file.read(header, 0, found)
    part = np.zeros((1, header.dim))
    file.read(header, header.rows - 1, part)
    assert np.array_equal(part, found[-1:])
    file.close()
    return found, header.end


@pytest.mark.parametrize("token", [b"FM ", b"DM "])
def test_matrices(token: bytes) -> None:
    data = matrix(FRAMES, token)
    found, end = read(b"key " + data + b"next ", 4)
    assert np.array_equal(found, FRAMES)
    assert end == 4 + len(data)


def test_text() -> None:
    data = text_matrix(FRAMES)
    found, end = read(data + b"next [ 1 ]\n")
    assert np.array_equal(found, FRAMES)
    assert end == len(data)


def test_vectors_are_one_frame() -> None:
    assert read(vector(np.array([1.0, 2, 3])))[0].tolist() == [[1, 2, 3]]
    assert read(b" [ 1 2 3 ]\n")[0].tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(("token", "largest"), [(b"CM2", 65535), (b"CM3", 255)])
def test_evenly_compressed(token: bytes, largest: int) -> None:
    codes = np.array([[0, largest], [largest // 5, largest]])
    found, end = read(compressed(codes, -1, 5, token))
    assert np.allclose(found, [[-1, 4], [0, 4]])
    assert end == Path("x.ark").stat().st_size


def test_compressed_by_percentiles() -> None:
    """Codes 0 to 64, 192 and 255 are the quartiles of a column, which the head gives; between them it is even."""
    heads = np.array([[0, 13107, 26214, 65535], [0, 0, 65535, 65535]])
    codes = np.array([[0, 0], [64, 64], [32, 128], [192, 192], [255, 255], [128, 96]])
    found, _ = read(compressed(codes, 10, 5, b"CM ", heads))
    assert np.allclose(found[:, 0], [10, 11, 10.5, 12, 15, 11.5], atol=1e-4)
    assert np.allclose(found[:, 1], [10, 10, 12.5, 15, 15, 11.25], atol=1e-4)


CLASSES = [
    (alignment([3, 0, 2]), [1, 1, 1], [3, 0, 2], [1, 1, 1]),
    (alignment([4]), [1], [4], [1]),
    (alignment([]), [], [], []),
    (b"3 0 2\n", [1, 1, 1], [3, 0, 2], [1, 1, 1]),
    (posterior([[(3, 1.0)], [(0, 0.25), (2, 0.75)]]), [1, 2], [3, 0, 2], [1, 0.25, 0.75]),
    (b"[ 3 1 ] [ 0 0.25 2 0.75 ]\n", [1, 2], [3, 0, 2], [1, 0.25, 0.75]),
    (posterior([[], [(3, 0.5)], []]), [0, 1, 0], [3], [0.5]),
    (b"[ ] [3 0.5] []\n", [0, 1, 0], [3], [0.5]),
]


@pytest.mark.parametrize(("data", "counts", "classes", "weights"), CLASSES)
def test_classes(data: bytes, counts: list[int], classes: list[int], weights: list[float]) -> None:
    Path("x.ark").write_bytes(b"k " + data + b"next 1 2\n")
    file = ArchiveFile("x.ark")
    found, end = file.posterior(2)
    file.close()
    assert (found.counts.tolist(), found.classes.tolist(), found.weights.tolist()) == (counts, classes, weights)
    assert end == 2 + len(data)


def test_the_largest_class_of_each_frame() -> None:
    weights = np.array([0.4, 0.4, 0.1, np.nan, 2, 0])
    found = Posterior(np.array([3, 0, 2, 1]), np.array([5, 6, 7, 8, 9, 4], dtype=np.int32), weights).largest()
    assert (found.counts.tolist(), found.classes.tolist()) == ([1, 0, 1, 1], [5, 8, 4])
    assert found.weights.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("frames", "counts", "classes"),
    [(0, [2, 0, 1], [5, 6, 7]), (1, [2, 2, 0], [5, 6, 5, 6]), (2, [2, 2, 2], [5, 6] * 3), (9, [2, 2, 2], [5, 6] * 3)],
)
def test_delayed_classes(frames: int, counts: list[int], classes: list[int]) -> None:
    found = Posterior(np.array([2, 0, 1]), np.array([5, 6, 7], dtype=np.int32), np.array([0.5, 0.25, 1]))
    later = found.delayed(frames)
    assert (later.counts.tolist(), later.classes.tolist()) == (counts, classes)
    assert later.weights.tolist() == [{5: 0.5, 6: 0.25, 7: 1}[one] for one in classes]


def test_alignments_as_another_program_writes_them() -> None:
    """What kaldi_native_io wrote of [4, 5, 7] and [2], the second as an object without a next one."""
    first = b"\0B\4\3\0\0\0\4\4\0\0\0\4\5\0\0\0\4\7\0\0\0"
    second = b"\0B\4\1\0\0\0\4\2\0\0\0"
    Path("x.ark").write_bytes(b"u0 " + first + b"u1 " + second)
    file = ArchiveFile("x.ark")
    assert file.posterior(3)[0].classes.tolist() == [4, 5, 7]
    found, end = file.posterior(3 + len(first) + 3)
    assert (found.classes.tolist(), end) == ([2], file.size)
    file.close()


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.integers(0, 2**31 - 1), max_size=6))
def test_alignments_are_not_mistaken_for_posteriors(classes: list[int]) -> None:
    Path("x.ark").write_bytes(alignment(classes) + b"next ")
    file = ArchiveFile("x.ark")
    assert file.posterior(0)[0].classes.tolist() == classes
    file.close()
