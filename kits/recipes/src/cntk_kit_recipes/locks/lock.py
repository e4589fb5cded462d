"""One process at a time writes certain files: a lock beside them says which.

Two things together tell whether a holder is still there. While it runs it has a lock of the system on the file, which
ends with it, however that is; and the file says who it is, with the time when its process began, so that another one
that has its number later is not taken for it. Where the system's locks reach all who can write to the disk (``disks``),
that is enough. Elsewhere the holder also touches the file every few seconds, and who cannot see its process watches
whether it does. A holder looks before each write whether the lock is still its own, so that one that was believed to be
dead, because its machine had been standing still, does no harm when it wakes up.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from cntk_core.errors import TrainingError
from cntk_kit_recipes.locks.disks import kernel_knows_all
from cntk_kit_recipes.locks.lock_record import MOST, Record, is_begun

SUFFIX = ".lock"

BEAT = 10.0
"""Seconds between two signs of life."""
WATCHED = 45.0
"""Seconds without one after which a holder that nobody can see is dead."""
SETTLED = 2.0
"""Seconds after which a write on a disk without locks has reached all others."""
PAUSE = 0.05
"""Seconds between two tries."""
BETWEEN = 10.0
"""Seconds that a process may be between taking the system's lock and saying who it is."""
LOOK = 1.0
"""Seconds between two looks for signs of life."""

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


class Locked(TrainingError):
    """Another process writes these files."""


@attrs.frozen
class _Found:
    """A lock that is there: what it says, and when its holder last gave a sign of life."""

    raw: bytes
    beat: int

    @property
    def is_free(self) -> bool:
        return not self.raw.strip(b"\0 \n")


_OURS: dict[str, Lock] = {}
"""Locks of this process by the real path: the system gives a process its own lock twice."""
_OURS_CHANGE = threading.Lock()


