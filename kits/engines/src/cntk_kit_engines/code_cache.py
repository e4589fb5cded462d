"""Compiled code on disk, which is verified before it is believed.

What lies in such a folder is run by whoever reads it. Therefore, as ``ssh`` does with its keys, the folder and all
above it have to belong to the user or to root, and nobody else may write there; the same holds for each file. An entry
begins with the SHA-256 of all that follows: of what it was compiled from (source text, flags, versions, processor),
which is compared with what is asked for, and of the code. It is a file of its own, written under another name first, so
that processes that write the same at a time need no lock, and none ever sees half of one. There is no index beside the
entries that could differ from them.

A cache is a convenience: whatever fails with it costs a line in the log and the time to compile, never the training.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cntk_core.contract.cache import CacheState
from cntk_kit_engines.trust import reason_to_distrust

LIMIT = 256 << 20
"""Bytes in a folder; when there are more, the entries that were used longest ago go until a quarter is free."""

MAGIC = b"cntk compiled code 1\n"
_HEAD = len(MAGIC) + 64 + 1 + 16 + 1
_ENTRY = re.compile(r"[0-9a-f]{64}\.code")
_HALF = re.compile(r"\.half-.*\.tmp")

_USED_AGAIN = 24 * 3600.0
"""Seconds after which the use of an entry is noted again."""

_ABANDONED = 3600.0
"""Seconds after which what somebody has begun to write counts as left behind."""

logger = logging.getLogger("cntk.engine")


class DamagedEntry(Exception):
    """An entry that is not what it should be; its text says why."""


class CodeCache:
    """Compiled code in a folder.

    Args:
        name: of the folder, below ``$CNTK_CACHE``, else ``cntk`` in the user's cache folder.
        folder: another one. Folders are made when they are needed.
        title: what it holds, in a word or two.
        limit: bytes that it may have.
    """

    def __init__(self, name: str, folder: Path | None = None, *, title: str, limit: int = LIMIT) -> None:
        self.title = title
        root = cache_root()
        self._asked = folder if folder is not None else root / name if root is not None else None
        self._limit = limit
        self._told = False
        self._size: int | None = None

    @functools.cached_property
    def folder(self) -> Path | None:
        """The folder, which is there and trusted; None if nothing can be kept, of which the log has been told."""
        if self._asked is None:
            self._tell("there is no home folder; CNTK_CACHE names another one")
            return None
        try:
            folder = _made(self._asked)
            problem, mend = reason_to_distrust(folder)
        except OSError as error:
            self._tell(f"'{self._asked}' cannot be used: {error.strerror}")
            return None
        if problem:
            self._tell(f"{problem}, so that others could have code run here; {mend}")
        return None if problem else folder

    def read(self, identity: str) -> bytes | None:
        """Return the code that was compiled from ``identity``, None if there is none that can be believed."""
        if self.folder is None:
            return None
        path = self.folder / _name(identity)
        try:
            code = _code(_read_own(path), identity)
            _note_use(path)
        except FileNotFoundError:
            return None
        except DamagedEntry as error:
            self.discard(identity, str(error))
        except OSError as error:
            logger.warning("compiled code in '%s' cannot be read (%s); it is compiled anew", path, error.strerror)
        else:
            return code
        return None

    def discard(self, identity: str, reason: str) -> None:
        """Throw an entry away that cannot be used, and say so."""
        assert self.folder is not None
        path = self.folder / _name(identity)
        logger.warning("compiled code in '%s' %s; it is thrown away and compiled anew", path, reason)
        with contextlib.suppress(OSError):
            path.unlink()

    def write(self, identity: str, code: bytes) -> None:
        """Keep the code that was compiled from ``identity``; after one failure nothing more is kept in this process."""
        if self._told or self.folder is None:
            return
        data = _packed(identity, code)
        if len(data) > self._limit:
            return
        try:
            self._make_room(self.folder, len(data))
            _write(self.folder / _name(identity), data)
        except OSError as error:
            self._tell(f"'{self.folder}' cannot be written: {error.strerror}")

    def state(self) -> CacheState:
        """Look at all entries, and at the folder if it is there."""
        folder = self._asked
        if folder is None:
            return CacheState(None, problem="there is no home folder", mend="Set CNTK_CACHE to a folder of yours.")
        entries = size = damaged = 0
        try:
            problem, mend = reason_to_distrust(folder)
            for path, status in _entries(folder):
                entries, size = entries + 1, size + status.st_size
                damaged += not _is_whole(path)
        except FileNotFoundError:
            return CacheState(folder, limit=self._limit)
        except OSError as error:
            return CacheState(folder, limit=self._limit, problem=error.strerror or "cannot be read")
        if not problem and not os.access(folder, os.W_OK):
            problem = "it cannot be written"
        return CacheState(folder, entries, size, self._limit, damaged, problem, mend)

    def clear(self) -> int:
        """Remove all entries, and what was left half written.

        Raises:
            OSError: one cannot be removed.
        """
        count = 0
        try:
            for path, _ in list(_entries(self._asked)) if self._asked is not None else []:
                path.unlink(missing_ok=True)
                count += 1
            if self._asked is not None:
                _remove_halves(self._asked, older_than=0.0)
        except FileNotFoundError:
            pass
        self._size = None
        return count

    def _make_room(self, folder: Path, added: int) -> None:
        """Remove the oldest entries if the new one would be too much."""
        if self._size is None:
            _remove_halves(folder, older_than=_ABANDONED)
            self._size = sum(status.st_size for _, status in _entries(folder))
        self._size += added
        if self._size <= self._limit:
            return
        # Others write here too, so that it is counted again.
        found = sorted(_entries(folder), key=lambda entry: entry[1].st_mtime)
        self._size = added + sum(status.st_size for _, status in found)
        for path, status in found:
            if self._size <= self._limit - self._limit // 4:
                break
            path.unlink(missing_ok=True)
            self._size -= status.st_size

    def _tell(self, problem: str) -> None:
        """Say, once, why nothing is kept."""
        if not self._told:
            logger.warning("compiled %s are not kept, each run compiles them anew: %s", self.title, problem)
        self._told = True


def cache_root() -> Path | None:
    """The folder of all caches: ``$CNTK_CACHE``, else ``cntk`` in the user's cache folder; None without a home."""
    given = os.environ.get("CNTK_CACHE")
    if given:
        return Path(given).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "cntk" if os.path.isabs(home) else None


