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


def fill(path, text):
    with files.new_folder(path) as folder:
        files.write_file(folder / "x", [text])


def test_a_folder_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "a"
    fill(path, b"old")
    fill(path, b"new")
    assert (path / "x").read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_filled_leaves_the_old_one(tmp_path):
    path = tmp_path / "a"
    fill(path, b"old")

    def half():
        with files.new_folder(path) as folder:
            files.write_file(folder / "x", [b"new"])
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        half()
    assert (path / "x").read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_renamed_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "a"
    fill(path, b"old")
    replace = type(path).replace

    def refuse(self, target):
        if self.name == "a.tmp":
            raise PermissionError(13, "Permission denied")
        return replace(self, target)

    monkeypatch.setattr(type(path), "replace", refuse)
    with pytest.raises(PermissionError):
        fill(path, b"new")
    monkeypatch.undo()
    assert (path / "x").read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_are_removed_and_a_folder_that_stepped_aside_comes_back(tmp_path):
    model = tmp_path / "net.dnn"
    for name in ("net.dnn.1.tmp", "other.tmp"):
        (tmp_path / name).write_bytes(b"")
    for name in (
        "net.dnn.1.ckp.tmp",
        "net.dnn.1.ckp.old.tmp",
        "net.dnn.2.ckp",
        "net.dnn.2.ckp.old.tmp",
        "net.dnn.3.ckp.gone.tmp",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "net.dnn.1.ckp.old.tmp" / "x").write_bytes(b"old")
    files.remove_leftovers(model)
    assert sorted(os.listdir(tmp_path)) == ["net.dnn.1.ckp", "net.dnn.2.ckp", "other.tmp"]
    assert (tmp_path / "net.dnn.1.ckp" / "x").read_bytes() == b"old"


def test_removing_what_is_not_there_is_no_error(tmp_path):
    files.remove(tmp_path / "a")
    files.remove_leftovers(tmp_path / "nowhere" / "net.dnn")
