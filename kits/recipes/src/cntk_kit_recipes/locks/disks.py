"""On which kind of disk a folder lies, and what its locks are good for."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")

_OWN = {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
"""Disks of one machine: its kernel knows all who lock."""

_SHARED = {"ceph": "", "gpfs": "", "lustre": "flock", "nfs": "local_lock=none", "nfs4": "local_lock=none"}
"""Network disks whose locks all machines see, by the option that they are mounted with then."""


def kernel_knows_all(folder: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether a lock of the system on a file there is one for everybody who can write to it.

    If it is, who gets it knows that nobody else has it, and that who had it has ended.
    """
    kind, options = _mount(os.path.realpath(folder), mounts)
    needed = _SHARED.get(kind)
    return kind in _OWN or (needed is not None and (not needed or needed in options))


def _mount(path: str, mounts: Path) -> tuple[str, list[str]]:
    """Return the kind of the disk that a path lies on, and the options that it is mounted with."""
    best, kind, options = "", "", ""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return "", []
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, more = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(more) < 3:
            continue
        point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind, options = point, more[0], f"{fields[5]},{more[2]}"
    return kind, options.split(",")
