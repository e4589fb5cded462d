"""Files and folders that are whole at every instant."""

from __future__ import annotations

import os

import pytest

from cntk_core.network import files


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


def test_a_folder_gets_its_name_when_it_is_full(tmp_path):
    with files.temporary_folder(tmp_path / "all" / "new.tmp") as new:
        files.write_file(new / "x", [b"text"])
        files.settle(new, tmp_path / "all" / "a")
    assert [found.name for found in (tmp_path / "all").iterdir()] == ["a"]
    assert (tmp_path / "all" / "a" / "x").read_bytes() == b"text"


def test_a_folder_that_cannot_be_filled_is_removed(tmp_path):
    (tmp_path / "new.tmp").mkdir()
    (tmp_path / "new.tmp" / "left").write_bytes(b"of an earlier run")

    def half():
        with files.temporary_folder(tmp_path / "new.tmp") as new:
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


def test_leftovers_are_removed(tmp_path):
    for name in ("net.dnn", "net.dnn.tmp", "net.dnn.1.ckp.tmp", "other.tmp"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "net.dnn.checkpoints.tmp").mkdir()
    files.remove_leftovers(tmp_path / "net.dnn")
    assert sorted(os.listdir(tmp_path)) == ["net.dnn", "other.tmp"]


def test_removing_what_is_not_there_is_no_error(tmp_path):
    files.remove(tmp_path / "a")
    files.remove_leftovers(tmp_path / "nowhere" / "net.dnn")
