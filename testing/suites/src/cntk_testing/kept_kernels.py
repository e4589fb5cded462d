"""Damages to kernels that were compiled and are kept on disk, for tests that none of them is believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def flip(path: Path, place: int) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "is cut off"),
    "half": (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), "is damaged"),
    "one bit of the code": (lambda path: flip(path, -100), "is damaged"),
    "one bit of what it was compiled from": (
        lambda path: flip(path, path.read_bytes().index(b"llvmlite")),
        "is damaged",
    ),
    "one bit of the digest": (lambda path: flip(path, 30), "is damaged"),
    "something else": (lambda path: path.write_bytes(b"import os\n" * 50), "is something else"),
}
"""What may happen to the file of a kernel, and what is said of it."""


def entry(folder: Path) -> Path:
    """Return the file of the one kernel that is kept in a folder."""
    (path,) = folder.glob("*.code")
    return path


def anew(kernel: Any) -> Any:
    """Return a kernel as another process has it, which has compiled and read nothing yet."""
    fresh = type(kernel)(kernel.py_func, kernel.locals, kernel.targetoptions)
    fresh._cache = kernel._cache
    return fresh


def was_kept(kernel: Any, call: Callable[[Any], None]) -> bool:
    """Call a kernel as another process does; return whether it came from the disk, False if it was compiled.

    Args:
        kernel: what :func:`cntk_core.api.engines.kept_kernel` has made.
        call: calls it, with arguments of one type, and checks what it gives.
    """
    fresh = anew(kernel)
    call(fresh)
    return bool(fresh.stats.cache_hits)


def check_damage(kernel: Any, call: Callable[[Any], None], name: str, folder: Path, caplog: Any) -> None:
    """Check that a damaged kernel costs a line and the time to compile it, once.

    Args:
        kernel, call: see :func:`was_kept`.
        name: one of :data:`DAMAGES`.
        folder: an empty one where kernels are kept now.
        caplog: pytest's.
    """
    damage, said = DAMAGES[name]
    assert not was_kept(kernel, call)
    path = entry(folder)
    damage(path)
    assert not was_kept(kernel, call)
    (line,) = caplog.messages
    assert line.startswith(f"compiled code in '{path}' {said}")
    assert line.endswith("; it is thrown away and compiled anew")
    assert was_kept(kernel, call)
    assert caplog.messages == [line]


def check_full_disk(
    kernel: Any, call: Callable[[Any], None], folder: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a full disk costs a line and the time to compile. Arguments as in :func:`check_damage`."""

    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        assert [was_kept(kernel, call), was_kept(kernel, call)] == [False, False]
    assert caplog.messages == [
        f"compiled kernels are not kept, each run compiles them anew: '{folder}' cannot be written: "
        "No space left on device"
    ]
    assert list(folder.iterdir()) == []
