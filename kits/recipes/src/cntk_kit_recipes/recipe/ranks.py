"""The ranks of a run: who started this process beside others, and how it talks to them."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import attrs

from cntk_core.errors import CntkError
from cntk_kit_recipes.recipe.rank_variables import all_rank_variables

if TYPE_CHECKING:
    from cntk_core.contract.parallel import Communicator
    from cntk_core.plugins.registry import Registry

EXPECTED = "CNTK_RANKS"
"""Variable with the number of ranks that ``cntk -n`` has asked for."""

ELASTIC = "CNTK_ELASTIC"
"""Variable that says that ``--elastic`` was given: the number of ranks that must be left, or ``recipe``."""

RESTARTS = "CNTK_RESTARTS"
"""Variable of launchers: how many ranks that have failed they start again."""

JOIN = "CNTK_JOIN"
"""Variable that is 1 for a rank that comes to others which have begun without it."""

REPORTS = "CNTK_RANK_REPORTS"
"""Variable with a folder where ranks leave a message if they fail, and rank 0 a mark if it does not."""

DONE = "done"

REPORT, CONSEQUENCE, PROCESS, JOINED = "rank-{}.txt", "after-{}.txt", "rank-{}.pid", "joined-{}"
"""Files of a rank in this folder: its message, or one that only says that another rank is gone; its process; a mark
that it is connected to the others, where losses are tolerated."""

_LOCAL = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE")
"""Variables with the number of ranks on this machine."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Variables with the threads of a process, for the libraries that compute."""


class LaunchError(CntkError):
    """The processes that were started do not find each other."""


@attrs.frozen
class Launch:
    """What a launcher says about this process.

    Attributes:
        rank, size: this rank, from 0, and how many there are.
        by: who says so.
        communicator: how the ranks find each other; empty if nobody says so.
        otherwise: other communicators by which they could, where that one is not installed.
    """

    rank: int = 0
    size: int = 1
    by: str = ""
    communicator: str = ""
    otherwise: tuple[str, ...] = ()


def detect(environment: Mapping[str, str] = os.environ) -> Launch:
    """Return what the launcher of this process says; a single rank if nobody says anything."""
    known = all_rank_variables()
    for variables in known:
        found = variables.found(environment)
        if found is not None:
            others = (each.communicator for each in known if each.title == variables.title and each is not variables)
            return Launch(*found, variables.title, variables.communicator, tuple(others))
    return Launch()


def check_variables(environment: Mapping[str, str] = os.environ) -> None:
    """See that ranks do not each train alone because their variables are broken.

    Raises:
        LaunchError: ``RANK`` and ``WORLD_SIZE`` are set and do not fit each other.
    """
    rank, size = environment.get("RANK", ""), environment.get("WORLD_SIZE", "")
    alone = not size or (rank in ("", "0") and size == "1")
    if not detect(environment).by and not alone and (rank or size.isdecimal()):
        raise LaunchError(
            f"RANK={rank!r} and WORLD_SIZE={size!r} in the environment make no sense together",
            hint="What starts the ranks sets them: RANK is a number from 0 up to WORLD_SIZE - 1. A single process "
            "needs neither.",
        )


