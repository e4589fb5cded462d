"""What killed runs left is removed, and nothing else is."""

from __future__ import annotations

import pytest
from small import make_session

from cntk_core.network.files import TEMPORARY
from cntk_core.system.processes import Process
from cntk_kit_recipes.session.leftovers import remove_leftovers

MODEL = b"\x40\0\0\0\0\0\0\0{"
POINTER = b'{\n "format": "cntk-core-checkpoint", "gen'


def names(folder) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("name", "content"),
    [("net.tmp", MODEL), ("net.12.tmp", MODEL), ("net.ckp.tmp", POINTER), ("net.1.ckp.tmp", POINTER)],
)
def test_what_earlier_versions_left_is_removed(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    remove_leftovers(tmp_path / "net")
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("net2.tmp", MODEL),  # of another job
        ("net-notes.tmp", MODEL),
        ("network.1.ckp.tmp", POINTER),
        ("net.notes.tmp", MODEL),
        ("net.tmp", b"a text of the user's"),
        ("net.1.tmp", b""),
        ("net.1", MODEL),
    ],
)
def test_what_is_not_ours_stays(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    remove_leftovers(tmp_path / "net")
    assert (tmp_path / name).read_bytes() == content


def test_folders_and_links_stay(tmp_path):
    (tmp_path / "elsewhere").write_bytes(MODEL)
    (tmp_path / "net.tmp").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "net.1.tmp").mkdir()
    before = names(tmp_path)
    remove_leftovers(tmp_path / "net")
    assert names(tmp_path) == before


def test_there_is_no_folder(tmp_path):
    remove_leftovers(tmp_path / "nowhere" / "net")
    assert names(tmp_path) == set()


def test_a_training_removes_nothing_of_others(tmp_path):
    """The user's own folder beside the model, a file in flight of a job whose path begins like ours, notes."""
    kept = ["net.dnn-notes.tmp/diary.txt", "net.dnn2.tmp", ".net.dnn2.0000aaaa-1-1-0.tmp", "net.dnn.checkpoints/diary"]
    for name in kept:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    make_session(tmp_path, max_epochs=1).run()
    assert set(kept) <= names(tmp_path)


def test_a_training_removes_what_a_killed_one_had_begun(tmp_path):
    folder = tmp_path / "net.dnn.checkpoints"
    dead = Process("another machine", 1, "1").token
    for name in (f"new-{dead}-3{TEMPORARY}", "new.tmp", "1-0123456789abcdef.tmp", "1-0123456789abcdef"):
        (folder / name).mkdir(parents=True)
        (folder / name / "arrays.safetensors").write_bytes(b"half")
    (folder / f"file-{dead}-4{TEMPORARY}").write_bytes(b"half")
    make_session(tmp_path, max_epochs=1).run()
    assert len(list(folder.iterdir())) == 1
    assert not list(tmp_path.glob("*.tmp"))
    assert not list(tmp_path.glob("*.lock"))
