"""Who a process is, so that it can be told from another one that gets its number later."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

import attrs

TOKEN = "[0-9a-f]{8}-[0-9]+-[0-9]+"
"""Pattern of :attr:`Process.token`."""

_BEGAN, _STATE = 19, 0
"""Places in ``/proc/PID/stat``, counted from behind the name of the command."""

_ENDED = ("Z", "X")


@attrs.frozen
class Process:
    """A process on some machine.

    Attributes:
        machine: a text that processes have in common if they see each other's numbers; a digest of it in a token.
        number: its number there.
        began: when it began, in ticks since the machine did; empty where the system does not say.
    """

    machine: str
    number: int
    began: str

    @classmethod
    def own(cls) -> Process:
        """Return this process."""
        return _own(os.getpid())

    @classmethod
    def of_token(cls, token: str) -> Process:
        """Return the process that :attr:`token` is of; only its machine's digest is known."""
        machine, number, began = token.split("-")
        return cls(machine, int(number), "" if began == "0" else began)

    @property
    def token(self) -> str:
        """A name for files of this process: letters, digits and ``-``."""
        return f"{_digest(self.machine)}-{self.number}-{self.began or 0}"

    @property
    def is_here(self) -> bool:
        """Whether this process can see it."""
        return self.machine in (machine(), _digest(machine()))

    def lives(self) -> bool | None:
        """Whether it has not ended yet; None if it is elsewhere and nobody here can tell."""
        if not self.is_here:
            return None
        if self.began:
            fields = _fields(self.number)
            return bool(fields) and fields[_BEGAN] == self.began and fields[_STATE] not in _ENDED
        try:
            os.kill(self.number, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True


@cache
def _own(number: int) -> Process:
    return Process(machine(), number, began(number))


@cache
def machine() -> str:
    """Return a text that processes have in common if they see each other's numbers."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def began(number: int) -> str:
    """Return when a process began; nothing if it is not there, or where the system does not say."""
    fields = _fields(number)
    return fields[_BEGAN] if fields else ""


def _fields(number: int) -> list[str]:
    try:
        text = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()


def is_of_dead(name: str, pattern: str) -> bool:
    """Whether the name of a file is that of a process of this machine that has ended.

    Args:
        name: of the file.
        pattern: of the whole name, with a group around the :data:`TOKEN`.
    """
    found = re.fullmatch(pattern, name)
    return found is not None and Process.of_token(found[1]).lives() is False
