"""Where an archive is written: a file that appears when it is whole, the standard output, a command, a pipe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import ConfigError, DataError, Location, UnsupportedError, ask_to_run, ask_to_write
from cntk_reader_kaldi.commands import ALLOW, is_command, shell, shown

_UNFINISHED = ".unfinished"
_FORMS = "Kaldicmd is ark:FILE, ark,t:FILE (as text), ark,scp:FILE,LIST, ark:- (the standard output) or ark:| COMMAND."


class Sink(ABC):
    """Takes the bytes of an archive. All methods raise OSError."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Take the next bytes."""

    @abstractmethod
    def close(self) -> None:
        """All bytes were written. May be called more than once, and before or after :meth:`discard`."""

    @abstractmethod
    def discard(self) -> None:
        """What was written is not whole and must not look so. May be called more than once."""


class FileSink(Sink):
    """A file that has its name when it is whole; what is there already and no plain file is written to at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._hidden = not path.exists() or path.is_file()
        self._own = path.with_name(path.name + _UNFINISHED) if self._hidden else path
        self._file: IO[bytes] | None = self._own.open("wb")

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        assert self._file is not None
        self._file.write(data)

    def close(self) -> None:
        """Give the file its name."""
        if self._file is not None:
            self._file.close()
            self._file = None
            if self._hidden:
                os.replace(self._own, self._path)

    def discard(self) -> None:
        """Remove the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # what is still to be written may have no place
                self._file.close()
            self._file = None
            if self._hidden:
                self._own.unlink(missing_ok=True)


class StandardOutput(Sink):
    """The standard output, which stays open."""

    def write(self, data: bytes) -> None:
        """Take the next bytes; a program that reads them has each utterance at once."""
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def close(self) -> None:
        """Nothing is left to do."""

    def discard(self) -> None:
        """What was written cannot be taken back: the program ends with an error."""


class CommandSink(Sink):
    """The standard input of a command. Raises OSError, also if it fails."""

    def __init__(self, command: str) -> None:
        self._command = command
        words = shell(command.removeprefix("|").strip())
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(words, stdin=subprocess.PIPE)

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
        except BrokenPipeError:
            raise OSError(f"'{shown(self._command)}' ended before it had read everything") from None

    def close(self) -> None:
        """Wait until the command has ended."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        status = process.wait()
        if status:
            raise OSError(f"'{shown(self._command)}' failed with status {status}")

    def discard(self) -> None:
        """End the command before it takes the end of its input for the end of the data."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait()


@attrs.frozen
class Specifier:
    """Where matrices go, as ``ark,t,scp:FILE,LIST`` says.

    Attributes:
        target: the archive's file, ``-``, or a command that begins with ``|``.
        listing: the list that tells where each matrix is, if any.
        text: in text form.
        where: its place.
    """

    target: str
    listing: str = ""
    text: bool = False
    where: Location | None = None

    @classmethod
    def parse(cls, text: str, where: Location) -> Specifier:
        """Read a specifier. Raises ConfigError."""
        head, colon, rest = text.strip().partition(":")
        words = [word.strip() for word in head.split(",")]
        target, listing = rest.strip(), ""
        if not colon or words[0] != "ark" or not target:
            raise ConfigError(f"'{shown(text)}' does not say where an archive goes", where=where, hint=_FORMS)
        if "scp" in words:
            target, comma, listing = (part.strip() for part in target.rpartition(","))
            if not (comma and target and listing) or target == "-" or is_command(target):
                raise ConfigError(f"'{shown(text)}' needs the names of two files", where=where, hint=_FORMS)
        return cls(target=target, listing=listing, text="t" in words[1:], where=where)

    def check(self, allow_commands: bool) -> None:
        """Ask whether that may be written or run.

        Raises:
            UnsupportedError: it is a command, and the recipe does not allow any.
            RefusedError: ``--safe``.
        """
        if is_command(self.target):
            if not allow_commands:
                hint = f"{ALLOW.partition(' runs')[0]} runs it."
                raise UnsupportedError(f"the command '{shown(self.target)}' is not run", where=self.where, hint=hint)
            ask_to_run(self.target, key="Kaldicmd", where=self.where)
        elif self.target != "-":
            for path in filter(None, (self.target, self.listing)):
                ask_to_write(path, key="Kaldicmd", where=self.where)

    def open(self) -> Sink:
        """Open what it names. Raises OSError."""
        if self.target == "-":
            return StandardOutput()
        return CommandSink(self.target) if is_command(self.target) else FileSink(Path(self.target))


def matrix_bytes(values: NDArray[Any], *, text: bool) -> bytes:
    """Return a matrix ``(rows, columns)`` as Kaldi writes it, in the precision that it has."""
    if text:
        rows = "".join(f"\n  {' '.join(map(repr, row))} " for row in values.tolist())
        return f" [{rows}]\n".encode()
    kind = b"FM" if values.dtype == np.float32 else b"DM"
    sizes = b"".join(b"\4" + int(size).to_bytes(4, "little") for size in values.shape)
    return b"\0B" + kind + b" " + sizes + np.ascontiguousarray(values, dtype=f"<f{values.itemsize}").tobytes()


class ArchiveOutput:
    """An archive that is being written, and the list beside it.

    Args:
        specifier: where it goes.

    Raises:
        DataError: as all methods, it cannot be written.
    """

    def __init__(self, specifier: Specifier) -> None:
        self._specifier = specifier
        self._at = 0
        self._listing: list[str] = []
        self._sink: Sink
        try:
            self._sink = specifier.open()
        except (OSError, ValueError) as error:
            raise self._failed(error) from None

    def add(self, key: str, values: NDArray[Any]) -> None:
        """Write a matrix ``(rows, columns)`` under a key."""
        head, body = f"{key} ".encode(), matrix_bytes(values, text=self._specifier.text)
        if self._specifier.listing:
            self._listing.append(f"{key} {self._specifier.target}:{self._at + len(head)}\n")
        self._at += len(head) + len(body)
        try:
            self._sink.write(head + body)
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """End it."""
        try:
            self._sink.close()
            if self._specifier.listing and self._listing:
                listing = FileSink(Path(self._specifier.listing))
                listing.write("".join(self._listing).encode())
                listing.close()
                self._listing.clear()
        except OSError as error:
            raise self._failed(error) from None

    def discard(self) -> None:
        """Remove it, where that can be."""
        with contextlib.suppress(OSError):
            self._sink.discard()

    def _failed(self, error: Exception) -> DataError:
        name = "the standard output" if self._specifier.target == "-" else f"'{shown(self._specifier.target)}'"
        reason = getattr(error, "strerror", None) or str(error)
        return DataError(f"{name} cannot be written: {reason}", where=self._specifier.where)
