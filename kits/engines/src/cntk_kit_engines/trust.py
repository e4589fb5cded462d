"""Who else could have written a file: the rules of ``ssh`` for files whose content is trusted."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def reason_to_distrust(path: Path, status: os.stat_result | None = None) -> tuple[str, str]:
    """Say why a file or folder could hold what somebody else has put there, and what mends it; empty texts if not.

    It has to belong to the user or to root, and only its owner may write it. The same holds for all folders above it,
    where somebody could put another in its place; unless they are sticky, as ``/tmp`` is, or the group that may write
    them is the user's own, with nobody else in it.

    Args:
        path: the file or folder.
        status: of a file that is open; the folders above it are then not looked at.

    Raises:
        OSError: it cannot be looked at; FileNotFoundError if it is not there.
    """
    if sys.platform == "win32":
        return "", ""  # there are no such modes; a user's cache folder is his own
    real = Path(os.path.realpath(path))
    found = _reason(path, status if status is not None else real.stat(), _OTHERS)
    if status is not None or found[0]:
        return found
    for place in real.parents:
        above = place.stat()
        if above.st_mode & stat.S_ISVTX:
            others = 0
        else:
            others = stat.S_IWOTH if _is_private(above.st_gid) else _OTHERS
        found = _reason(place, above, others)
        if found[0]:
            return found
    return "", ""


def _reason(path: Path, status: os.stat_result, others: int) -> tuple[str, str]:
    if status.st_uid not in (os.geteuid(), 0):
        return f"'{path}' belongs to {_user(status.st_uid)}", "set CNTK_CACHE to a folder of your own"
    if status.st_mode & others:
        mode = stat.S_IMODE(status.st_mode)
        return f"'{path}' can be written by others (mode {mode:04o})", f"chmod go-w '{path}' mends it"
    return "", ""


def _user(uid: int) -> str:
    import pwd

    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user {uid}"


def _is_private(gid: int) -> bool:
    """Whether a group is the user's own, as many systems give one to each."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