class Lock:
    """A lock on files.

    Args:
        path: the files are those whose names begin so; the lock is this name with ``.lock``.
        what: how messages call them: ``the model 'net.dnn'``.
        say: told what is not as usual.
    """

    def __init__(self, path: Path, what: str, say: Callable[[str], None] = lambda line: None) -> None:
        self.path = path.with_name(path.name + SUFFIX)
        self.what = what
        self.say = say
        self.record = Record.own()
        self._raw = b""
        self._handle: int | None = None
        self._held = False
        self._key = ""
        self._end_beats = threading.Event()

    @property
    def token(self) -> str:
        """What tells it from all others, while this process has it; else empty."""
        return self.record.token if self._held else ""

    def take(self, *, patience: float = 0.0, predecessor: str = "") -> None:
        """Take it, from a dead holder, too. The folder is made.

        Args:
            patience: seconds to wait for a holder that is ending.
            predecessor: the token of a holder that has no say any more after that.

        Raises:
            Locked: somebody else has it; says who, and what to do.
            OSError: the file cannot be written.
        """
        self.record = Record.own()
        self._raw = self.record.raw()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._key = os.path.realpath(self.path)
        ends = time.monotonic() + patience
        while not self._reserve():
            if time.monotonic() >= ends:
                raise self._refusal(_OURS[self._key].record if self._key in _OURS else None)
            time.sleep(PAUSE)
        try:
            self._take(ends, predecessor)
        except BaseException:
            self._forget()
            raise
        self._held = True
        if not self._is_known_to_all():
            self._end_beats.clear()
            threading.Thread(target=self._beat, name="lock", daemon=True).start()

    def check(self) -> None:
        """Make sure that it is still this process's; to be called before files are written.

        Raises:
            Locked: another process has taken it.
        """
        if not self._held or self._is_ours():
            return
        found = _read(self.path)
        if found is not None and not found.is_free:
            raise Locked(
                f"{self.what} now belongs to {Record.read(found.raw) or 'another process'}: this one writes no more",
                hint="That process did not see this one any more and took over its lock. What it writes is whole.",
            )
        self._end_beats.set()
        self._close()
        self._forget()
        self.take()
        self.say(f"Warning: the lock '{self.path}' was not there any more; it is again.")

    def release(self) -> None:
        """Let go of it, if this process has it."""
        if not self._held or self.record.process.number != os.getpid():
            return
        self._held = False
        self._end_beats.set()
        with suppress(OSError):
            if self._is_ours():
                self.path.unlink(missing_ok=True)
        self._close()
        self._forget()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have it within; see :meth:`take`."""
        self.take()
        try:
            yield
        finally:
            self.release()

    # -- taking -------------------------------------------------------------------------------------------

    def _reserve(self) -> bool:
        with _OURS_CHANGE:
            return _OURS.setdefault(self._key, self) is self

    def _forget(self) -> None:
        with _OURS_CHANGE:
            if _OURS.get(self._key) is self:
                del _OURS[self._key]

    def _take(self, ends: float, predecessor: str) -> None:
        dead, between = b"", time.monotonic() + BETWEEN
        while True:  # ends: whoever is faster lives, or has to say so
            found = _read(self.path)
            if found is not None and not found.is_free and found.raw != dead:
                record = self._record(found)
                if self._lives(record, found):
                    if time.monotonic() < ends:
                        time.sleep(PAUSE)
                        continue
                    if record is None or record.token != predecessor:
                        raise self._refusal(record)
                    self.path.unlink(missing_ok=True)  # it will see that before it writes again
                dead = found.raw
            if self._seize(dead):
                self._tell(dead)
                return
            if time.monotonic() > between:
                # What cannot be seen from here has the system's lock, so it lives.
                record = Record.read(dead)
                raise self._refusal(record if record is not None and not record.process.is_here else None)
            time.sleep(PAUSE)

    def _record(self, found: _Found) -> Record | None:
        if not is_begun(found.raw):
            raise Locked(
                f"'{self.path}' is there, and it is no lock of this program",
                hint="While files are written, their lock has this name. Move the file, or give another name.",
            )
        return Record.read(found.raw)

    def _lives(self, record: Record | None, found: _Found) -> bool:
        if record is None:
            return False  # it ended while it wrote
        lives = record.process.lives()
        if lives is None and not kernel_knows_all(self.path.parent):
            return self._is_touched(record, found)
        return bool(lives)

    def _is_touched(self, record: Record, found: _Found) -> bool:
        """Watch a holder that cannot be seen."""
        self.say(
            f"'{self.path}' is the lock of {record}. That process cannot be seen from here: "
            f"waiting up to {WATCHED:.0f} s for a sign of life."
        )
        ends = time.monotonic() + WATCHED
        while time.monotonic() < ends:
            time.sleep(LOOK)
            now = _read(self.path)
            if now is None or now.raw != found.raw:
                return False
            if now.beat != found.beat:
                return True
        return False

    def _seize(self, dead: bytes) -> bool:
        """Take it if it is free, or as it was when its holder was found dead."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            locked = _lock(handle)
            if locked and _is_same(handle, self.path) and self._is_left(os.pread(handle, MOST, 0), dead):
                self._sign(handle)
                self._handle, handle = handle, -1
                return True
        finally:
            if handle >= 0:
                os.close(handle)
        return locked is None and self._replace(dead)

    @staticmethod
    def _is_left(raw: bytes, dead: bytes) -> bool:
        return raw == dead or not raw.strip(b"\0 \n")

    def _sign(self, handle: int) -> None:
        try:
            os.pwrite(handle, self._raw, 0)
            os.ftruncate(handle, len(self._raw))
        except OSError:
            self.path.unlink(missing_ok=True)
            raise

    def _replace(self, dead: bytes) -> bool:
        """Take it on a disk without locks: write, and see after a while whether nobody else did so, too."""
        found = _read(self.path)
        if found is None or not self._is_left(found.raw, dead):
            return False
        temporary = self.path.with_name(f"{self.path.name}.{self.record.process.token}-{self.record.token}.tmp")
        try:
            temporary.write_bytes(self._raw)
            temporary.replace(self.path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        time.sleep(SETTLED)
        found = _read(self.path)
        return found is not None and found.raw == self._raw

    def _tell(self, dead: bytes) -> None:
        if dead:
            record = Record.read(dead)
            self.say(f"The lock '{self.path}' was left by {record or 'a process'} that is gone; it is taken over.")

    def _refusal(self, record: Record | None) -> Locked:
        remedy = "Wait until it is done, end it, or give another modelPath."
        if record is not None and record.process == self.record.process:
            return Locked(f"{self.what} is being written by this process already", hint=remedy)
        if record is None:
            return Locked(f"{self.what} is being written by another process, which does not say who it is", hint=remedy)
        if record.is_twin():
            remedy += (
                "\nBoth were started by the same command at nearly the same time: if they are ranks of one training, "
                "their launcher\nis not known here, and each of them trains alone. 'cntk train RECIPE -n N' starts "
                "ranks; a launcher is known if it\nsets RANK and WORLD_SIZE."
            )
        return Locked(f"{self.what} is being written by {record}", hint=remedy)

    # -- holding ------------------------------------------------------------------------------------------

    def _is_ours(self) -> bool:
        try:
            if self._handle is None:
                found = _read(self.path)
                return found is not None and found.raw == self._raw
            return _is_same(self._handle, self.path) and os.pread(self._handle, MOST, 0) == self._raw
        except OSError:
            return True  # the disk has other troubles, which whoever writes will hear of

    def _is_known_to_all(self) -> bool:
        return self._handle is not None and kernel_knows_all(self.path.parent)

    def _beat(self) -> None:
        while not self._end_beats.wait(BEAT):
            with suppress(OSError):
                os.utime(self.path if self._handle is None else self._handle)

    def _close(self) -> None:
        if self._handle is not None:
            with suppress(OSError):
                os.close(self._handle)
            self._handle = None


def _read(path: Path) -> _Found | None:
    try:
        with path.open("rb") as file:
            return _Found(file.read(MOST), os.fstat(file.fileno()).st_mtime_ns)
    except FileNotFoundError:
        return None


def _is_same(handle: int, path: Path) -> bool:
    """Whether a name is still that of an open file."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _lock(handle: int) -> bool | None:
    """Lock an open file for this process, until it closes the file or ends; None where the system cannot do that."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        # Not flock: children that outlive this process would keep that.
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True
