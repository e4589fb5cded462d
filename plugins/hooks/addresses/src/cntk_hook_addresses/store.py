"""Copies of files elsewhere: brought here when they are asked for, sent back when they were written."""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cntk_core.api import DataError
from cntk_hook_addresses import remote
from cntk_hook_addresses.mirror import Mirror
from cntk_hook_addresses.records import Record, Records
from cntk_hook_addresses.remote import Found
from cntk_hook_addresses.room import Room, limit

_CHECKPOINTS = ".checkpoints"
_NAMES = ".ckp"
_UNFINISHED = (".tmp", ".lock")
_SHARE = 50
"""When so small a part of the room that copies may take was fetched, it is seen whether some have to go."""


class Store:
    """Keeps copies of files elsewhere.

    A copy is asked for once until something is sent, and is fetched again if what lies elsewhere has changed since. One
    that was written here and not sent yet stays, as long as nobody else has changed the original.
    """

    def __init__(self) -> None:
        self.mirror = Mirror.of_user()
        self.records = Records(self.mirror)
        self.room = Room(self.records)
        self._turn = threading.RLock()
        self._asked: set[Path] = set()
        self._outputs: set[Path] = set()
        self._families: set[Path] = set()
        self._here: set[Path] = set()
        self._fetched = 0

    def path(self, name: str) -> str | None:
        """Return the path of the copy of an address, or a path of a copy as it is; None for anything else."""
        if "://" not in name and self.mirror.address(name) is not None:
            return name
        found = self.mirror.path(name)
        return None if found is None else str(found)

    def bring(self, path: str, *, again: bool = False) -> None:
        """See to it that a copy is what lies at its address; there may be nothing.

        Args:
            path: of the copy.
            again: also if that was done already.

        Raises:
            DataError: it cannot be found out, or brought here.
        """
        copy = Path(path)
        if copy in self._asked and not again:
            return
        # Threads of a reader fetch side by side, each another file.
        with self._alone(copy):
            found = remote.look(self._address(copy))
            self._update(copy, found)
        with self._turn:
            self._asked.add(copy)
            if found is None or found.is_folder:
                self._outputs.add(copy)
            # To look at all copies takes a while when there are many.
            if self._fetched > limit() // _SHARE:
                self._fetched = 0
                self._make_room()

    def bring_family(self, path: str) -> None:
        """Bring all files of a training, and forget those that are there no more.

        Raises:
            DataError: they cannot be found out, or brought here.
        """
        model = Path(path)
        with self._turn, self._alone(model):
            address = self._address(model)
            there = {self._copy(at): found for at, found in remote.family(address).items()}
            for copy in sorted({*there, *self._family(model)}):
                self._update(copy, there.get(copy))
            self._families.add(model)
            self._here.update(self._family(model))

    def deliver(self, *, whole: bool = True) -> None:
        """Send what was written since; with ``whole=False`` the files of trainings alone.

        Raises:
            DataError: something cannot be sent.
        """
        with self._turn:
            for model in sorted(self._families):
                with self._alone(model):
                    self._send_family(model)
            if whole:
                for copy in sorted(self._asked | self._outputs):
                    for file in self._written(copy):
                        self._send(file)
                self._asked.clear()

    def shown(self, text: str) -> str:
        """Return a text with addresses in place of paths of copies."""
        return self.mirror.shown(text)

    # -- one file -----------------------------------------------------------------------------------------

    def _update(self, copy: Path, found: Found | None) -> None:
        """Make a copy what lies elsewhere, unless it was written here since it was that."""
        record = self.records.read(copy)
        if found is not None and found.is_folder:
            copy.mkdir(parents=True, exist_ok=True)
            return
        copy.parent.mkdir(parents=True, exist_ok=True)
        if found is None:
            if record is not None and record.is_of(copy):
                copy.unlink()  # somebody has removed the original
            self.records.remove(copy)
        elif record is None or record.mark != found.mark or not copy.is_file():
            self._fetch(copy, found)
        if copy.is_file():
            with self._turn:
                self.room.use(copy)

    def _fetch(self, copy: Path, found: Found) -> None:
        new = self.mirror.folder / ".new" / uuid.uuid4().hex
        try:
            new.parent.mkdir(parents=True, exist_ok=True)
            remote.fetch(found, new)
            os.replace(new, copy)
            self.records.write(copy, Record.of(found.mark, copy))
            with self._turn:
                self._fetched += copy.stat().st_size
        except OSError as error:
            raise DataError(
                f"there is no room for a copy of '{found.address}': {error.strerror or error}",
                hint=f"Make some on the disk of '{self.mirror.folder}', or set CNTK_CACHE to another folder.",
            ) from None
        finally:
            new.unlink(missing_ok=True)

    def _send(self, copy: Path) -> None:
        record = self.records.read(copy)
        if record is not None and record.is_of(copy):
            return
        try:
            before = Record.of("", copy)
            found = remote.send(copy, self._address(copy))
            if before.is_of(copy):  # otherwise it was written once more meanwhile, and is sent again
                self.records.write(copy, Record(found.mark, before.size, before.changed))
        except OSError as error:
            raise DataError(f"'{self._address(copy)}' cannot be sent: {error.strerror or error}") from None

    def _address(self, copy: Path) -> str:
        address = self.mirror.address(copy)
        assert address is not None
        return address

    def _copy(self, address: str) -> Path:
        copy = self.mirror.path(address)
        assert copy is not None
        return copy

    # -- several ------------------------------------------------------------------------------------------

    def _send_family(self, model: Path) -> None:
        """Send a training's files so that at each instant what lies elsewhere can be gone on with."""
        files = self._family(model)
        for copy in sorted(files, key=_turn_of):
            self._send(copy)
        for copy in sorted(self._here - files, key=_turn_of, reverse=True):
            if _is_of(model, copy):
                remote.remove(self._address(copy))
                self.records.remove(copy)
                self._here.discard(copy)
        self._here |= files

    def _family(self, model: Path) -> set[Path]:
        """The copies of a training's files that are here."""
        tops = [model, *_beginning(model, (".", "_"))]
        return {file for top in tops for file in _files(top)}

    def _written(self, copy: Path) -> Iterator[Path]:
        """Yield what may have been written for a name; where it was not there, what begins with it, too."""
        yield from _files(copy)
        if copy in self._outputs and not copy.is_dir():
            for other in _beginning(copy, ("",)):
                yield from _files(other)

    @contextmanager
    def _alone(self, copy: Path) -> Iterator[None]:
        """Within, no other process of this machine brings or sends the same."""
        from filelock import FileLock

        folder = self.mirror.folder / ".locks"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / f"{hashlib.sha256(str(copy).encode()).hexdigest()[:32]}.lock")
            lock.acquire()
        except OSError as error:
            raise DataError(
                f"copies cannot be kept in '{self.mirror.folder}': {error.strerror or error}",
                hint="Set CNTK_CACHE to a folder where you may write.",
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _make_room(self) -> None:
        with self._alone(self.mirror.folder):
            self.room.make()


def _turn_of(copy: Path) -> tuple[int, str]:
    """What a file that names others must not come before comes first: generations, their names, models."""
    inside = any(part.endswith(_CHECKPOINTS) for part in copy.parts[:-1])
    return (0 if inside else 1 if copy.suffix == _NAMES else 2), str(copy)


def _is_of(model: Path, copy: Path) -> bool:
    relative = copy.relative_to(model.parent).parts[0] if copy.is_relative_to(model.parent) else ""
    return relative == model.name or relative.startswith((f"{model.name}.", f"{model.name}_"))


def _beginning(path: Path, marks: tuple[str, ...]) -> list[Path]:
    """The neighbours of a path whose names begin with its own and one of some marks."""
    if not path.parent.is_dir():
        return []
    begins = tuple(f"{path.name}{mark}" for mark in marks)
    return [one for one in path.parent.iterdir() if one.name.startswith(begins) and one != path]


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or all files in a folder, without those that are being written."""
    found = path.rglob("*") if path.is_dir() else [path]
    for file in found:
        if (
            file.is_file()
            and not file.name.endswith(_UNFINISHED)
            and not any(part.endswith(_UNFINISHED[0]) for part in file.relative_to(path.parent).parts)
        ):
            yield file
