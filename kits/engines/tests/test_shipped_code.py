"""Code that a wheel ships is run where it is what was asked for, and nothing else is believed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cntk_core.api.engines import native_function
from cntk_kit_engines import machine_code, native
from cntk_kit_engines.code_generator import LEVELS, X86_64_V3, X86_64_V4, CodeGenerator, host, level_of
from cntk_kit_engines.shipped_code import ShippedCode, digest_of, write_shipped

needs_llvm = pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")

CODE = {"one": b"first code" * 9, "two": b"second code"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shipped" / "level.kernels"
    write_shipped(path, {digest_of(identity): code for identity, code in CODE.items()})
    return path


def test_what_was_written_is_read(file: Path) -> None:
    shipped = ShippedCode(file)
    assert [shipped.read("one"), shipped.read("two"), shipped.read("three")] == [*CODE.values(), None]


def test_without_a_file_nothing_is_shipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ShippedCode(tmp_path / "None.kernels").read("one") is None
    assert caplog.messages == []


def test_other_passes_give_other_code(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_kit_engines.shipped_code.PIPELINE", "O1")
    assert ShippedCode(file).read("one") is None


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def other_code(data: bytes) -> bytes:
    """Packed rightly, but not what the index says."""
    code = CODE[max(CODE, key=digest_of)]
    return data[: -len(zlib.compress(code, 9))] + zlib.compress(code.swapcase(), 9)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: b"", "its SHA-256 differs"),
        (lambda data: b"import os\n" * 50, "its SHA-256 differs"),
        (lambda data: flipped(data, 25), "its SHA-256 differs"),
        (lambda data: flipped(data, data.index(b"{") + 9), "its SHA-256 differs"),
        (lambda data: data[: data.index(b"}")], "its SHA-256 differs"),
        (lambda data: data[:-8], "Error -5 while decompressing data: incomplete or truncated stream"),
        (other_code, "the SHA-256 of a kernel differs"),
    ],
)
def test_a_damaged_file_is_not_believed(
    file: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[bytes], bytes], said: str
) -> None:
    file.write_bytes(damage(file.read_bytes()))
    last = max(CODE, key=digest_of)  # lies at the end of the file
    shipped = ShippedCode(file)
    assert [shipped.read(last), shipped.read(last), shipped.read("one")] == [None] * 3
    assert caplog.messages == [f"shipped kernels in '{file}' are not used: {said}"]


@pytest.mark.parametrize(
    ("triple", "features", "level"),
    [
        ("x86_64-unknown-linux-gnu", X86_64_V4, "x86-64-v4"),
        ("x86_64-conda-linux-gnu", X86_64_V4[:-1], "x86-64-v3"),
        ("x86_64-unknown-linux-musl", X86_64_V3, "x86-64-v3"),
        ("x86_64-unknown-linux-gnu", X86_64_V3[:-1], None),
        ("aarch64-unknown-linux-gnu", ("neon",), "aarch64"),
        ("arm64-apple-darwin23.1.0", ("neon",), None),
        ("x86_64-pc-windows-msvc", X86_64_V4, None),
        ("ppc64le-unknown-linux-gnu", (), None),
    ],
)
def test_the_best_level_of_a_processor(triple: str, features: tuple[str, ...], level: str | None) -> None:
    assert level_of(triple, dict.fromkeys(features, True)) == level


TEXT = """
def add(a, out):
    for i in range(a.shape[0]):
        out[i] = a[i] + 4.5
"""
SIGNATURE = "void(float64[::1], float64[::1])"


def text_and_identity(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The function in LLVM's language, and what it is known by."""
    found = []

    def load(name: str, identity: str, write: Callable[[], str]) -> int:
        found.append((write(), f"{name}\n{identity}"))
        return 0

    with monkeypatch.context() as patched:
        patched.setattr(native, "load_function", load)
        patched.setattr(native, "Native", lambda *arguments: None)
        native_function.__wrapped__(TEXT, "add", SIGNATURE)
    return found[0]


@needs_llvm
def test_a_shipped_function_is_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, identity = text_and_identity(monkeypatch)
    code = CodeGenerator(host()).compile(text)
    write_shipped(tmp_path / "host.kernels", {digest_of(identity): code})
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine_code, "shipped_code", lambda: ShippedCode(tmp_path / "host.kernels"))
    compiled = []
    monkeypatch.setattr(CodeGenerator, "compile", lambda self, text: compiled.append(text))
    out = np.empty(3)
    native_function.__wrapped__(TEXT, "add", SIGNATURE)(np.arange(3.0), out)
    assert out.tolist() == [4.5, 5.5, 6.5]
    assert compiled == []
    assert not (tmp_path / "cache").exists()


@needs_llvm
@pytest.mark.parametrize(("level", "machine"), [("x86-64-v4", 62), ("x86-64-v3", 62), ("aarch64", 183)])
def test_code_for_each_level(monkeypatch: pytest.MonkeyPatch, level: str, machine: int) -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text, _ = text_and_identity(monkeypatch)
    code = CodeGenerator(LEVELS[level][0]).compile(text)
    assert code[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", code, 18) == (machine,)
