"""Let the power go: note what a training writes, make the folders that a disk may hold afterwards, and go on from them.

    python tools/trials power --states 500

What was written and not flushed may be there or not, each piece by itself and in any order; a file may be there with
half of a write, or longer than what was written into it, with zeros; a name that was given, changed or removed is only
sure once its folder was flushed. These are all the states that POSIX allows (T. S. Pillai and others, "All File Systems
Are Not Created Equal", OSDI 2014); half of the trials keep the order of names, as journalling file systems do. From
each state the same command must come to the model of a run that nothing happened to.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import faulty
import kills
from figures import Figure, add_option, record

RECIPES = ("lstm", "sizes", "search")
CREATE, WRITE, CUT, SYNC, RENAME, UNLINK, MKDIR, RMDIR, LINK = range(9)
_HEAD = struct.Struct("=3q3I")
_CONTENT = (WRITE, CUT)


@attrs.frozen
class Entry:
    """A call that was noted.

    Attributes:
        kind: which.
        inode: the file that it is about, of those calls that have one.
        offset: of a write; the new length of a file that is cut.
        path, name: below the folder; ``name`` is the new one.
        data: what was written.
    """

    kind: int
    inode: int
    offset: int
    path: str
    name: str
    data: bytes

    @property
    def folders(self) -> set[str]:
        """The folders that have to be flushed for the call to last."""
        return {os.path.dirname(path) or "." for path in (self.path, self.name) if path}


def read_journal(data: bytes, root: str) -> Iterator[Entry]:
    """Read what `system.c` has noted."""
    position = 0
    while position < len(data):
        kind, inode, offset, *sizes = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        parts = []
        for size in sizes:
            parts.append(data[position : position + size])
            position += size
        path, name = (os.path.relpath(os.fsdecode(part), root) if part else "" for part in parts[:2])
        yield Entry(kind, inode, offset, path, name, parts[2])


def lasting(entries: Sequence[Entry]) -> list[bool]:
    """Say of each call whether what it did is sure to be on the disk after the last of them."""
    files, folders = set[int](), set[str]()
    sure = []
    for entry in reversed(entries):
        if entry.kind == SYNC:
            files.add(entry.inode)
            folders.add(entry.path)
            sure.append(True)
        elif entry.kind in _CONTENT:
            sure.append(entry.inode in files)
        else:
            if entry.kind == RENAME:  # what was flushed under the new name counts for calls with the old one
                folders = {_before(folder, entry) for folder in folders}
            sure.append(entry.folders <= folders)
    return sure[::-1]


def _before(folder: str, entry: Entry) -> str:
    if folder == entry.name or folder.startswith(entry.name + "/"):
        return entry.path + folder[len(entry.name) :]
    return folder


def chosen_entries(entries: Sequence[Entry], chosen: random.Random, *, ordered: bool) -> list[Entry]:
    """Draw what of the calls is on the disk when the power goes after the last of them.

    Args:
        entries: the calls up to that moment.
        chosen: draws.
        ordered: names change in order: none is there if one before it is not.
    """
    sure = lasting(entries)
    share = chosen.choice((0.0, 0.2, 0.5, 0.8, 1.0))
    names = [at for at, entry in enumerate(entries) if entry.kind not in (*_CONTENT, SYNC)]
    last = max((at for at in names if sure[at]), default=-1)
    unsure = [at for at in names if at > last]
    until = chosen.choice([last, *unsure])
    kept = []
    for at, entry in enumerate(entries):
        if ordered and at in names:
            there = at <= until
        else:
            there = sure[at] or chosen.random() < share
        if there:
            kept.append(entry)
        elif entry.kind == WRITE and chosen.random() < 0.5:
            kept.append(_torn(entry, chosen))
    return kept


def _torn(entry: Entry, chosen: random.Random) -> Entry:
    """Half of a write: its beginning, or zeros of its length."""
    if chosen.random() < 0.5:
        return attrs.evolve(entry, data=bytes(len(entry.data)))
    return attrs.evolve(entry, data=entry.data[: chosen.randrange(len(entry.data) + 1)])


@attrs.define
class Disk:
    """Names and contents: what calls make of the folder that a training began with.

    Attributes:
        names: inodes of files by path; folders have None.
        contents: of files, by inode.
    """

    names: dict[str, int | None]
    contents: dict[int, bytearray]

    @classmethod
    def of(cls, folder: Path) -> Disk:
        """Read a folder."""
        names: dict[str, int | None] = {".": None}
        contents = {}
        for path in folder.rglob("*"):
            inode = None if path.is_dir() else path.stat().st_ino
            names[str(path.relative_to(folder))] = inode
            if inode is not None:
                contents[inode] = bytearray(path.read_bytes())
        return cls(names, contents)

    def do(self, entry: Entry) -> None:
        """Do a call; one for which something is missing does nothing."""
        content = self.contents.setdefault(entry.inode, bytearray())
        if entry.kind == WRITE:
            content.extend(bytes(max(0, entry.offset - len(content))))
            content[entry.offset : entry.offset + len(entry.data)] = entry.data
        elif entry.kind == CUT:
            del content[entry.offset :]
            content.extend(bytes(max(0, entry.offset - len(content))))
        elif entry.kind in (CREATE, MKDIR):
            self.names[entry.path] = entry.inode if entry.kind == CREATE else None
        elif entry.kind in (UNLINK, RMDIR):
            for path in self._below(entry.path):
                del self.names[path]
        elif entry.kind == LINK and entry.path in self.names:
            self.names[entry.name] = self.names[entry.path]
        elif entry.kind == RENAME and entry.path in self.names:
            for path in self._below(entry.name):
                del self.names[path]
            for path in self._below(entry.path):
                self.names[entry.name + path[len(entry.path) :]] = self.names.pop(path)

    def _below(self, path: str) -> list[str]:
        return [name for name in self.names if name == path or name.startswith(path + "/")]

    def write(self, folder: Path) -> None:
        """Make the folder; a name whose folder is not there is lost."""
        for path in sorted(self.names):
            inode, target = self.names[path], folder / path
            if not target.parent.is_dir():
                continue
            if inode is None:
                target.mkdir(exist_ok=True)
            else:
                target.write_bytes(self.contents.get(inode, b""))


@attrs.frozen
class Noted:
    """A training whose calls were noted.

    Attributes:
        data: the folder that it began with.
        whole: the folder when it was done.
        entries: the calls.
    """

    data: Path
    whole: Path
    entries: Sequence[Entry]


def note(folder: Path, recipe: str) -> Noted:
    """Train, and note the calls."""
    data, whole = kills.prepared(folder / f"{recipe}-data", recipe), folder / f"{recipe}-whole"
    # Links: the inodes of what a training begins with are those of the copy in which it runs.
    shutil.copytree(data, whole, copy_function=os.link)
    journal = folder / f"{recipe}.journal"

    def begin() -> None:
        file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        faulty.library().trials_journal(os.fsencode(whole), file)

    log = folder / "log.txt"
    if kills.wait(kills.begin(whole, log, begin), faulty.ENOUGH):
        raise RuntimeError(log.read_text(encoding="utf-8"))
    return Noted(data, whole, list(read_journal(journal.read_bytes(), str(whole))))


def lose(folder: Path, noted: Noted, chosen: random.Random, *, go_on: Callable[[Path, Path, Path], None]) -> str:
    """Let the power go at a moment, and go on; return what kind of disk it was.

    Raises:
        RuntimeError: it does not come to the end that it must.
    """
    moment, ordered = chosen.randrange(len(noted.entries) + 1), chosen.random() < 0.5
    disk = Disk.of(noted.data)
    for entry in chosen_entries(noted.entries[:moment], chosen, ordered=ordered):
        disk.do(entry)
    target, log = folder / "run", folder / "log.txt"
    log.unlink(missing_ok=True)
    target.mkdir()
    disk.write(target)
    there = sorted(faulty.names(target) - faulty.names(noted.data))
    try:
        go_on(target, log, noted.whole)
    except (RuntimeError, OSError) as error:
        kind = "in order" if ordered else "in any order"
        raise RuntimeError(f"after call {moment}, names {kind}; there were {', '.join(there)}: {error}") from None
    finally:
        shutil.rmtree(target)
    return "with names in order" if ordered else "with names in any order"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--states", type=int, default=30, help="how many")
    parser.add_argument("--recipe", choices=["all", *RECIPES], default="all")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    add_option(parser)
    options = parser.parse_args(arguments)
    status = faulty.restart("power", list(arguments or ()))
    if status is not None:
        return status
    kills.load()
    begun, came, failed = time.monotonic(), Counter[str](), 0
    recipes = list(RECIPES) if options.recipe == "all" else [options.recipe]
    with tempfile.TemporaryDirectory(prefix="trials-", dir=kills.in_memory()) as temporary:
        folder = Path(temporary)
        trainings = {recipe: note(folder, recipe) for recipe in recipes}
        for number in range(options.states):
            recipe, chosen = recipes[number % len(recipes)], random.Random(f"{options.seed} {number}")
            try:
                came[lose(folder, trainings[recipe], chosen, go_on=faulty.expected_end)] += 1
            except RuntimeError as error:
                failed += 1
                print(f"{number}: {recipe}: {error}", flush=True)
            if number % 20 == 19:
                print(f"{number + 1} of {options.states}: {dict(came)}, {failed} failures", flush=True)
    seen = ", ".join(f"{count} {what}" for what, count in sorted(came.items())) + ": models identical"
    print(f"{options.states} states, {failed} failures: {seen}")
    record(options.record, Figure("storage: the power goes", options.states, failed, seen, time.monotonic() - begun))
    return 1 if failed else 0
