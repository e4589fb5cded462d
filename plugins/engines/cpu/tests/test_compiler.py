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

from cntk_core.api.engines import CodeCache

pytestmark = pytest.mark.skipif(find_spec("numba") is None, reason="needs numba")

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
    """An empty cache of kernels."""
    cache = CodeCache("kernels", tmp_path / "kept", title="kernels")
    monkeypatch.setattr(compiler, "kernel_cache", lambda: cache)
    compiler.say_compiling.cache_clear()
    yield cache
    compiler.say_compiling.cache_clear()


def add(number=1):
    """Compile a kernel as a new process would; return what it gives for 2, and whether it came from the disk."""
    kernel = compiler.compile_text.__wrapped__(TEXT.format(number), "add", SIGNATURE)
    out = np.empty(3, np.float32)
    kernel(np.full(3, 2, np.float32), out)
    return out[0], bool(kernel.stats.cache_hits)


def entry(cache):
    (path,) = cache.folder.glob("*.code")
    return path


def test_the_second_time_it_comes_from_the_disk(kept, caplog):
    with caplog.at_level(logging.INFO, "cntk.engine"):
        assert [add(1), add(1), add(2), add(2)] == [(3, False), (3, True), (4, False), (4, True)]
    assert caplog.messages == [f"compiling kernels for this network (once; they are kept in {kept.folder})"]


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


DAMAGES = {
    "empty": (lambda path: path.write_bytes(b""), "is cut off"),
    "half": (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), "is damaged"),
    "one bit of the code": (lambda path: flip(path, -100), "is damaged"),
    "one bit of the text": (lambda path: flip(path, path.read_bytes().index(b"def add")), "is damaged"),
    "one bit of the digest": (lambda path: flip(path, 30), "is damaged"),
    "something else": (lambda path: path.write_bytes(b"import os\n" * 50), "is something else"),
}


@pytest.mark.parametrize("name", list(DAMAGES))
def test_a_damaged_kernel_is_compiled_anew(kept, caplog, name):
    damage, said = DAMAGES[name]
    add()
    path = entry(kept)
    damage(path)
    assert add() == (3, False)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"compiled code in '{path}' {said}")
    assert caplog.messages[0].endswith("; it is thrown away and compiled anew")
    assert add() == (3, True)
    assert len(caplog.messages) == 1


def test_a_kernel_with_anothers_name_does_not_run(kept, caplog):
    """Its digest is right, but it was compiled from another text."""
    add(1)
    first = entry(kept)
    add(2)
    (second,) = set(kept.folder.glob("*.code")) - {first}
    first.write_bytes(second.read_bytes())
    assert add(1) == (3, False)
    assert caplog.messages == [
        f"compiled code in '{first}' was compiled from something else; it is thrown away and compiled anew"
    ]


def test_no_source_text_is_run_from_the_folder(kept):
    add()
    assert [path.suffix for path in kept.folder.iterdir()] == [".code"]


def test_what_this_numba_cannot_load(kept, caplog, monkeypatch):
    """Nothing is wrong with the entry, as far as digests tell."""
    add()
    path = entry(kept)
    monkeypatch.setattr("pickle.loads", lambda data: 1 / 0)
    assert add() == (3, False)
    assert caplog.messages == [
        f"compiled code in '{path}' cannot be loaded (ZeroDivisionError: division by zero); "
        "it is thrown away and compiled anew"
    ]


@pytest.mark.parametrize(
    "name", ["numba.__version__", "llvmlite.__version__", "cntk_engine_cpu.compiler.platform.python_version"]
)
def test_kernels_of_other_versions_are_not_read(kept, caplog, monkeypatch, name):
    add()
    compiler._surroundings.cache_clear()
    monkeypatch.setattr(name, (lambda: "3.99") if name.endswith("python_version") else "9.9")
    try:
        assert [add(), add()] == [(3, False), (3, True)]
    finally:
        compiler._surroundings.cache_clear()
    assert kept.state().entries == 2
    assert not caplog.messages


def test_kernels_of_another_processor_are_not_read(kept, monkeypatch):
    from numba.core.codegen import CPUCodegen

    add()
    here = CPUCodegen.magic_tuple
    monkeypatch.setattr(CPUCodegen, "magic_tuple", lambda self: (*here(self)[:1], "another processor", ""))
    assert [add(), add()] == [(3, False), (3, True)]


def test_a_full_disk_ends_nothing(kept, caplog, monkeypatch):
    def full(*arguments, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert [add(1), add(1), add(2)] == [(3, False), (3, False), (4, False)]
    assert caplog.messages == [
        f"compiled kernels are not kept, each run compiles them anew: '{kept.folder}' cannot be written: "
        "No space left on device"
    ]
    assert list(kept.folder.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path, caplog, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    cache = CodeCache("kernels", tmp_path / "file" / "kernels", title="kernels")
    monkeypatch.setattr(compiler, "kernel_cache", lambda: cache)
    compiler.say_compiling.cache_clear()
    with caplog.at_level(logging.INFO, "cntk.engine"):
        assert [add(), add()] == [(3, False), (3, False)]
    compiler.say_compiling.cache_clear()
    assert caplog.messages == [
        f"compiled kernels are not kept, each run compiles them anew: '{tmp_path}/file/kernels' cannot be used: "
        "Not a directory",
        "compiling kernels for this network (in each run, as they are not kept)",
    ]


PROCESS = f"""
import numpy as np
from cntk_engine_cpu.compiler import compile_text
TEXT = {TEXT!r}
print("begin", flush=True)
for number in range(2):
    kernel = compile_text(TEXT.format(number), "add", {SIGNATURE!r})
    out = np.empty(3, np.float32)
    kernel(np.full(3, 2, np.float32), out)
    print(number, out[0], bool(kernel.stats.cache_hits), flush=True)
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
def test_three_processes_at_once(tmp_path):
    processes = [begin(tmp_path) for _ in range(3)]
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
