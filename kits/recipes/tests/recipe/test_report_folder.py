"""The folder of a launcher: one of its own, and none of launchers that were killed stays."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest

from cntk_core.system.processes import Process, began
from cntk_kit_recipes.launch.report_folder import report_folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_folders_of_the_dead_are_removed(place):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        of_another = Process(Process.own().machine, process.pid, began(process.pid)).token
        left = place / f"cntk-ranks-{of_another}-abc"
        left.mkdir()
        (left / "rank-0.pid").write_text("1")
        with report_folder():
            assert left.exists(), "its launcher lives"
        process.communicate()
    with report_folder() as folder:
        assert [path.name for path in place.iterdir()] == [folder.name]
        assert folder.name.startswith(f"cntk-ranks-{Process.own().token}-")
    assert not list(place.iterdir())


def test_what_is_not_ours_stays(place, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    dead = f"{Process.own().token.partition('-')[0]}-{2**22 + 1}-1"
    (place / f"cntk-ranks-{dead}-link").symlink_to(elsewhere)
    (place / f"cntk-ranks-{dead}-file").write_text("x")
    (place / f"cntk-ranks-{Process('another machine', 1, '1').token}-abc").mkdir()
    (place / "cntk-ranks-notes").mkdir()
    before = sorted(place.iterdir())
    with report_folder():
        pass
    assert sorted(place.iterdir()) == before
    assert elsewhere.is_dir()
