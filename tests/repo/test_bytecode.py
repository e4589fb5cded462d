"""Workers compile each file once, and what they write is what pytest takes."""

from __future__ import annotations

from importlib.util import cache_from_source
from pathlib import Path

import pytest

from tests.bytecode import compile_part, worker


def compiled(root: Path) -> dict[str, int]:
    """When each compiled file was written."""
    return {path.name: path.stat().st_mtime_ns for path in root.rglob("*.pyc")}


def test_each_worker_compiles_a_part(tmp_path, pytestconfig):
    for name in ("cntk_core/one.py", "cntk_core/two.py", "tests/ops/test_one.py", "kits/a/tests/test_two.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("def test_it():\n    assert 1 == 1\n")
    compile_part(pytestconfig, tmp_path, 0, 2)
    first = compiled(tmp_path)
    assert {name.partition(".")[0] for name in first} == {"one", "test_two"}
    compile_part(pytestconfig, tmp_path, 1, 2)
    compile_part(pytestconfig, tmp_path, 0, 1)
    both = compiled(tmp_path)
    assert {name.partition(".")[0] for name in both} == {"one", "two", "test_one", "test_two"}
    assert first.items() < both.items(), "what was there has been compiled again"


def test_pytest_takes_it(pytester, pytestconfig):
    path = pytester.makepyfile(**{"tests/test_it": "def test_it():\n    assert len('four') == 5\n"})
    compile_part(pytestconfig, pytester.path, 0, 1)
    before = compiled(pytester.path)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:cntk_testing", str(path))
    result.stdout.fnmatch_lines(["*AssertionError: assert 4 == 5"])
    assert list(before) == [path.name for path in [next(Path(cache_from_source(path)).parent.glob("test_it.*"))]]
    assert compiled(pytester.path) == before


@pytest.mark.parametrize(
    ("name", "count", "expected"), [("gw0", "3", (0, 3)), ("gw12", "16", (12, 16)), ("", "", None), ("main", "2", None)]
)
def test_the_number_of_a_worker(monkeypatch, name, count, expected):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", name)
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", count)
    assert worker() == expected
