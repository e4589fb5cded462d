"""Objects are loaded without LLVM, as LLVM would load them; what has something else is left to it."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cntk_core.api.engines import native_function
from cntk_kit_engines import machine_code, native, object_loader
from cntk_kit_engines.code_generator import LEVELS, CodeGenerator, host
from cntk_kit_engines.object_loader import CannotLoad, load_object, loads_here
from cntk_kit_engines.processor import described

needs_llvm = pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")
loads = pytest.mark.skipif(not loads_here(), reason="objects of another format are left to LLVM")

TEXT = """
import math
import numpy as np


def scaled(a, out):
    total = 0.0
    for i in range(out.shape[0]):
        out[i] = 0.0
    for i in range(a.shape[0]):
        out[i] += math.log(a[i]) * 1.25 + {}
        total += out[i] * 3.0
    return total
"""
SIGNATURE = "float64(float64[::1], float64[::1])"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def scaled(number: float) -> tuple[float, list[float]]:
    out = np.full(7, 9.0)
    total = native_function.__wrapped__(TEXT.format(number), "scaled", SIGNATURE)(np.arange(1.0, 6.0), out)
    return total, out.tolist()


@needs_llvm
@loads
def test_it_computes_what_llvm_loads(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that reads numbers, and calls functions of the C library."""
    asked: list[str] = []

    def load(code: bytes, name: str) -> int:
        asked.append(name)
        return load_object(code, name)

    monkeypatch.setattr(machine_code, "load_object", load)
    machine_code._compiler.cache_clear()
    ours = scaled(0.5)
    assert len(asked) == 1
    monkeypatch.setattr(machine_code, "loads_here", lambda: False)
    machine_code._compiler.cache_clear()
    assert scaled(0.5) == ours
    assert len(asked) == 1
    expected = np.append(np.log(np.arange(1.0, 6.0)) * 1.25 + 0.5, [0, 0])
    np.testing.assert_allclose(ours[1], expected, rtol=1e-14)
    np.testing.assert_allclose(ours[0], 3 * expected.sum(), rtol=1e-14)


@needs_llvm
@pytest.mark.parametrize("error", [CannotLoad("a relocation of kind 2"), OSError(13, "memory may not be run")])
def test_what_cannot_be_loaded_here_is_left_to_llvm(
    kept: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(code: bytes, name: str) -> int:
        raise error

    monkeypatch.setattr(machine_code, "load_object", refuse)
    machine_code._compiler.cache_clear()
    assert scaled(0.75)[1][:2] == pytest.approx([0.75, np.log(2.0) * 1.25 + 0.75])


def compiled(level: str | None = None) -> tuple[str, bytes]:
    """The function's name, and its object."""
    found = []

    def load(name: str, identity: str, write: Callable[[], str]) -> int:
        found.append((name, write()))
        return 0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(native, "load_function", load)
        patched.setattr(native, "Native", lambda *arguments: None)
        native_function.__wrapped__(TEXT.format(2.0), "scaled", SIGNATURE)
    if level is not None:
        import llvmlite.binding as llvm

        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    ((name, text),) = found
    return name, CodeGenerator(host() if level is None else LEVELS[level][0]).compile(text)


def sections(code: bytes) -> list[int]:
    table, size, count = *struct.unpack_from("<Q", code, 40), *struct.unpack_from("<HH", code, 58)
    return list(range(table, table + size * count, size))


def with_section(code: bytes, kind: int, field: str, place: int, change: Callable[[int], int]) -> bytes:
    """The object, with a number of its sections of a kind changed."""
    changed = bytearray(code)
    for begin in sections(code):
        if struct.unpack_from("<I", code, begin + 4)[0] == kind and struct.unpack_from("<Q", code, begin + 32)[0]:
            (value,) = struct.unpack_from(field, code, begin + place)
            struct.pack_into(field, changed, begin + place, change(value))
    return bytes(changed)


def other_relocation(code: bytes) -> bytes:
    changed = bytearray(code)
    for begin in sections(code):
        kind, place = *struct.unpack_from("<I", code, begin + 4), *struct.unpack_from("<Q", code, begin + 24)
        if kind == 4:
            struct.pack_into("<I", changed, place + 8, 2)
    return bytes(changed)


@needs_llvm
@loads
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda code: b"", "another format"),
        (lambda code: b"\x7fELF\x01" + code[5:], "another format"),
        (lambda code: code[:16] + b"\x02" + code[17:], "another kind of file"),
        (lambda code: code[:18] + b"\xb7" + code[19:], "another kind of file"),
        (lambda code: with_section(code, 1, "<Q", 8, lambda flags: flags | 1), "a section that is written to, or of"),
        (lambda code: with_section(code, 1, "<I", 4, lambda kind: 14), "a section that is written to, or of"),
        (other_relocation, "a relocation of kind 2"),
        (lambda code: code.replace(b"\0log\0", b"\0lug\0"), "no function 'lug' in the C library"),
        (lambda code: code.replace(b"\0cntk_", b"\0cmtk_"), "no function 'cntk_"),
    ],
)
def test_it_says_what_it_cannot_load(change: Callable[[bytes], bytes], said: str) -> None:
    name, code = compiled()
    changed = change(code)
    assert changed != code
    with pytest.raises(CannotLoad, match=said):
        load_object(changed, name)


@needs_llvm
@loads
@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_code_of_each_level_can_be_loaded(level: str) -> None:
    name, code = compiled(level)
    assert load_object(code, name) % 16 == 0


@needs_llvm
@loads
def test_loaded_code_can_no_longer_be_written() -> None:
    name, code = compiled()
    address = load_object(code, name)
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(place, 16) for place in line.split()[0].split("-"))
        if begin <= address < end:
            assert line.split()[1] == "r-xp"
            return
    pytest.fail("the address is nowhere")


@loads
def test_a_system_that_gives_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="no memory for compiled code"):
        object_loader._memory(1 << 60)


AGAIN = f"""
import sys
import numpy as np
from cntk_core.api.engines import native_function

native_function({TEXT.format(1.0)!r}, "scaled", {SIGNATURE!r})(np.ones(3), np.ones(3))
print("llvmlite.binding" in sys.modules)
"""


@needs_llvm
@loads
def test_what_is_kept_is_loaded_without_importing_llvm(tmp_path: Path) -> None:
    environment = {**os.environ, "CNTK_CACHE": str(tmp_path)}
    said = [
        subprocess.run([sys.executable, "-c", AGAIN], env=environment, text=True, capture_output=True, check=True)
        for _ in range(2)
    ]
    assert [each.stdout for each in said] == ["True\n", "False\n"]


CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Some name
stepping\t: 7
microcode\t: {}
flags\t\t: fpu avx bmi1 abm {}

processor\t: 1
flags\t\t: nothing
"""


def test_a_processor_by_what_linux_says() -> None:
    one = described(CPUINFO.format("0x1", "fma"))
    assert one is not None
    assert one.features == {"fpu", "avx", "bmi", "lzcnt", "fma"}
    assert one.identity.startswith("GenuineIntel 6 85 7 ")
    assert described(CPUINFO.format("0x2", "fma")) == one
    other = described(CPUINFO.format("0x1", "fma avx2"))
    assert other is not None
    assert other.identity != one.identity


@pytest.mark.parametrize("text", ["", "processor : 0\nFeatures : fp asimd\n", CPUINFO.replace("stepping", "step")])
def test_a_processor_of_which_linux_says_too_little(text: str) -> None:
    assert described(text) is None
