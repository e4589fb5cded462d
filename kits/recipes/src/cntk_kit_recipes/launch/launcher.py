"""``cntk train recipe.cntk -n 4``: starts the ranks, waits for them, and tells what came of it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import attrs

from cntk_core.contract.parallel import Communicator, Launcher
from cntk_core.errors import CntkError, PluginError, UnsupportedError, UsageError
from cntk_core.system.console import tell
from cntk_kit_recipes.launch.bound_process import bound
from cntk_kit_recipes.launch.rank_lines import Shown, passing_on
from cntk_kit_recipes.launch.rank_watch import RankWatch
from cntk_kit_recipes.launch.report_folder import report_folder
from cntk_kit_recipes.recipe.log import Log
from cntk_kit_recipes.recipe.rank_variables import GROUP, take_from
from cntk_kit_recipes.recipe.ranks import (
    CONSEQUENCE,
    DONE,
    ELASTIC,
    EXPECTED,
    JOINED,
    REPORT,
    REPORTS,
    RESTARTS,
    THREADS,
    detect,
)
from cntk_kit_recipes.session.stop_signals import ECHO, REQUESTS, heard_signals

if TYPE_CHECKING:
    from cntk_core.plugins.registry import Registry

_GRACE, GRACE = 30.0, "CNTK_GRACE"
"""Seconds that ranks have to save and to end after this process was told to, as long as Slurm and Kubernetes wait by
default; and a variable with another number. The launcher has half of it again."""

_LOOK = 0.1
"""Seconds between two looks at the launcher, and for processes of new ranks."""

_STOPPED = 128
"""Exit code of a run that was told to end, less the number of the signal."""


def launch(
    ranks: int,
    arguments: Sequence[str],
    plugin_files: Sequence[str] = (),
    elastic: str = "",
    communicator: str = "",
    on: str = "",
    restarts: int = 0,
) -> int:
    """Run ``cntk`` with the arguments on so many ranks and return the exit code.

    The message of the rank that failed first is printed last.

    Args:
        ranks: how many.
        arguments: verb, recipe and so on.
        plugin_files: further plugins.
        elastic: what ``CNTK_ELASTIC`` is set to, if the others go on when ranks are lost.
        communicator: the one that the recipe names; if it has a launcher, that starts the ranks.
        on: the plugin that starts the ranks; without it a communicator does, on this machine.
        restarts: so many times a rank that is lost is started again, and joins the others.

    Raises:
        UsageError: the number makes no sense, or this is one of several ranks already.
        PluginError: nothing is installed that can start ranks.
        UnsupportedError: nothing can start ranks that go on without others.
    """
    if ranks < 1:
        raise UsageError(f"-n {ranks} makes no sense: the number of ranks is at least 1")
    from cntk_kit_recipes.recipe.run_plugins import make_plugins

    registry = make_plugins(Log(), plugin_files).registry
    take_from(registry)
    if detect().size > 1:
        raise UsageError(
            f"-n {ranks} is given to a process that {detect().by} has started as one of {detect().size}",
            hint="Give -n to cntk alone, or start it with mpiexec and without -n.",
        )
    starter = registry.launchers.get(on)() if on else None
    launcher = starter.launcher(ranks, elastic=bool(elastic)) if starter is not None else None
    if starter is not None and starter.communicator and not communicator:
        arguments = [*arguments, f"communicator={starter.communicator}"]
    if launcher is None:
        launcher = _launcher_of(registry, communicator, ranks, elastic=bool(elastic), again=restarts > 0)
    if launcher is None:
        launcher = _find_launcher(registry, ranks, elastic=bool(elastic), again=restarts > 0)
    shared = _environment(ranks) if starter is None or starter.is_here else os.environ
    with report_folder() as folder:
        environment = {**shared, **launcher.environment, EXPECTED: str(ranks), REPORTS: str(folder)}
        if elastic:
            environment |= {ELASTIC: elastic, RESTARTS: str(restarts)}
        # -P: what lies in the working folder (a numpy.py) is no module
        command = [*launcher.command, sys.executable, "-P", "-m", "cntk_core", *arguments]
        with closing(RankWatch(folder)) as watch:
            code = _run(command, environment, watch, elastic=bool(elastic), shown=launcher.shown)
        if elastic and (folder / DONE).exists():
            code = 0  # the launcher may complain of those that were lost
        else:
            code = _outcome(code, watch, launcher.title, _ended_early(watch) if elastic else [])
    if starter is not None:
        starter.ended(code)
    return code


def named_in_recipe(arguments: Sequence[str]) -> str:
    """Return the communicator that a recipe names; of one that cannot be read the ranks will say what is wrong."""
    from cntk_core.config import load_recipe

    try:
        return load_recipe(arguments).string("communicator", "")
    except (CntkError, OSError):
        return ""


def _launcher_of(registry: Registry, name: str, ranks: int, *, elastic: bool, again: bool = False) -> Launcher | None:
    """Return the launcher of a communicator; None if it has none and its ranks are started by somebody else."""
    if not name:
        return None
    kind = registry.communicators.get(name)
    if again and not kind.takes_newcomers:
        raise _takes_nobody(name)
    try:
        return kind.launcher(ranks, elastic=elastic)
    except UnsupportedError:
        return None


def _takes_nobody(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"the communicator '{name}' cannot take a rank back that was lost (--restarts)",
        hint="Leave --restarts away, or name another one: communicator=...",
    )


def _find_launcher(registry: Registry, ranks: int, *, elastic: bool = False, again: bool = False) -> Launcher:
    """Return the launcher of the communicator with the highest priority that starts ranks here.

    Args:
        registry: has the communicators.
        ranks: how many.
        elastic: they go on when others are lost. It is told which communicators cannot do that.
        again: those that are lost are started again, and taken back.

    Raises:
        PluginError, UnsupportedError: what keeps the first one from it, or there is none.
    """
    refused: list[CntkError] = []
    for name, owner in _starting_ranks(registry):
        try:
            kind = registry.communicators.get(name)
            if again and not kind.takes_newcomers:
                raise _takes_nobody(name)
            found = kind.launcher(ranks, **({"elastic": True} if elastic else {}))
        except (PluginError, UnsupportedError) as error:
            refused.append(error)
            continue
        for reason in refused if elastic else ():
            if isinstance(reason, UnsupportedError):
                tell(f"{reason.message}: the ranks are connected by {owner}")
        return found
    raise refused[0] if refused else registry.communicators.nothing(group=GROUP)


def _starting_ranks(registry: Registry) -> list[tuple[str, str]]:
    """Return the communicators that say what starts their ranks, and who has them, those first that come first.

    What is broken comes last, and what cannot run here is among them: why is told if nothing else does it.
    """
    found: list[tuple[float, str, str]] = []
    for offer in registry.communicators.offers():
        kind = offer.outcome()
        if not isinstance(kind, type):
            found.append((math.inf, offer.name, offer.source.name))
        elif _function(kind) is not _function(Communicator):  # type: ignore[type-abstract]
            found.append((-kind.priority, offer.name, offer.source.name))
    return [(name, owner) for _, name, owner in sorted(found)]


def _function(kind: type[Communicator]) -> object:
    return getattr(kind.launcher, "__func__", kind.launcher)


def _environment(ranks: int) -> Mapping[str, str]:
    """Variables of this process, with the processors shared out where nobody has said how many threads to use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = str(max(1, usable // ranks))
    return {**dict.fromkeys(THREADS, threads), **os.environ}


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    watch: RankWatch,
    *,
    elastic: bool = False,
    shown: Shown | None = None,
) -> int:
    """Run the launcher and return its exit code. A request to end this process ends the ranks first.

    Where ranks may be lost, the launcher waits for the others; but before they are connected, they do not notice it.
    """
    pipe, grace = None if shown is None else subprocess.PIPE, _grace(environment)
    with (
        subprocess.Popen(bound(command), env=dict(environment), stderr=pipe, text=True, errors="replace") as process,
        passing_on(process.stderr, shown),
        _told() as told,
    ):
        passed_on = is_over = is_urgent = False
        while process.poll() is None:
            try:
                watch.look(_LOOK)
            except KeyboardInterrupt:  # the ranks have got it, too
                continue
            if told and not passed_on:
                passed_on = watch.tell(told[0].number)
                if not passed_on:
                    process.terminate()
                    passed_on = True
            if not is_urgent and told and told[-1].at - told[0].at > ECHO:
                is_urgent = watch.tell(told[-1].number)  # the second time ranks end without saving
            if elastic and not is_over and _ended_early(watch):
                process.terminate()
                is_over = True
            _press(process, told, grace)
        watch.look(0)
        # A launcher that lets others go on has no objection to the end of all of them.
        return _STOPPED + told[0].number if told and (process.returncode or elastic) else process.returncode


def _ended_early(watch: RankWatch) -> list[int]:
    """Return the ranks that ended before they were connected to the others."""
    return [rank for rank in watch.ended if not (watch.folder / JOINED.format(rank)).exists()]


@attrs.frozen
class _Request:
    """A request to end: which signal, and when."""

    number: int
    at: float


def _press(process: subprocess.Popen[str], told: list[_Request], grace: float) -> None:
    """End a launcher that was told to end long ago."""
    waited = time.monotonic() - told[0].at if told else 0.0
    if waited > 1.5 * grace:
        process.kill()
    elif waited > grace:
        process.terminate()


def _grace(environment: Mapping[str, str]) -> float:
    """Return the seconds that ranks have to save.

    Raises:
        UsageError: the variable makes no sense.
    """
    text = environment.get(GRACE, "")
    try:
        found = float(text) if text else _GRACE
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise UsageError(f"{GRACE} is '{text}': it is a number of seconds that is more than 0")
    return found


@contextmanager
def _told() -> Iterator[list[_Request]]:
    """Within, requests to end this process are only noted."""
    requests: list[_Request] = []

    def note(number: int, frame: FrameType | None) -> None:
        requests.append(_Request(number, time.monotonic()))

    before = {number: signal.signal(number, note) for number in heard_signals()}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _outcome(code: int, watch: RankWatch, title: str, early: Sequence[int] = ()) -> int:
    """Say what came of the ranks; without the mark of rank 0 they have not succeeded, whatever the launcher says.

    A rank that says only that another one is gone comes last: that one is named by how its process ended.

    Args:
        code: of the launcher.
        watch: who ended.
        title: of the launcher.
        early: ranks that ended before they were connected, so that the others were ended, too.
    """
    if code == 0 and (watch.folder / DONE).exists():
        return 0
    stopped = code in [_STOPPED + number for number in REQUESTS]
    reports, consequences = _reports(watch.folder, REPORT), _reports(watch.folder, CONSEQUENCE)
    silent = [rank for rank in watch.ended if rank not in consequences]
    first = f"rank {silent[0]}" if silent else "a rank"
    if reports or (consequences and (stopped or not silent)):
        rank, text = next(iter((reports or consequences).items()))
        tell(f"\n{text}" if stopped else f"\nrank {rank} failed first:\n{text}")
    elif early:
        tell(f"\nrank {early[0]} ended before the ranks were connected, without a message")
    elif code < 0 or code > 128:
        number = -code if code < 0 else code - 128
        kept = "what was saved before is kept, and the same command goes on from it"
        tell(f"\n{first} was ended by signal {number}; {kept}")
    else:
        tell(f"\n{first} ended before the work was done, without a message ({title} gave the code {code})")
    return code if 0 < code < 256 else 1


def _reports(folder: Path, name: str) -> dict[int, str]:
    """What ranks have left, by rank, the first one first."""
    paths = sorted(folder.glob(name.format("*")), key=lambda path: path.stat().st_mtime_ns)
    return {
        int(path.stem.partition("-")[2]): path.read_text(encoding="utf-8", errors="replace").rstrip() for path in paths
    }