def _made(folder: Path) -> Path:
    """Make a folder, and those above it that are missing, for the user alone; return where it really lies."""
    folder = Path(os.path.realpath(folder))
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
    return folder


def _name(identity: str) -> str:
    return f"{hashlib.sha256(identity.encode()).hexdigest()}.code"


def _packed(identity: str, code: bytes) -> bytes:
    text = identity.encode()
    rest = b"%016x\n" % len(text) + text + code
    return MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def _unpacked(data: bytes) -> tuple[bytes, bytes]:
    """Return what the code was compiled from, and the code.

    Raises:
        DamagedEntry: the file is not what was written.
    """
    if len(data) < _HEAD or not data.startswith(MAGIC):
        raise DamagedEntry("is cut off" if MAGIC.startswith(data[: len(MAGIC)]) else "is something else")
    begin = len(MAGIC)
    rest = memoryview(data)[begin + 65 :]
    if hashlib.sha256(rest).hexdigest().encode() + b"\n" != data[begin : begin + 65]:
        raise DamagedEntry("is damaged (its SHA-256 differs)")
    text = 17 + int(bytes(rest[:16]), 16)
    return bytes(rest[17:text]), bytes(rest[text:])


def _code(data: bytes, identity: str) -> bytes:
    text, code = _unpacked(data)
    if text != identity.encode():
        raise DamagedEntry("was compiled from something else")
    return code


def _read_own(path: Path) -> bytes:
    """Read a file that nobody but the user or root can have written.

    Raises:
        DamagedEntry: somebody else can.
        OSError: it cannot be read; FileNotFoundError if it is not there.
    """
    # A link, or a pipe on which one would wait for ever, is nothing that was written here.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise DamagedEntry("is no file")
        problem, _ = reason_to_distrust(path, status)
        if problem:
            raise DamagedEntry("is not the user's own: " + problem)
        return file.read()


def _note_use(path: Path) -> None:
    """Let an entry that is used be the last to go."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _USED_AGAIN:
            os.utime(path)


def _is_whole(path: Path) -> bool:
    try:
        text, _ = _unpacked(_read_own(path))
    except (DamagedEntry, OSError):
        return False
    return _name(text.decode(errors="replace")) == path.name


def _write(path: Path, data: bytes) -> None:
    """Write under another name first: processes may write the same, and nobody may read half of it."""
    descriptor, name = tempfile.mkstemp(prefix=".half-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    with os.scandir(folder) as found:
        for entry in found:
            if _ENTRY.fullmatch(entry.name):
                with contextlib.suppress(FileNotFoundError):  # another process has removed it
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def _remove_halves(folder: Path, older_than: float) -> None:
    """Remove what a process that was killed has left."""
    with os.scandir(folder) as found:
        for entry in found:
            if _HALF.fullmatch(entry.name):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime >= older_than:
                        os.unlink(entry.path)
