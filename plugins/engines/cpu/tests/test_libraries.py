"""oneDNN, OpenMP and the number of threads: what is there, and what is said if it is not."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace

import pytest
from cntk_engine_cpu import libraries

OTHER = Path("/nowhere/libdnnl.so")


@pytest.mark.parametrize(
    ("asked", "given", "threads"),
    [
        (1, "", 1),
        (2, "3", 2),
        (9, "", 9),
        (0, "", 4),
        (0, "3", 3),
        (0, "1", 1),
        (0, "0", 4),
        (0, "many", 4),
        (-1, "3", 3),
        (-3, "", 1),
        (-9, "", 1),
    ],
)
def test_threads(monkeypatch: pytest.MonkeyPatch, asked: int, given: str, threads: int) -> None:
    """A number is taken as it is; 0 is all there are, or as many as OpenMP is told; below 0 all but so many."""
    monkeypatch.setattr(libraries, "processors", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert libraries.thread_count(asked) == threads


def test_a_processor_at_least() -> None:
    assert libraries.processors() >= 1


def test_openmp_that_is_there_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries.ctypes, "CDLL", lambda name: SimpleNamespace())
    assert libraries.has_openmp() is True

    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(libraries.ctypes, "CDLL", missing)
    assert libraries.has_openmp() is False


def test_without_the_wheel_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    load = libraries.load_onednn.__wrapped__
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: None)
    assert load() is None
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(libraries, "onednn_path", lambda: None)
    assert load() is None


def test_a_library_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise OSError(str(path))

    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(libraries, "onednn_path", lambda: OTHER)
    monkeypatch.setattr(libraries, "OneDnn", broken)
    assert libraries.load_onednn.__wrapped__() is None
    monkeypatch.setattr(libraries, "OneDnn", lambda path: ("loaded", path))
    assert libraries.load_onednn.__wrapped__() == ("loaded", OTHER)


def test_the_library_of_a_folder(tmp_path: Path) -> None:
    assert libraries._library_in(tmp_path) is None
    for name in ("libdnnl.so", "libdnnl.so.3"):  # the one with the number is taken first
        (tmp_path / name).touch()
        assert libraries._library_in(tmp_path) == tmp_path / name


@pytest.mark.skipif(libraries.load_onednn() is None, reason="oneDNN is not installed")
def test_threads_are_set_where_there_is_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    library = libraries.load_onednn()
    assert library is not None
    if not library.openmp:
        pytest.skip("there is no OpenMP")
    assert library.threads_address == library.openmp["omp_set_num_threads"] != 0
    openmp = ctypes.CDLL(libraries.OPENMP)
    before = openmp.omp_get_max_threads()
    try:
        for count in (2, 1, 3):
            library.set_threads(count)
            assert openmp.omp_get_max_threads() == count
    finally:
        library.set_threads(before)
    without = libraries.OneDnn.__new__(libraries.OneDnn)
    without._openmp = None
    without.set_threads(2)
    assert openmp.omp_get_max_threads() == before
    assert without._openmp_addresses() == {}
