"""What a recipe may do under ``--safe``: read, compute, and write below one folder; and nothing else.

There are two lines of defence. Whoever is about to do what a recipe names asks first, so that the message has the place
in the recipe: :func:`ask_to_write`, :func:`ask_to_run`, :func:`ask_to_load`. And a hook for audit events (PEP 578)
refuses what somebody does without having asked: any file that Python opens for writing, any name that it makes, changes
or removes, any program that it starts. The hook keeps recipes in, not code: whoever runs in this process can get out,
which is why no code of a recipe's is loaded.

Without ``--safe`` all of it is allowed, and nothing is looked at.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from cntk_core.errors import CntkError, Location

OPTION = "--safe"
OBEYED = (".numba_config.yaml", "matplotlibrc")
"""Files that libraries of engines and tools look for in the working folder, and that can name code."""

_REMEDY = f"Without {OPTION} a recipe may do all that you may; use that for recipes of people whom you trust."
_CODE = frozenset({".py", ".pyc", ".pyi", ".pth", ".so", ".pyd", ".dll", ".dylib"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class RefusedError(CntkError):
    """A recipe that runs under ``--safe`` asks for what is not allowed there."""


@attrs.frozen
class Policy:
    """Where a recipe may write.

    Attributes:
        folder: the output folder, absolute and without links; below it everything may be written but hidden files and
            files that Python would import or load.
        own: folders for what the program itself keeps: temporary files, compiled kernels. No recipe may name them.
    """

    folder: Path
    own: tuple[Path, ...] = ()

    @classmethod
    def of(cls, folder: Path) -> Policy:
        """Make the policy for an output folder, which is made if it is not there."""
        folder.mkdir(parents=True, exist_ok=True)
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        places = (tempfile.gettempdir(), "/dev/shm", cache, os.environ.get("CNTK_CACHE", ""))
        return cls(folder.resolve(), tuple(Path(place).resolve() for place in places if place))

    def objection(self, path: str | Path, *, own: bool = False) -> str:
        """Say why a file may not be written, made or removed; empty if it may.

        Args:
            path: as the program has it; links are followed.
            own: the folders of the program count, too.
        """
        if str(path) == os.devnull:
            return ""
        target = Path(os.path.realpath(path))
        if own and any(target.is_relative_to(place) for place in self.own):
            return ""
        if not target.is_relative_to(self.folder):
            led = "" if str(target) == os.path.abspath(path) else f", which is '{target}',"
            return f"'{path}'{led} is not below the output folder '{self.folder}'"
        parts = target.relative_to(self.folder).parts
        if any(part.startswith(".") for part in parts):
            return f"'{path}' is hidden, as files are that other programs obey"
        if target.suffix.lower() in _CODE:
            return f"'{path}' is a file that Python imports or loads"
        if _has_other_names(target):
            return f"'{path}' is a file with another name elsewhere (a hard link)"
        return ""


def _has_other_names(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


_policy: Policy | None = None
_hooked = False


def policy() -> Policy | None:
    """Return what is allowed; None if everything is."""
    return _policy


@contextmanager
def trusting_nothing(folder: Path) -> Iterator[Policy]:
    """Within, this process keeps to a policy: see the module. Threads, too; processes that it forks keep to it as well.

    Raises:
        RefusedError: the working folder has a file that a library would obey.
        OSError: the folder cannot be made.
    """
    global _policy, _hooked
    check_folder(Path())
    before, bytecode = _policy, sys.dont_write_bytecode
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked = True
    _policy, sys.dont_write_bytecode = Policy.of(folder), True
    try:
        yield _policy
    finally:
        _policy, sys.dont_write_bytecode = before, bytecode


def check_folder(folder: Path) -> None:
    """Refuse to work in a folder with a file that a library would obey.

    Raises:
        RefusedError: there is one.
    """
    for name in OBEYED:
        if (folder / name).exists():
            raise RefusedError(
                f"{OPTION}: the folder '{folder.resolve()}' has a file '{name}', which libraries obey",
                hint="Remove it, or start in another folder.",
            )


# -- asked by those who do it -----------------------------------------------------------------------------


def ask_to_write(path: str | Path, *, key: str = "", where: Location | None = None) -> None:
    """Make sure that a file, or folder, that a recipe names may be written. To be asked as early as it is known.

    Args:
        path: as the recipe has it.
        key: which names it.
        where: the place of the key.

    Raises:
        RefusedError: it may not.
    """
    objection = "" if _policy is None else _policy.objection(path)
    if objection:
        named = f"{key}: " if key else ""
        raise RefusedError(
            f"{OPTION}: {named}{objection}",
            where=where,
            hint=f"Name a place below the output folder, or another folder with {OPTION}=FOLDER. {_REMEDY}",
        )


def ask_to_run(command: str, *, key: str = "", where: Location | None = None) -> None:
    """Make sure that a command that a recipe names may be run; see :func:`ask_to_write`.

    Raises:
        RefusedError: it may not.
    """
    if _policy is not None:
        named = f"{key} " if key else ""
        raise RefusedError(f"{OPTION}: {named}would run a command: {command}", where=where, hint=_REMEDY)


def ask_to_load(code: str, *, key: str = "", where: Location | None = None) -> None:
    """Make sure that code that a recipe names, a file or a module, may be loaded; see :func:`ask_to_write`.

    Raises:
        RefusedError: it may not.
    """
    if _policy is not None:
        named = f"{key} " if key else ""
        raise RefusedError(f"{OPTION}: {named}would load Python code: {code}", where=where, hint=_REMEDY)


# -- those who do not ask ---------------------------------------------------------------------------------


def _audit(event: str, given: tuple[Any, ...]) -> None:
    """Refuse what is done without having asked. Called for every audit event, so it has to be quick."""
    if _policy is None:
        return
    check = _CHECKS.get(event)
    if check is not None:
        check(*given)


def _opened(path: Any, mode: Any, flags: Any) -> None:
    if isinstance(flags, int) and flags & _WRITING:
        _changed(path)


def _changed(path: Any, folder: Any = None) -> None:
    if _policy is None or isinstance(path, int):
        return
    name = os.fsdecode(path)
    if isinstance(folder, int) and folder >= 0 and not os.path.isabs(name):
        name = os.path.join(_folder_of(folder), name)
    objection = _policy.objection(name, own=True)
    if objection:
        raise RefusedError(
            f"{OPTION}: {objection}; it would be written, changed or removed",
            hint=f"If the recipe names it, let it name a place below the output folder. {_REMEDY}",
        )


def _folder_of(handle: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return os.sep  # nobody knows: not below the output folder


def _made(path: Any, mode: Any, folder: Any) -> None:
    if not os.path.isdir(path):  # one that is there is made in vain
        _changed(path, folder)


def _renamed(path: Any, name: Any, folder: Any = None, other: Any = None) -> None:
    _changed(path, folder)
    _changed(name, other)


def _linked(path: Any, name: Any, folder: Any = None, other: Any = None) -> None:
    _changed(name, folder if other is None else other)


def _started(what: Any, *given: Any) -> None:
    words = given[0] if given and isinstance(given[0], list | tuple) else None
    command = " ".join(map(os.fsdecode, words)) if words else os.fsdecode(what)
    raise RefusedError(f"{OPTION}: a program would be started: {command}", hint=_REMEDY)


_CHECKS: Mapping[str, Callable[..., None]] = {
    "open": _opened,
    "os.mkdir": _made,
    "os.remove": _changed,
    "os.rmdir": _changed,
    "os.truncate": lambda path, length: _changed(path),
    "os.chmod": lambda path, mode, folder: _changed(path, folder),
    "os.chown": lambda path, user, group, folder: _changed(path, folder),
    "os.utime": lambda path, times, ns, folder: _changed(path, folder),
    "os.setxattr": lambda path, *given: _changed(path),
    "os.rename": _renamed,
    "os.link": _linked,
    "os.symlink": _linked,
    "subprocess.Popen": _started,
    "os.system": _started,
    "os.exec": _started,
    "os.posix_spawn": _started,
    "os.spawn": lambda mode, path, *given: _started(path, *given),
    "pty.spawn": _started,
}
