"""``cntk train recipe.cntk -n 4``: starts the ranks, waits for them, and tells what came of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from cntk_core.actions.log import Log
from cntk_core.actions.ranks import DONE, EXPECTED, MPI, REPORTS, SOCKETS, detect
from cntk_core.errors import PluginError, UnsupportedError, UsageError
from cntk_core.interfaces.parallel import Launcher

if TYPE_CHECKING:
    from cntk_core.plugins.registry import Registry

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Variables with the threads of a process, for the libraries that compute."""

_GRACE = 10.0
"""Seconds that the ranks have to end after the launcher was told to stop."""


def launch(ranks: int, arguments: Sequence[str], plugin_files: Sequence[str] = ()) -> int:
    """Run ``cntk`` with the arguments on so many ranks of this machine and return the exit code.

    The message of the rank that failed first is printed last.

    Raises:
        UsageError: the number makes no sense, or this is one of several ranks already.
        PluginError: nothing is installed that can start ranks.
    """
    if ranks < 1:
        raise UsageError(f"-n {ranks} makes no sense: the number of ranks is at least 1")
    if detect().size > 1:
        raise UsageError(
            f"-n {ranks} is given to a process that {detect().by} has started as one of {detect().size}",
            hint="Give -n to cntk alone, or start it with mpiexec and without -n.",
        )
    from cntk_core.actions.context import make_plugins

    registry = make_plugins(Log(), plugin_files).registry
    launcher = _find_launcher(registry, ranks)
    with tempfile.TemporaryDirectory(prefix="cntk-ranks-") as folder:
        environment = {**_environment(ranks), **launcher.environment, EXPECTED: str(ranks), REPORTS: folder}
        code = _run([*launcher.command, sys.executable, "-m", "cntk_core", *arguments], environment)
        return _outcome(code, Path(folder), launcher.title)


def _find_launcher(registry: Registry, ranks: int) -> Launcher:
    """Return the launcher of MPI, or, where MPI is not installed or has none, the one of ranks on sockets."""
    try:
        return registry.communicators.get(MPI).launcher(ranks)
    except (PluginError, UnsupportedError) as error:
        try:
            return registry.communicators.get(SOCKETS).launcher(ranks)
        except PluginError:
            raise error from None


def _environment(ranks: int) -> Mapping[str, str]:
    """Variables of this process, with the processors shared out where nobody has said how many threads to use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = str(max(1, usable // ranks))
    return {**dict.fromkeys(THREADS, threads), **os.environ}


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    with subprocess.Popen(command, env=dict(environment)) as process, _stopping(process):
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the ranks have got it, too
                continue


@contextmanager
def _stopping(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Within, a request to end this process ends the ranks first."""

    def stop(number: int, frame: FrameType | None) -> None:
        process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _outcome(code: int, folder: Path, title: str) -> int:
    """Say what came of the ranks; without the mark of rank 0 they have not succeeded, whatever the launcher says."""
    if code == 0 and (folder / DONE).exists():
        return 0
    reports = sorted(folder.glob("rank-*.txt"), key=lambda path: path.stat().st_mtime_ns)
    if reports:
        rank = reports[0].stem.partition("-")[2]
        text = reports[0].read_text(encoding="utf-8", errors="replace").rstrip()
        _say(f"\nrank {rank} failed first:\n{text}")
    elif code < 0 or code > 128:
        number = -code if code < 0 else code - 128
        kept = "what was saved before is kept, and the same command goes on from it"
        _say(f"\na rank was ended by signal {number}; {kept}")
    else:
        _say(f"\na rank ended before the work was done, without a message ({title} gave the code {code})")
    return code if 0 < code < 256 else 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
