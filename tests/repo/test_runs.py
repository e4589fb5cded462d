"""What a run of the tests keeps on disk, and what it says at its end."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.caches import FOLDER, QUICKLY, WITH_PLAIN_LOOPS, compile_quickly, shared_caches
from tests.folder_report import FolderReport, folder_of
from tests.shares import in_shares

VARIABLES = (
    FOLDER,
    "CNTK_CACHE",
    "CUDA_STANDIN_CACHE",
    "FRESH",
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
    "XDG_CACHE_HOME",
)


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        # Set first, so that what the test adds is taken away again.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return monkeypatch


def test_what_is_compiled_lies_in_one_folder(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept = tmp_path / "cntk" / "tests"
    clean.setenv("CUDA_STANDIN_CACHE", "own")
    with shared_caches():
        assert os.environ["CNTK_CACHE"] == str(kept)
        assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(kept / "xla")
        assert os.environ["CUDA_STANDIN_CACHE"] == "own"


def test_a_fresh_run_takes_and_leaves_nothing(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean.setenv("FRESH", "1")
    with shared_caches():
        folder = Path(os.environ[FOLDER])
        assert folder.is_dir()
        assert tmp_path not in folder.parents
        assert Path(os.environ["CNTK_CACHE"]) == Path(os.environ["CUDA_STANDIN_CACHE"]).parent == folder
        with shared_caches():  # as a worker of xdist does
            assert os.environ[FOLDER] == str(folder)
        assert folder.is_dir()
    assert not folder.exists()


def test_xla_compiles_quickly_where_it_knows_how(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.delenv("XLA_FLAGS")
    for version, flags in (("0.9.9", None), (f"{WITH_PLAIN_LOOPS}7", QUICKLY), ("0.9.9", QUICKLY)):
        monkeypatch.setattr("tests.caches.version", lambda name, found=version: found)
        compile_quickly()
        assert os.environ.get("XLA_FLAGS") == flags
    monkeypatch.setenv("XLA_FLAGS", "own")
    compile_quickly()
    assert os.environ["XLA_FLAGS"] == "own"
    pinned = (root / "constraints.txt").read_text(encoding="utf-8")
    assert f"\njaxlib=={WITH_PLAIN_LOOPS}" in pinned, "see whether the new version knows the option"


@pytest.mark.parametrize(
    ("nodeid", "folder"),
    [
        ("tests/ops/test_rows.py::test_a[x/y]", "tests/ops"),
        ("tests/actions/scaling/test_parts.py::test_a", "tests/actions"),
        ("plugins/readers/htk/tests/test_reader.py::TestA::test_a", "plugins/readers/htk"),
        ("plugins/builders/ndl/tests/mel/test_a.py::test_a", "plugins/builders/ndl"),
        ("docs/index.md::1", "docs"),
    ],
)
def test_the_folder_of_a_test(nodeid: str, folder: str) -> None:
    assert folder_of(nodeid) == folder


def report_of(*tests: tuple[str, float]) -> list[str]:
    lines: list[str] = []
    report, terminal = FolderReport(), SimpleNamespace(section=lines.append, write_line=lines.append)
    for nodeid, seconds in tests:
        for when, part in (("setup", 0.25), ("call", 0.5), ("teardown", 0.25)):
            test: Any = SimpleNamespace(nodeid=nodeid, when=when, duration=part * seconds)
            report.pytest_runtest_logreport(test)
    shown: Any = terminal
    report.pytest_terminal_summary(shown)
    return lines


def test_seconds_by_folder() -> None:
    tests = [("tests/ops/test_a.py::a", 8.0), ("tests/plan/test_b.py::b", 30.0), ("tests/ops/test_c.py::c", 2.0)]
    assert report_of(*tests) == [
        "seconds by folder (of all processes together)",
        "    30.0 s   75 %      1 tests  tests/plan",
        "    10.0 s   25 %      2 tests  tests/ops",
    ]
    assert report_of(("tests/ops/test_a.py::a", 1.0)) == []


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 8))
def test_each_worker_begins_with_what_is_slow(kinds: list[bool], workers: int) -> None:
    tests = list(enumerate(kinds))
    found = in_shares(tests, workers, lambda test: test[1])
    assert sorted(found) == tests
    left, slow = found, kinds.count(False)
    for remaining in range(workers, 0, -1):  # as xdist deals them out
        share, left = left[: len(left) // remaining], left[len(left) // remaining :]
        if slow >= workers and len(kinds) >= 2 * slow + 2 * workers:
            first_quick = next(place for place, test in enumerate(share) if test[1])
            assert slow // workers <= first_quick <= slow // workers + 1
            assert all(quick for _, quick in share[first_quick + 1 :])
