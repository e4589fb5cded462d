"""Faults of the disk: any call of the system that a save makes can fail, be cut short, or be the last one.

Tests of what must survive run it once with :class:`Faults` to count the calls, and then once for each call and kind of
fault. Nothing is flushed to the disk meanwhile; what a program did not flush is lost with the power instead.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs

FULL = "full"
"""The call fails because the disk is full; the ones after it do not."""
GONE = "gone"
"""This call and all that follow fail: the disk cannot be read or written any more."""
SHORT = "short"
"""A write puts half of its bytes on the disk and then fails; other calls fail as if the disk were full."""
STOP = "stop"
"""The process ends before the call."""
POWER = "power"
"""The process ends after the call, and what was written and not flushed by then is lost, but for its first half."""

KINDS = (FULL, GONE, SHORT, STOP, POWER)

_CALLS = ("open", "mkdir", "replace", "rename", "unlink", "remove", "rmdir", "listdir", "scandir", "fsync")


class Crash(BaseException):
    """The process has ended. Whatever it does on its way out touches no file."""


@attrs.define(eq=False)
class Faults:
    """A context in which calls of the system are counted, and one of them goes wrong.

    Attributes:
        root: where files lie.
        at: which call goes wrong, from 0; none if it is negative.
        kind: what happens, one of :data:`KINDS`.
        calls: names of the calls so far.
    """

    root: Path
    at: int = -1
    kind: str = STOP
    calls: list[str] = attrs.field(factory=list)
    _dead: bool = attrs.field(default=False, init=False)
    _unflushed: set[int] = attrs.field(factory=set, init=False)
    _real: dict[str, Any] = attrs.field(factory=dict, init=False)
    _real_open: Any = attrs.field(default=None, init=False)

    def __enter__(self) -> Faults:
        self._real = {name: getattr(os, name) for name in _CALLS}
        self._real_open = io.open
        for name in _CALLS:
            setattr(os, name, self._patched(name))
        io.open = builtins.open = self._open
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)
        io.open = builtins.open = self._real_open
        if self._dead and self.kind == POWER:
            self._lose()

    def _patched(self, name: str) -> Callable[..., Any]:
        real = self._flush if name == "fsync" else self._real[name]
        return lambda *given, **more: self.call(name, lambda: real(*given, **more))

    def _flush(self, handle: int) -> None:
        self._unflushed.discard(os.fstat(handle).st_ino)

    def _open(self, file: Any, mode: str = "r", *given: Any, **more: Any) -> Any:
        if "w" not in mode:
            return self.call("open", lambda: self._real_open(file, mode, *given, **more))
        if mode != "wb":
            raise NotImplementedError(f"a save that opens a file with mode '{mode}'")
        return self.call("open", lambda: io.BufferedWriter(_File(file, self)))

    def call(self, name: str, do: Callable[[], Any], half: Callable[[], Any] = lambda: None) -> Any:
        """Do something, or what is to happen instead of it; ``half`` is what a short write leaves.

        Raises:
            Crash: the process ends here, or has ended before.
            OSError: it fails.
        """
        if self._dead:
            raise Crash
        number = len(self.calls)
        self.calls.append(name)
        if self.kind == GONE and 0 <= self.at <= number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if number != self.at:
            return do()
        if self.kind in (STOP, POWER):
            if self.kind == POWER:
                with contextlib.suppress(OSError):  # a folder that is there already
                    done = do()
                    if name in ("open", "scandir"):
                        _close(done)
            self._dead = True
            raise Crash
        if self.kind == SHORT:
            half()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def written(self, handle: int) -> None:
        """Note that a file has content that is not flushed."""
        self._unflushed.add(os.fstat(handle).st_ino)

    def _lose(self) -> None:
        for path in self.root.rglob("*"):
            if path.is_file() and path.stat().st_ino in self._unflushed:
                os.truncate(path, path.stat().st_size // 2)


def _close(opened: Any) -> None:
    if isinstance(opened, int):
        os.close(opened)
    elif hasattr(opened, "close"):
        opened.close()


class _File(io.FileIO):
    """A file that is written without a buffer of its own."""

    def __init__(self, path: Any, faults: Faults) -> None:
        super().__init__(path, "w")
        self._faults = faults

    def write(self, data: Any) -> int:
        """Write, or fail."""
        view = memoryview(data).cast("B")

        def put(part: memoryview) -> int:
            self._faults.written(self.fileno())
            return super(_File, self).write(part)

        return int(self._faults.call("write", lambda: put(view), lambda: put(view[: len(view) // 2])))
