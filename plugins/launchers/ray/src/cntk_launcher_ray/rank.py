"""The actor of a rank: runs the command in a process of its machine and tells what comes of it."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

REPORTS = "CNTK_RANK_REPORTS"
"""Variable with the folder where ranks leave word for the command that has started them."""

OUT, ERROR, WORD, CODE = "out", "error", "word", "code"
"""What an :class:`Event` is: a line of one of the streams, a file in that folder, the exit code at the end."""


class Place(NamedTuple):
    """Where an actor is.

    Attributes:
        node: the machine, as Ray calls it.
        address: by which others reach it.
        port: at which nobody listens there.
    """

    node: str
    address: str
    port: int


class Event(NamedTuple):
    """What a rank tells: ``kind``, the name of a file for ``WORD``, and a text or a number as text."""

    kind: str
    name: str
    text: str


class Rank:
    """One rank. Two methods may run at once: while :meth:`run` yields, others hear of a signal."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def place(self) -> Place:
        """Say where this is."""
        import ray

        with socket.socket() as free:  # nobody can connect to it
            free.bind(("", 0))
            port = int(free.getsockname()[1])
        util: Any = ray.util  # parts of it have no types
        return Place(ray.get_runtime_context().get_node_id(), util.get_node_ip_address(), port)

    def run(self, command: Sequence[str], environment: Mapping[str, str], folder: str) -> Iterator[Event]:
        """Run the command in a folder and yield what it says, at last its exit code.

        Args:
            command: of the rank; another machine may have its Python elsewhere.
            environment: variables beside those that this process has.
            folder: where the recipe lies; it has to be there on all machines.
        """
        if not os.path.isdir(folder):
            yield Event(ERROR, "", f"there is no folder {folder} on {socket.gethostname()}: ranks need the same files")
            yield Event(CODE, "", "1")
            return
        program = command[0] if os.access(command[0], os.X_OK) else sys.executable
        given = {**os.environ, **environment}
        with TemporaryDirectory() as own:
            reports = given.setdefault(REPORTS, own)
            keeper = [sys.executable, "-P", "-m", "cntk_launcher_ray.keeper", program, *command[1:]]
            pipe = subprocess.PIPE
            with subprocess.Popen(
                keeper, env=given, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace"
            ) as self._process:
                yield from _lines(self._process)
                self._process.wait()
            yield from _words(Path(reports)) if reports == own else ()
            yield Event(CODE, "", str(self._process.returncode))

    def tell(self, number: int) -> None:
        """Send the process a signal."""
        if self._process is not None:
            with suppress(OSError):
                self._process.send_signal(number)


def _words(folder: Path) -> Iterator[Event]:
    """Yield what the rank has left for the command; the number of its process means nothing elsewhere."""
    for path in sorted(folder.iterdir()):
        if path.suffix != ".pid":
            yield Event(WORD, path.name, path.read_text(encoding="utf-8", errors="replace"))


def _lines(process: subprocess.Popen[str]) -> Iterator[Event]:
    """Yield the lines of both streams as they come, until both have ended."""
    found: queue.SimpleQueue[Event | None] = queue.SimpleQueue()

    def read(stream: IO[str] | None, kind: str) -> None:
        for line in stream or ():
            found.put(Event(kind, "", line.rstrip("\n")))
        found.put(None)

    streams = ((process.stdout, OUT), (process.stderr, ERROR))
    for stream, kind in streams:
        threading.Thread(target=read, args=(stream, kind), daemon=True).start()
    left = len(streams)
    while left:
        event = found.get()
        if event is None:
            left -= 1
        else:
            yield event
