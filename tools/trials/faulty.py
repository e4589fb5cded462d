"""A process in which calls of the system can fail, be noted, or tell another time: `system.c`, loaded at its start."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import kills

SOURCE = Path(__file__).with_name("system.c")
CHANGE, FLUSH, READ = 1, 2, 4
ENOUGH = 900.0
"""Seconds after which a training of some seconds hangs, on a machine that does much else, too."""
_OF_TRAINING = re.compile(
    r"net\.dnn(\.\d+){0,2}(\.ckp)?|net\.dnn\.checkpoints(/\d+-[0-9a-f]+(/arrays\.safetensors|/manifest\.json)?)?"
)
"""Names that a training gives to what it keeps; old ones may be there again when their removal was lost."""
NO_DEFECT = ("Traceback", "defect of the program")
"""What no run may say, whatever the system does."""


@attrs.frozen
class Fault:
    """What goes wrong.

    Attributes:
        calls: which: ``CHANGE``, ``FLUSH``, ``READ``.
        error: what they say.
        for_good: all from the first one on.
        half: the first one, a write, does half of what it should.
    """

    calls: int
    error: int
    for_good: bool = False
    half: bool = False


FAULTS = {
    "full": Fault(CHANGE, errno.ENOSPC),
    "full for good": Fault(CHANGE, errno.ENOSPC, for_good=True),
    "full in a write": Fault(CHANGE, errno.ENOSPC, for_good=True, half=True),
    "short write": Fault(CHANGE, 0, half=True),
    "quota": Fault(CHANGE, errno.EDQUOT, for_good=True),
    "error": Fault(CHANGE, errno.EIO),
    "broken": Fault(CHANGE | FLUSH | READ, errno.EIO, for_good=True),
    "read-only": Fault(CHANGE, errno.EROFS, for_good=True),
    "stale": Fault(CHANGE, errno.ESTALE),
    "flush": Fault(FLUSH, errno.EIO),
    "no flush": Fault(FLUSH, errno.EIO, for_good=True),
    "read": Fault(READ, errno.EIO),
    "interrupted": Fault(CHANGE | FLUSH | READ, errno.EINTR),
}


def restart(module: str, arguments: Sequence[str]) -> int | None:
    """Run this command again with the library loaded; return its exit code, or None in that process.

    Raises:
        SystemExit: there is no C compiler.
    """
    if os.environ.get("LD_PRELOAD", "").endswith("system.so"):
        return None
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        raise SystemExit("This trial needs Linux and a C compiler, cc.")
    with tempfile.TemporaryDirectory(prefix="trials-") as folder:
        library = Path(folder) / "system.so"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl", "-lpthread"], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).parent), module, *arguments]
        return subprocess.run(command, env=environment, check=False).returncode


def fail(folder: Path, fault: Fault, at: int) -> None:
    """From now on the ``at``-th call of those that a fault means goes wrong."""
    good, half = int(fault.for_good), int(fault.half)
    library().trials_fail(os.fsencode(folder), fault.calls, ctypes.c_long(at), fault.error, good, half)


def library() -> ctypes.CDLL:
    """The functions of `system.c`."""
    found = ctypes.CDLL(None)
    found.trials_count.restype = ctypes.c_long
    found.trials_asked.restype = ctypes.c_longlong
    found.trials_clock.argtypes = [ctypes.c_longlong] * 3
    return found


def names(folder: Path) -> set[str]:
    """Everything below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def expected_end(folder: Path, log: Path, whole: Path) -> None:
    """Go on with a training in peace, and see that it comes to the end of another one.

    Raises:
        RuntimeError: it does not, or leaves something behind.
    """
    status = kills.wait(kills.begin(folder, log), ENOUGH)
    said = log.read_text(encoding="utf-8", errors="replace")
    if status:
        raise RuntimeError(f"going on ended with {status}:\n{said[-1500:]}")
    if kills.digest(folder) != kills.digest(whole):
        raise RuntimeError("the final model differs")
    left = sorted(name for name in names(folder) - names(whole) if not _OF_TRAINING.fullmatch(name))
    if left:
        raise RuntimeError(f"left behind: {', '.join(left)}")


def check_said(status: int, log: Path) -> None:
    """See that a run which went wrong said so as it should.

    Raises:
        RuntimeError: it was killed, or spoke of itself.
    """
    said = log.read_text(encoding="utf-8", errors="replace")
    if status < 0:
        raise RuntimeError(f"it was ended by signal {-status}:\n{said[-1500:]}")
    if any(words in said for words in NO_DEFECT):
        raise RuntimeError(f"its last words are a defect's:\n{said[-2500:]}")
    if status and "EXCEPTION occurred: " not in said:
        raise RuntimeError(f"it ended with {status} and no message:\n{said[-1500:]}")
