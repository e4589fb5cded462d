"""What a lock says of its holder: a small JSON text that people can read, too."""

from __future__ import annotations

import json
import secrets
import shlex
import socket
import sys
import time

import attrs

from cntk_core.system.processes import Process

FORMAT = "cntk-core-lock"
VERSION = 1
MOST = 4096
"""Bytes of a record at most."""

_MOST_OF_COMMAND = 300
_TOGETHER = 60.0
"""Seconds between the starts of two processes that one launcher may have started."""


@attrs.frozen
class Record:
    """Who holds a lock.

    Attributes:
        process: the process.
        host: the name of its machine.
        since: when it took the lock, in seconds since 1970.
        command: how it was called.
        token: of this lock alone.
    """

    process: Process
    host: str
    since: float
    command: str
    token: str

    @classmethod
    def own(cls) -> Record:
        """Return that of this process, now."""
        command = shlex.join(sys.argv)[:_MOST_OF_COMMAND]
        return cls(Process.own(), socket.gethostname(), round(time.time(), 3), command, secrets.token_hex(8))

    @classmethod
    def read(cls, raw: bytes) -> Record | None:
        """Return what a lock says; None if that makes no sense: it was not written to its end, or is something else."""
        try:
            found = json.loads(raw)
            process = Process(str(found["machine"]), int(found["process"]), str(found["began"]))
            texts = [str(found[name]) for name in ("host", "command", "token")]
            return cls(process, texts[0], float(found["since"]), *texts[1:])
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def raw(self) -> bytes:
        """Return it as it stands in the lock."""
        entries = {
            "format": FORMAT,
            "version": VERSION,
            "host": self.host,
            "machine": self.process.machine,
            "process": self.process.number,
            "began": self.process.began,
            "since": self.since,
            "command": self.command,
            "token": self.token,
        }
        return json.dumps(entries).encode() + b"\n"

    def __str__(self) -> str:
        """Say who it is, for a message."""
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        called = f" ({self.command})" if self.command else ""
        return f"process {self.process.number} on {self.host}, since {since}{called}"

    def is_twin(self) -> bool:
        """Whether it was called as this process was, and at nearly the same time, as ranks of one training are."""
        own = Record.own()
        return bool(self.command) and self.command == own.command and abs(own.since - self.since) < _TOGETHER


def is_begun(raw: bytes) -> bool:
    """Whether it is, or may be the beginning of, a record of this program; an empty lock is one, too."""
    text = raw.strip(b"\0 \n")
    begin = f'{{"format": "{FORMAT}"'.encode()
    return text.startswith(begin[: len(text)]) if len(text) < len(begin) else text.startswith(begin)