def comes_late(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this rank is started to join others that have begun already."""
    return environment.get(JOIN) == "1"


def share_processors(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let this rank use its share of the processors where nobody has said how many threads to use.

    Threads of different ranks that take the same processor from each other are slow: those that wait for their fellows
    keep these from computing. Launchers may have bound ranks to processors of their own; theirs is not bound.
    """
    local = next((int(found) for name in _LOCAL if (found := environment.get(name, "")).isdecimal()), 1)
    if local > 1:
        threads = min(_usable(0), max(1, _usable(os.getppid()) // local))
        for name in THREADS:
            environment.setdefault(name, str(threads))


def _usable(process: int) -> int:
    """Processors that a process may use; 0 is this one."""
    if hasattr(os, "sched_getaffinity"):
        with suppress(OSError):
            return len(os.sched_getaffinity(process))
    return os.cpu_count() or 1


def connect(launch: Launch, registry: Registry, name: str = "") -> Communicator:
    """Return the communicator of the ranks that were started.

    Args:
        launch: what the launcher says.
        registry: has the communicators.
        name: of the communicator (``communicator=nccl``); by default that which goes with the launcher.

    Raises:
        PluginError: no plugin can do that here.
        LaunchError: this process does not find the others.
    """
    from cntk_kit_recipes.block.checked_ranks import with_checks

    name = name or _communicator_of(launch, registry)
    communicator = registry.communicators.get(name)()
    expected = os.environ.get(EXPECTED, str(launch.size))
    if communicator.has_joined:
        _ACTIVE.append(with_checks(communicator))
        return communicator
    if expected != str(launch.size):
        raise LaunchError(f"{expected} ranks were asked for, but there are {launch.size}")
    if (communicator.rank, communicator.size) != (launch.rank, launch.size):
        raise LaunchError(
            f"{launch.by} started {launch.size} processes, but this one is rank {communicator.rank} of "
            f"{communicator.size} for the communicator '{name}'",
            hint="They do not belong together, as a launcher of another MPI library than mpi4py's. "
            f"'cntk train recipe.cntk -n {launch.size}' takes one that does"
            + "".join(f"; communicator={other} needs none" for other in launch.otherwise if other != name)
            + ".",
        )
    _ACTIVE.append(with_checks(communicator))
    return communicator


def _communicator_of(launch: Launch, registry: Registry) -> str:
    """Return the first communicator that takes ranks of this launcher and is installed; the first one if none is."""
    wanted = (launch.communicator, *launch.otherwise)
    return next((name for name in wanted if name in registry.communicators), launch.communicator)


_ACTIVE: list[Communicator] = []


def exchange_active(before: Communicator | None, following: Communicator) -> None:
    """From now on, the processes of this run are connected by another communicator."""
    if before in _ACTIVE:
        _ACTIVE[_ACTIVE.index(before)] = following


def is_told_by_launcher(launch: Launch) -> bool:
    """Whether the launcher tells why this rank has failed: not if the others may go on without it."""
    return launch.size > 1 and REPORTS in os.environ and ELASTIC not in os.environ


def note_joined(launch: Launch) -> None:
    """Let the launcher know that this rank is connected to the others, who notice if it is lost from now on."""
    _mark(JOINED.format(launch.rank), launch)


def _mark(name: str, launch: Launch, text: str = "") -> bool:
    """Leave word for the launcher, and return whether that could be done."""
    folder = os.environ.get(REPORTS)
    if folder is not None and launch.size > 1:
        with suppress(OSError):
            Path(folder, name).write_text(text, encoding="utf-8")
            return True
    return False


def note_process(launch: Launch) -> None:
    """Let the launcher know which process this rank is."""
    _mark(PROCESS.format(launch.rank), launch, str(os.getpid()))


def end_all(
    text: str, details: str = "", *, consequence: bool = False, say: Callable[[str], object] | None = None
) -> None:
    """End the other ranks, too, if there are any: this one has failed. Where losses are tolerated, they go on.

    Args:
        text: why.
        details: go before the text in the report.
        consequence: it has failed because another rank is gone, or was told to end.
        say: is given the text if the launcher, who tells it otherwise, could not be given it.
    """
    launch = detect()
    is_left = _mark((CONSEQUENCE if consequence else REPORT).format(launch.rank), launch, details + text)
    if say is not None and not is_left:
        say(text)
    for communicator in _ACTIVE:
        reason = text.partition("\n")[0]
        if communicator.is_elastic:
            communicator.leave(reason)
        else:
            communicator.abort(reason)


def disconnect(rank: int) -> None:
    """Let go of the other ranks at the end of a run that succeeded; ``rank`` is what this one is in the end."""
    folder = os.environ.get(REPORTS)
    if folder is not None and rank == 0:
        with suppress(OSError):
            Path(folder, DONE).touch()
    while _ACTIVE:
        _ACTIVE.pop().close()


class _Labelled:
    """A stream whose lines say which rank writes them."""

    def __init__(self, stream: TextIO, label: str) -> None:
        self._stream = stream
        self._label = label
        self._at_start = True

    def write(self, text: str) -> int:
        """Write text, with the label in front of each line."""
        for line in text.splitlines(keepends=True):
            self._stream.write((self._label if self._at_start else "") + line)
            self._at_start = line.endswith("\n")
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def label_output(launch: Launch) -> None:
    """Let lines that ranks other than the first write to the console say who writes them."""
    if launch.rank and not isinstance(sys.stderr, _Labelled):
        label = f"rank {launch.rank}: "
        sys.stdout, sys.stderr = cast(TextIO, _Labelled(sys.stdout, label)), cast(TextIO, _Labelled(sys.stderr, label))


@contextmanager
def patient(communicator: Communicator) -> Iterator[None]:
    """Within, ranks wait for each other as long as it takes: rank 0 alone does an action."""
    watch = communicator.watch
    before = watch.deadline, watch.report_after
    watch.deadline = watch.report_after = math.inf
    try:
        yield
    finally:
        watch.deadline, watch.report_after = before
