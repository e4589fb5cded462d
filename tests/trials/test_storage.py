"""Some faults of the system, and states of a disk; the tool does any number."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "trials"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)


def tool(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(TOOL), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough  # tests/training/test_save_faults.py has some calls of a save go wrong, in one process
@pytest.mark.slow
def test_calls_that_fail():
    assert "65 faults, 0 failures: " in tool("storage", "--recipe", "sizes", "--faults", "65")


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    "arguments",
    [
        ("power", "--recipe", "sizes", "--states", "40"),
        ("clock", "--jumps", "10"),
        ("damage", "--count", "100"),
        ("data", "--times", "18"),
        ("numerics",),
        ("endurance", "--minibatches", "20000"),
    ],
)
def test_the_other_trials(arguments):
    tool(*arguments)


def test_the_library_fails_where_it_is_told_to(tmp_path):
    library = tmp_path / "system.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, TOOL / "system.c", "-ldl", "-lpthread"], check=True)
    script = f"""
import ctypes, os, time
system = ctypes.CDLL(None)
system.trials_fail(b"{tmp_path}/in", 1, ctypes.c_long(1), 28, 1, 1)
os.mkdir("{tmp_path}/in")
file = os.open("{tmp_path}/out", os.O_CREAT | os.O_WRONLY)
print(os.write(file, b"abcd"))
try:
    os.open("{tmp_path}/in/x", os.O_CREAT | os.O_WRONLY)
    os.rename("{tmp_path}/in", "{tmp_path}/other")
except OSError as error:
    print(error.strerror)
system.trials_clock.argtypes = [ctypes.c_longlong] * 3
system.trials_clock(0, 1, -10**9)
print(time.time() - time.time() > 9e8)
"""
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "4\nNo space left on device\nTrue\n"
    assert not (tmp_path / "other").exists()


def test_figures(trial, tmp_path):
    figures = trial("figures")
    record, page = tmp_path / "record", tmp_path / "page.md"
    for tried, seconds in ((5, 30.0), (1000, 90.0)):
        figures.record(record, figures.Figure("kills", tried, 0, "all identical", seconds))
    figures.record(None, figures.Figure("nothing", 1, 1, "", 0.0))
    page.write_text(f"before\n{figures.BEGIN}old\n{figures.END}after\n")
    figures.write_table(record, page)
    text = page.read_text()
    assert re.search(r"^\| kills \| 1,000 \| 0 \| all identical \| 1.5 min \| \d{4}-\d\d-\d\d, \S* \|$", text, re.M)
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| 5 |" not in text
    (tmp_path / "other.md").write_text("nothing")
    with pytest.raises(SystemExit, match="has no lines"):
        figures.write_table(record, tmp_path / "other.md")


def test_every_part_can_be_run(trial):
    trial("figures")
    found = runpy.run_path(str(TOOL / "__main__.py"))
    for name in found["PARTS"]:
        assert callable(trial(name).main)
    assert {command[0] for command in found["WHOLE"]} == set(found["PARTS"]) - {"figures"}
