"""Where compiled kernels are kept, what is said meanwhile, and what happens if they are damaged or cannot be kept."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest
from cntk_engine_cpu import compiler

from cntk_kit_engines import machine_code
from cntk_testing.kept_kernels import DAMAGES, entry

pytestmark = pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")

TEXT = """
import numpy as np

F = np.float32


def add(a, out):
    for i in range(a.shape[0]):
        out[i] = a[i] + F({})
"""
SIGNATURE = "void(float32[::1], float32[::1])"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty folder of kernels."""
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    return tmp_path / "kernels"


COUNTED = """
import numpy as np
from cntk_core.api.engines import native_function
from cntk_engine_cpu import compiler
from cntk_kit_engines import machine_code
from cntk_kit_engines import machine_code

compiled = []
whole = machine_code._Compiler.compile
machine_code._Compiler.compile = lambda *arguments: compiled.append(1) or whole(*arguments)

def add(number=1):
    native_function.cache_clear()
    compiled.clear()
    kernel = compiler.compile_text(TEXT.format(number), "add", "float32", SIGNATURE)
    out = np.empty(3, np.float32)
    kernel(np.full(3, 2, np.float32), out)
    return out[0], not compiled
"""
"""Compiles a kernel as a new process would, and tells what it gives for 2, and whether it came from the disk."""


@pytest.fixture
def add(kept, monkeypatch):
    monkeypatch.setattr(machine_code._Compiler, "compile", machine_code._Compiler.compile)  # put back afterwards
    names = {"TEXT": TEXT, "SIGNATURE": SIGNATURE}
    exec(COUNTED, names)
    return names["add"]


def test_the_second_time_it_comes_from_the_disk(kept, add, caplog):
    with caplog.at_level(logging.INFO, "cntk.engine"):
        assert [add(1), add(1), add(2), add(2)] == [(3, False), (3, True), (4, False), (4, True)]
    assert caplog.messages == [f"compiling kernels (once; they are kept in {kept})"]


@pytest.mark.parametrize("name", list(DAMAGES))
def test_a_damaged_kernel_is_compiled_anew(kept, add, caplog, name):
    damage, said = DAMAGES[name]
    add()
    path = entry(kept)
    damage(path)
    assert add() == (3, False)
    (line,) = caplog.messages
    assert line.startswith(f"compiled code in '{path}' {said}")
    assert add() == (3, True)
    assert caplog.messages == [line]


def test_the_text_is_compared_whole(kept, add, caplog):
    """Another text with the name and the right digest of this one."""
    add(1)
    first = entry(kept)
    assert b"def add(a, out):" in first.read_bytes()
    add(2)
    (second,) = set(kept.glob("*.code")) - {first}
    first.write_bytes(second.read_bytes())
    assert add(1) == (3, False)
    assert caplog.messages == [
        f"compiled code in '{first}' was compiled from something else; it is thrown away and compiled anew"
    ]


def test_no_source_text_is_run_from_the_folder(kept, add):
    add()
    assert [path.suffix for path in kept.iterdir()] == [".code"]


def test_functions_that_kernels_call_decide_about_them(kept, add, monkeypatch):
    library = compiler._library("float32")
    add()
    monkeypatch.setattr(compiler, "_library", lambda dtype: (f"{library[0]}\n# something else", *library[1:]))
    assert [add(), add()] == [(3, False), (3, True)]


PROCESS = f"""
TEXT, SIGNATURE = {TEXT!r}, {SIGNATURE!r}
{COUNTED}
print("begin", flush=True)
for number in range(2):
    print(number, *add(number), flush=True)
"""


def begin(folder):
    environment = {**os.environ, "CNTK_CACHE": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def said(process):
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out.splitlines()[1:], errors


@pytest.mark.slow
def test_two_processes_at_once(tmp_path):
    processes = [begin(tmp_path) for _ in range(2)]
    for process in processes:
        lines, errors = said(process)
        assert [line.split()[:2] for line in lines] == [[str(n), f"{n + 2}.0"] for n in range(2)]
        assert errors == ""
    assert len(list((tmp_path / "kernels").iterdir())) == 2
    lines, errors = said(begin(tmp_path))
    assert lines == [f"{n} {n + 2}.0 True" for n in range(2)]
    assert errors == ""


@pytest.mark.slow
@pytest.mark.thorough
def test_killed_while_compiling(tmp_path):
    """Whatever it leaves, the next run is right, and the one after that compiles nothing."""
    for delay in np.linspace(0.0, 2.0, 12):
        process = begin(tmp_path)
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    for state in ("True|False", "True"):
        lines, errors = said(begin(tmp_path))
        assert [line.split()[:2] for line in lines] == [[str(n), f"{n + 2}.0"] for n in range(2)]
        assert all(line.split()[2] in state.split("|") for line in lines)
        assert errors == ""
