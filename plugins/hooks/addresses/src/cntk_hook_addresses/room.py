"""How much room copies may take, and which of them go when there is no more."""

from __future__ import annotations

import os
import re
import uuid
from contextlib import suppress
from pathlib import Path

from cntk_core.api import ConfigError
from cntk_hook_addresses.records import Records

SIZE = "CNTK_ADDRESSES_SIZE"
"""Environment variable: the bytes that copies may take, such as ``200G``."""

DEFAULT = "50G"

_FORM = re.compile(r"([0-9]{1,15})([kmgt]?)(i?b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def limit() -> int:
    """Return the bytes that copies may take.

    Raises:
        ConfigError: :data:`SIZE` is no size.
    """
    text = os.environ.get(SIZE, "") or DEFAULT
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{SIZE} is '{text}', which is no size", hint="Write it like 800M, 50G or 2T.")
    return int(found[1]) << 10 * _POWERS[found[2].lower()]


class Room:
    """Keeps copies below a size. What a process that runs has asked for stays.

    Args:
        records: of the copies.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._uses = records.mirror.folder / ".uses"
        self._own: Path | None = None
        self._lock: object = None

    def use(self, path: Path) -> None:
        """Note that this process reads a copy, for as long as it runs."""
        if self._own is None:
            from filelock import FileLock

            self._uses.mkdir(parents=True, exist_ok=True)
            name = uuid.uuid4().hex
            lock = FileLock(self._uses / f"{name}.lock")
            lock.acquire()
            self._lock, self._own = lock, self._uses / f"{name}.txt"
        with self._own.open("a", encoding="utf-8") as file:
            file.write(f"{path}\n")
        with suppress(OSError):
            os.utime(self._records.file(path))  # when it was used last

    def make(self) -> None:
        """Remove the copies that were used longest ago, until all of them take no more than they may."""
        known = [(path, file, path.stat().st_size) for path, file in self._records.all() if path.is_file()]
        over = sum(size for _, _, size in known) - limit()
        if over <= 0:
            return
        used = self._used()
        for path, file, size in sorted(known, key=lambda one: one[1].stat().st_mtime_ns):
            record = self._records.read(path)
            # One that was changed here since is not like the original: it may be all there is.
            if over <= 0 or path in used or record is None or not record.is_of(path):
                continue
            file.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            over -= size

    def _used(self) -> set[Path]:
        from filelock import FileLock, Timeout

        used: set[Path] = set()
        for held in self._uses.glob("*.lock"):
            names = held.with_suffix(".txt")
            if names != self._own:
                try:
                    with FileLock(held).acquire(timeout=0):
                        names.unlink(missing_ok=True)  # its process has ended
                    held.unlink(missing_ok=True)
                    continue
                except Timeout:
                    pass
            with suppress(OSError):
                used.update(map(Path, names.read_text(encoding="utf-8").splitlines()))
        return used
