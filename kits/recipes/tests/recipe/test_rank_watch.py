"""Which process of the ranks ended first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from cntk_kit_recipes.launch.rank_watch import RankWatch
from cntk_kit_recipes.recipe.ranks import REPORTS, Launch, note_process


@pytest.fixture(params=["handles", "numbers"])
def watch(request, tmp_path, monkeypatch):
    if request.param == "numbers":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    with closing(RankWatch(tmp_path)) as made:
        yield made


def sleeper(folder, rank):
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    (folder / f"rank-{rank}.pid").write_text(str(process.pid), encoding="utf-8")
    return process


def end(process):
    process.kill()
    process.wait()


@pytest.mark.slow
def test_the_order_in_which_they_end(watch, tmp_path):
    ranks = [sleeper(tmp_path, rank) for rank in range(3)]
    watch.look(0.01)
    assert watch.ended == []
    for expected in ([2], [2, 0], [2, 0, 1]):
        end(ranks[expected[-1]])
        watch.look(0.5)
        assert watch.ended == expected
    watch.look(0.01)
    assert watch.ended == [2, 0, 1], "each is named once"
    assert not watch.tell()


def test_one_that_is_gone_before_anybody_looks(watch, tmp_path):
    end(sleeper(tmp_path, 1))
    watch.look(0.01)
    assert watch.ended == [1]


def test_a_file_that_is_not_written_yet(watch, tmp_path):
    (tmp_path / "rank-0.pid").touch()
    watch.look(0.01)
    assert watch.ended == []
    assert not watch.tell()


def test_they_are_told(watch, tmp_path):
    """Also those that nobody has looked at yet."""
    ranks = [sleeper(tmp_path, rank) for rank in range(2)]
    assert watch.tell()
    assert [process.wait(30) for process in ranks] == [-signal.SIGTERM] * 2


def test_they_are_told_with_the_signal_that_came(watch, tmp_path):
    ranks = [sleeper(tmp_path, rank) for rank in range(2)]
    assert watch.tell(signal.SIGUSR1)
    assert [process.wait(30) for process in ranks] == [-signal.SIGUSR1] * 2


def test_ranks_leave_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv(REPORTS, str(tmp_path))
    note_process(Launch(0, 1))
    note_process(Launch(3, 4, "mpiexec"))
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {
        "rank-3.pid": str(os.getpid())
    }
