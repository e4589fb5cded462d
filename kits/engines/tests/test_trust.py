"""Whose files and folders are believed."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cntk_kit_engines import trust

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes")


def _group(monkeypatch: pytest.MonkeyPatch, name: str, members: list[str]) -> None:
    import grp
    import pwd

    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_gid=5, pw_name="me"))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=name, gr_mem=members))


@pytest.mark.parametrize(
    ("gid", "name", "members", "private"),
    [
        (5, "me", [], True),
        (5, "me", ["me"], True),
        (5, "me", ["me", "you"], False),
        (5, "me", ["you"], False),
        (5, "staff", [], False),
        (6, "me", [], False),
    ],
)
def test_a_group_of_ones_own(
    gid: int, name: str, members: list[str], private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _group(monkeypatch, name, members)
    assert trust._is_private(gid) is private


def test_a_group_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(gid: int) -> Any:
        raise KeyError(gid)

    _group(monkeypatch, "me", [])
    monkeypatch.setattr("grp.getgrgid", unknown)
    assert not trust._is_private(5)


@pytest.mark.parametrize(("mode", "said"), [(0o700, ""), (0o755, ""), (0o770, "0770"), (0o707, "0707")])
def test_who_may_write_a_folder(mode: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_is_private", lambda gid: True)
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    reason, mend = trust.reason_to_distrust(folder)
    assert reason == (f"'{folder}' can be written by others (mode {said})" if said else "")
    assert mend == (f"chmod go-w '{folder}' mends it" if said else "")


@pytest.mark.parametrize(
    ("mode", "private", "believed"),
    [(0o755, False, True), (0o775, True, True), (0o775, False, False), (0o777, True, False), (0o1777, False, True)],
)
def test_who_may_write_above(
    mode: int, private: bool, believed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_is_private", lambda gid: private)
    above = tmp_path / "above"
    (above / "own").mkdir(parents=True)
    (above / "own").chmod(0o700)
    above.chmod(mode)
    reason, _ = trust.reason_to_distrust(above / "own")
    assert (reason == "") is believed
    assert reason in ("", f"'{above}' can be written by others (mode {mode:04o})")
    # of a file that is open the folders are not looked at
    assert trust.reason_to_distrust(above / "own", os.stat(above / "own")) == ("", "")


def test_whose_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.stat(tmp_path)
    other = SimpleNamespace(st_uid=found.st_uid + 1, st_mode=stat.S_IFDIR | 0o700)
    monkeypatch.setattr(os, "geteuid", lambda: found.st_uid)
    monkeypatch.setattr(trust, "_user", lambda uid: f"the user {uid}")
    assert trust.reason_to_distrust(tmp_path, other) == (  # type: ignore[arg-type]
        f"'{tmp_path}' belongs to the user {found.st_uid + 1}",
        "set CNTK_CACHE to a folder of your own",
    )
    roots = SimpleNamespace(st_uid=0, st_mode=stat.S_IFDIR | 0o755)
    assert trust.reason_to_distrust(tmp_path, roots) == ("", "")  # type: ignore[arg-type]
