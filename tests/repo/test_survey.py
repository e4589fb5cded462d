"""Faults that are put into live functions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TEXT = """
FACTOR = 3

def doubled(number, factor=2):
    return number * factor

def adder(term):
    def add(number):
        return number + term
    return add

class Counter:
    step = 1

    def next(self, number):
        return [number + self.step for _ in range(1)][0]
"""
TESTS = """
import counting

def test_doubled():
    assert counting.doubled(3) == 6

def test_never_next():
    assert counting.adder
"""


@pytest.fixture(scope="module")
def live(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("live_faults")


@pytest.fixture
def module() -> dict[str, Any]:
    made: dict[str, Any] = {"__name__": "counting"}
    exec(compile(TEXT, "counting.py", "exec", dont_inherit=True), made)
    return made


def with_fault(live: ModuleType, before: str, after: str, file: str = "counting.py") -> None:
    assert before in TEXT
    live.put(live.swaps(TEXT, TEXT.replace(before, after), file))


def test_a_function_and_a_method_meet_the_fault(live: ModuleType, module: dict[str, Any]) -> None:
    held = module["doubled"]
    with_fault(live, "number * factor", "number / factor")
    assert held(3) == 1.5
    with_fault(live, "[number + self.step", "[number - self.step")
    assert module["Counter"]().next(3) == 2


def test_closures_meet_it_whether_they_are_there_already_or_made_later(
    live: ModuleType, module: dict[str, Any]
) -> None:
    before = module["adder"](1)
    with_fault(live, "number + term", "number - term")
    assert before(3) == 2
    assert module["adder"](1)(3) == 2


@pytest.mark.parametrize(
    ("before", "after"), [("FACTOR = 3", "FACTOR = 4"), ("factor=2", "factor=3"), ("step = 1", "step = 2")]
)
def test_what_runs_at_import_is_told_apart(live: ModuleType, module: dict[str, Any], before: str, after: str) -> None:
    with pytest.raises(live.AtImportError):
        with_fault(live, before, after)


def test_a_function_that_nobody_has_is_told_apart(live: ModuleType) -> None:
    with pytest.raises(live.AtImportError):
        with_fault(live, "number * factor", "number / factor", "other.py")


def test_a_child_says_what_it_returns_and_raises(live: ModuleType) -> None:
    changed: list[int] = []
    assert live.in_child(lambda: [changed.append(1), os.getpid()][1], 60) != os.getpid()
    assert not changed
    error = live.in_child(lambda: 1 / 0, 60)
    assert "division by zero" in str(error)
    assert str(live.in_child(lambda: os._exit(3), 60)) == "the process ended"


def test_a_child_that_never_ends_is_killed(live: ModuleType) -> None:
    assert isinstance(live.in_child(lambda: time.sleep(600), 0.2), TimeoutError)


def test_what_the_tests_of_a_room_do_not_notice_is_listed(tmp_path: Path, live: ModuleType) -> None:
    tools = Path(str(live.__file__)).parent
    (tmp_path / "pyproject.toml").touch()
    for name, text in (
        ("src/counting/__init__.py", TEXT),
        ("tests/test_counting.py", TESTS),
        ("conftest.py", CONFTEST),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    program = f"import sys, pathlib, concerned; concerned.ROOT = root = pathlib.Path.cwd()\n{PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-c", program, "tests", "--files", "counting"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tools), str(tmp_path / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert "2 tests, 2 pass without a fault" in said
    assert "src/counting/__init__.py:9 swap arithmetic: number + term -> (number - term)" in said
    assert "    no test comes here" in said
    assert "number * factor" not in done.stdout
    assert " 16.7 % of 6 faults are noticed" in said
    assert "3 more are in what runs at import: not tried" in said


CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--tier")
"""
PROGRAM = """
from functools import partial
import survey
survey.Workspace = partial(survey.Workspace, root)
survey.main()
"""
