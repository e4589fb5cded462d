"""Running commands beside each other, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import attrs

_LOOK = 0.05
"""Seconds between two looks at the processes."""

_GRACE = 15.0
"""Seconds that processes have to save and to end when they are told to."""

_STOPPED = 128
"""Exit status of what a signal has ended, less the number of the signal."""

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@attrs.frozen(eq=False)
class Task:
    """A command that is to be run.

    Attributes:
        command: the program and its words.
        output: where what it prints goes; a file that is there is continued.
        begun: called when it begins.
        ended: called with its exit status; less than 0: the signal that ended it.
    """

    command: Sequence[str]
    output: Path
    begun: Callable[[], None]
    ended: Callable[[int], None]


def run_tasks(tasks: Sequence[Task], jobs: int, processes: int = 1) -> None:
    """Run all tasks, so many at a time. Where this is interrupted, those that run are told to end, and waited for.

    Args:
        tasks: in the order in which they begin.
        jobs: how many at a time, at least 1.
        processes: that each of them starts; the processors are shared out where nobody has said how many threads.
    """
    waiting = list(reversed(tasks))
    running: list[tuple[Task, subprocess.Popen[bytes]]] = []
    environment = shared_out(min(jobs, len(tasks)) * max(1, processes))
    with _exit_when_told():
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    task = waiting.pop()
                    task.begun()
                    running.append((task, _start(task, environment)))
                time.sleep(_LOOK)
                for task, process in [pair for pair in running if pair[1].poll() is not None]:
                    running.remove((task, process))
                    task.ended(process.returncode)
        finally:
            _end([process for _, process in running])


@contextmanager
def _exit_when_told() -> Iterator[None]:
    """Within, SIGTERM leaves through what is to be done at the end, as Ctrl-C does; only a main thread can hear it."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(_STOPPED + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def shared_out(processes: int) -> Mapping[str, str]:
    """Return variables with which so many processes share the processors; what the user has said holds."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = str(max(1, usable // max(1, processes)))
    return {**(dict.fromkeys(_THREADS, threads) if processes > 1 else {}), **os.environ}


def _start(task: Task, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    task.output.parent.mkdir(parents=True, exist_ok=True)
    with task.output.open("ab") as output:
        return subprocess.Popen(
            task.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
        )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _GRACE
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
