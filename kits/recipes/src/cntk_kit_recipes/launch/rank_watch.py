"""Watching the processes of the ranks: which one ended first, and telling them to end."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

import attrs

from cntk_kit_recipes.recipe.ranks import PROCESS


@attrs.define(eq=False)
class RankWatch:
    """Processes of ranks on this machine, known by the files in which they leave their numbers.

    Launchers end the other ranks as soon as one has ended: who was first can only be seen by looking at the processes.

    Attributes:
        folder: where ranks leave these files.
        ended: ranks that have ended, in this order.
    """

    folder: Path
    ended: list[int] = attrs.field(factory=list, init=False)
    _processes: dict[int, int] = attrs.field(factory=dict, init=False)
    _handles: dict[int, int] = attrs.field(factory=dict, init=False)

    def look(self, seconds: float) -> None:
        """Note who has ended; return after so many seconds, or when one does."""
        self._find()
        if not hasattr(os, "pidfd_open"):
            time.sleep(seconds)
            self.ended += [rank for rank in self._running() if not _exists(self._processes[rank])]
            return
        poll = select.poll()
        for handle in self._handles:
            poll.register(handle, select.POLLIN)
        for handle, _ in poll.poll(int(1000 * seconds)):
            self.ended.append(self._handles.pop(handle))
            os.close(handle)

    def tell(self, number: int = signal.SIGTERM) -> bool:
        """Tell all ranks that are there to end, with a signal; False if there are none."""
        self._find()
        running = self._running()  # children of the launcher, which waits for them, so the numbers are still theirs
        for rank in running:
            with suppress(OSError):
                os.kill(self._processes[rank], number)
        return bool(running)

    def close(self) -> None:
        """Let go of the processes."""
        for handle in self._handles:
            os.close(handle)
        self._handles.clear()

    def _running(self) -> list[int]:
        return [rank for rank in self._processes if rank not in self.ended]

    def _find(self) -> None:
        for path in self.folder.glob(PROCESS.format("*")):
            rank, text = int(path.stem.partition("-")[2]), path.read_text(encoding="utf-8")
            if not text or self._processes.get(rank) == int(text):
                continue
            if rank in self._handles:
                os.close(self._handles.pop(rank))
            if rank in self.ended:
                self.ended.remove(rank)  # it was started again
            self._processes[rank] = int(text)
            if hasattr(os, "pidfd_open"):
                try:
                    self._handles[os.pidfd_open(int(text))] = rank
                except ProcessLookupError:
                    self.ended.append(rank)


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
