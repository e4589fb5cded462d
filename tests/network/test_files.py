"""Files and folders that are whole at every instant."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cntk_core.network import files
from cntk_core.system.processes import TOKEN, Process, began


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "new" / "a"
    files.write_file(path, [b"one", b"two"])
    assert path.read_bytes() == b"onetwo"
    files.write_file(path, [b"three"])
    assert path.read_bytes() == b"three"
    assert [found.name for found in path.parent.iterdir()] == ["a"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    files.write_file(path, [b"old"])

    def chunks():
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        files.write_file(path, chunks())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_both_folders_are_flushed_after_a_name_has_moved(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(files, "sync_folder", flushed.append)
    files.replace_file(tmp_path / "a", [b"text"], scratch=tmp_path / "scratch")
    assert flushed == [tmp_path, tmp_path / "scratch"]
    files.replace_file(tmp_path / "b", [b"text"])
    assert flushed[2:] == [tmp_path]


def test_what_gets_its_name_is_on_the_disk(tmp_path, monkeypatch):
    """The power may go at any time: content comes first, then the name, then the folders that have it."""
    done: list[tuple[int, int]] = []

    def fsync(handle):
        found = os.fstat(handle)
        done.append((found.st_ino, 0 if stat.S_ISDIR(found.st_mode) else found.st_size))

    def numbers(*paths):
        return [path.stat().st_ino for path in paths]

    monkeypatch.setattr(os, "fsync", fsync)
    files.replace_file(tmp_path / "a", [b"one", b"two"], scratch=tmp_path / "scratch")
    assert [number for number, _ in done] == numbers(tmp_path / "a", tmp_path, tmp_path / "scratch")
    assert [size for _, size in done] == [6, 0, 0]
    done.clear()
    with files.temporary_folder(tmp_path / "all") as new:
        files.settle(new, tmp_path / "all" / "b")
    assert [number for number, _ in done] == numbers(tmp_path / "all" / "b", tmp_path / "all", tmp_path)


def test_a_folder_gets_its_name_when_it_is_full(tmp_path):
    with files.temporary_folder(tmp_path / "all") as new:
        files.write_file(new / "x", [b"text"])
        files.settle(new, tmp_path / "all" / "a")
    assert [found.name for found in (tmp_path / "all").iterdir()] == ["a"]
    assert (tmp_path / "all" / "a" / "x").read_bytes() == b"text"


def test_a_folder_that_cannot_be_filled_is_removed(tmp_path):
    def half():
        with files.temporary_folder(tmp_path) as new:
            assert not list(new.iterdir())
            files.write_file(new / "x", [b"text"])
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        half()
    assert not list(tmp_path.iterdir())


def test_folders_are_removed_whole(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a.tmp").mkdir()
    files.remove(tmp_path / "a")
    assert not list(tmp_path.iterdir())


def leftover(token: str) -> str:
    return f".a.{token}-7.tmp"


def test_what_a_process_left_that_has_ended_is_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    dead = Process(Process.own().machine, ended.pid, began(ended.pid)).token
    ended.communicate()
    living, elsewhere = Process.own().token, Process("another machine", 1, "1").token
    kept = {leftover(living), leftover(elsewhere), leftover("notes"), ".ab.tmp", "a.tmp"}
    for name in (leftover(dead), *kept):
        (tmp_path / name).write_bytes(b"half")
    files.write_file(tmp_path / "a", [b"text"])
    assert set(os.listdir(tmp_path)) == {"a", *kept}


def test_temporary_files_have_a_place_of_their_own(tmp_path):
    seen = []

    def chunks():
        seen.append([path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.tmp")])
        yield b"text"

    read = hashlib.sha256()
    files.replace_file(tmp_path / "a", chunks(), scratch=tmp_path / "own", seen=read.update)
    files.replace_file(tmp_path / "a", chunks())
    assert [len(names) for names in seen] == [1, 1]
    assert re.fullmatch(rf"own/{files.SCRATCH}", seen[0][0])
    assert re.fullmatch(rf"\.a\.{TOKEN}-[0-9]+\.tmp", seen[1][0])
    assert read.hexdigest() == hashlib.sha256(b"text").hexdigest()
    assert not list((tmp_path / "own").iterdir())


def test_a_place_on_another_disk_is_not_used(tmp_path):
    place = Path("/dev/shm") / tmp_path.parent.name
    if not place.parent.is_dir() or place.parent.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs two disks")
    try:
        files.replace_file(tmp_path / "a", [b"text"], scratch=place)
        assert (tmp_path / "a").read_bytes() == b"text"
    finally:
        place.rmdir()


def test_long_names(tmp_path):
    name = "n" * 250
    files.write_file(tmp_path / name, [b"text"])
    assert os.listdir(tmp_path) == [name]


def test_removing_what_is_not_there_is_no_error(tmp_path):
    files.remove(tmp_path / "a")
